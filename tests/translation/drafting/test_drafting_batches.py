"""Batches of sentences for one request."""

from __future__ import annotations

from pathlib import Path

from guardagent.policy.documents import read_document
from guardagent.translation.drafting import draft_batches


def test_batches_end_with_their_heading_and_differ_between_drafts(tmp_path: Path) -> None:
    path = tmp_path / "POLICY.md"
    path.write_text("# A\n\n" + "One is first. " * 9 + "\n\n# B\n\nTwo is second.\n")
    sentences = [sentence for sentence in read_document(path).sentences if sentence.kind == "sentence"]
    assert draft_batches(sentences) == ((2, 3, 4, 5), (6, 7, 8, 9), (10,), (12,))
    assert draft_batches(sentences, first=2) == ((2, 3), (4, 5, 6, 7), (8, 9, 10), (12,))
    assert draft_batches([]) == ()


def test_sentences_that_only_make_sense_together_stay_together(tmp_path: Path) -> None:
    path = tmp_path / "POLICY.md"
    path.write_text(
        "One is required. Two is required. Three is required. Four is optional before noon. Otherwise it is "
        "required. In that case a manager is asked.\n\nA refund needs:\n\n- a receipt,\n- a reason,\n- a date.\n\n"
        "The last one stands alone.\n"
    )
    sentences = read_document(path).sentences
    assert [sentence.number for sentence in sentences] == [*range(1, 12)]
    assert draft_batches(sentences) == ((1, 2, 3), (4, 5, 6), (7, 8, 9, 10), (11,))
    assert draft_batches(sentences, first=2)[:2] == ((1, 2), (3, 4, 5, 6))


def test_a_long_list_is_split(tmp_path: Path) -> None:
    """Each item has its introduction beside it in the request."""
    path = tmp_path / "POLICY.md"
    path.write_text("A refund needs:\n\n" + "".join(f"- the form {number},\n" for number in range(12)))
    assert [len(draft_batch) for draft_batch in draft_batches(read_document(path).sentences)] == [8, 4, 1]
