"""The program of docs/hosts/smolagents.md is run unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("smolagents")
pytest.importorskip("openai")

from tests.docs.host_page import REFUNDS, run_page

ANSWER = [("final_answer", {"answer": "You get 50 back."})]


def test_the_page_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program blocks a real call; the model, behind HTTP, reads why and asks for less."""
    requests = run_page("smolagents", tmp_path, monkeypatch, [*REFUNDS[:2], ANSWER])
    assert "refund 100 or less" in str(requests[1])
