"""Runs the programs of a page of docs/hosts/ unchanged, with a scripted model behind the API of OpenAI."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.docs.test_docs import BLOCK, ROOT, expected_output
from tests.frameworks.model_server import ModelTurn, model_server

REFUNDS: Sequence[ModelTurn] = (
    [("refund", {"order_id": "W1", "amount": 500})],
    [("refund", {"order_id": "W1", "amount": 50})],
    "You get 50 back.",
)
"""The model asks for 500, gets the reason, and asks for 50."""


def run_page(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, turns: Sequence[ModelTurn] = REFUNDS
) -> list[dict[str, object]]:
    """Writes the files of a page, and runs its programs, each below forty lines. Returns the requests to the model."""
    blocks = list(BLOCK.finditer((ROOT / "docs" / "hosts" / f"{name}.md").read_text(encoding="utf-8")))
    programs = [block["text"] for block in blocks if block["kind"] == "python"]
    for block in blocks:
        if block["file"]:
            (folder / block["file"]).write_text(block["text"])
    assert programs
    requests: list[dict[str, object]] = []
    for text in programs:
        assert len([line for line in text.splitlines() if not line.startswith("#> ")]) < 40
        with model_server(turns) as server:
            for variable in ("OPENAI_BASE_URL", "OPENAI_API_BASE"):
                monkeypatch.setenv(variable, server.url)
            monkeypatch.setenv("OPENAI_API_KEY", "none")
            printed = run_program(text, folder)
            requests += server.requests
        assert printed == expected_output(text)
    return requests


def run_program(text: str, folder: Path) -> list[str]:
    """Runs a program as a file, since some hosts read the source of their tools. Returns the printed lines."""
    (folder / "program.py").write_text(text)
    ran = subprocess.run([sys.executable, "program.py"], cwd=folder, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()
