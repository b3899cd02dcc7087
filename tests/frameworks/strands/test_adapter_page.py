"""The programs of docs/hosts/strands.md are run unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("strands.models.openai")

from tests.docs.host_page import run_page


def test_the_page_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program blocks a real call; the model, behind HTTP, reads why and asks for less."""
    requests = run_page("strands", tmp_path, monkeypatch)
    assert "refund 100 or less" in str(requests[1])
