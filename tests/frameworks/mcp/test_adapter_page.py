"""The programs of docs/hosts/mcp.md run unchanged."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("fastmcp")

from tests.docs.test_docs import BLOCK, ROOT, run_python

PAGE = ROOT / "docs" / "hosts" / "mcp.md"


def test_the_programs_of_the_page(tmp_path: Path) -> None:
    """Both block a real call, and print the output on the page."""
    programs = 0
    for block in BLOCK.finditer(PAGE.read_text(encoding="utf-8")):
        if block["file"]:
            (tmp_path / block["file"]).write_text(block["text"])
        elif block["kind"] == "python":
            run_python(block["text"], tmp_path)
            programs += 1
            assert len(block["text"].splitlines()) < 40
    assert programs == 2


def test_every_option_is_on_the_page() -> None:
    """The page explains every option of the command."""
    ran = subprocess.run(
        [sys.executable, "-m", "guardagent", "mcp-proxy", "--help"],
        capture_output=True,
        text=True,
        check=True,
        env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"},
    )
    words = {word.rstrip(".,;") for word in ran.stdout.split()}
    options = {word for word in words if word.startswith("--") and len(word) > 3} - {"--help"}
    page = PAGE.read_text(encoding="utf-8")
    assert sorted(option for option in options if option not in page) == []
