"""Batches of sentences for one request."""

from __future__ import annotations

from pathlib import Path

from guardagent.documents import read_document
from guardagent.translation.drafting.batches import draft_batches


def test_batches_end_with_their_heading_and_differ_between_drafts(tmp_path: Path) -> None:
    path = tmp_path / "POLICY.md"
    path.write_text("# A\n\n" + "One is first. " * 9 + "\n\n# B\n\nTwo is second.\n")
    sentences = [one for one in read_document(path).sentences if one.kind == "sentence"]
    assert draft_batches(sentences) == ((2, 3, 4, 5), (6, 7, 8, 9), (10,), (12,))
    assert draft_batches(sentences, first=2) == ((2, 3), (4, 5, 6, 7), (8, 9, 10), (12,))
    assert draft_batches([]) == ()
