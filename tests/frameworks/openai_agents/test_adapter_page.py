"""The program of docs/hosts/openai-agents.md is run unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("agents.testing")

from tests.docs.test_docs import BLOCK, ROOT, run_python

PAGE = ROOT / "docs" / "hosts" / "openai-agents.md"


def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    """Its policy is written; its program blocks a real call and prints the output on the page."""
    blocks = list(BLOCK.finditer(PAGE.read_text(encoding="utf-8")))
    for block in blocks:
        if block["file"]:
            (tmp_path / block["file"]).write_text(block["text"])
    programs = [block["text"] for block in blocks if block["kind"] == "python"]
    for text in programs:
        assert len([line for line in text.splitlines() if not line.startswith("#> ")]) < 40
        run_python(text, tmp_path)
    assert programs
