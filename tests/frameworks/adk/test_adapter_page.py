"""The programs of docs/hosts/adk.md are run unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("google.adk.plugins")

from tests.docs.host_page import REFUNDS, run_program
from tests.docs.test_docs import BLOCK, ROOT, expected_output
from tests.frameworks.adk.gemini_server import gemini_server


def test_the_page_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program blocks a real call; the model, behind HTTP, reads why and asks for less."""
    blocks = list(BLOCK.finditer((ROOT / "docs" / "hosts" / "adk.md").read_text(encoding="utf-8")))
    programs = [block["text"] for block in blocks if block["kind"] == "python"]
    for block in blocks:
        if block["file"]:
            (tmp_path / block["file"]).write_text(block["text"])
    assert programs
    for number, text in enumerate(programs):
        assert len([line for line in text.splitlines() if not line.startswith("#> ")]) < 40
        with gemini_server(REFUNDS) as server:
            monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.url)
            monkeypatch.setenv("GOOGLE_API_KEY", "none")
            printed = run_program(text, tmp_path)
        assert printed == expected_output(text)
        if number == 0:
            assert "refund 100 or less" in str(server.requests[1])
