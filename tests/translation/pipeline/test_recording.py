"""Nothing open in a document is decided silently: it becomes a question or a finding with its sentences."""

from __future__ import annotations

from pathlib import Path

import pytest

from guardagent.policy.review.record import Review
from guardagent.translation.pipeline import Translation, translate
from tests.models.conftest import Serve, serve
from tests.translation.pipeline.planted import CONTRADICTIONS, TOOLS, PlantedDocument

__all__ = ["serve"]


def translated(document: PlantedDocument, serve: Serve, folder: Path) -> Translation:
    serve(document.reply)
    (folder / "POLICY.md").write_text(document.text)
    return translate(folder / "POLICY.md", TOOLS, model="openai/test", out=folder / "policies.yaml")


def hash_of(sentence: str, review: Review) -> str:
    return next(one.hash for one in review.sentences if one.text == sentence)


@pytest.mark.slow
@pytest.mark.parametrize("are_apart", [True, False])
def test_every_planted_ambiguity_and_contradiction_is_reported(
    serve: Serve, tmp_path: Path, *, are_apart: bool
) -> None:
    """Also where both sentences of a contradiction are drafted together: no draft has to resolve it."""
    document = PlantedDocument(are_apart=are_apart)
    result = translated(document, serve, tmp_path)
    review = result.review
    ambiguous = [one.sentence for one in document.clauses.values() if one.behaviour]
    assert len(ambiguous) == 12
    in_question = {sentence for one in review.open_questions for sentence in one.sentences}
    assert [one for one in ambiguous if hash_of(one, review) not in in_question] == []
    found = [{*one.sentences} for one in review.findings if one.blocking]
    pairs = [{hash_of(one.first.sentence, review), hash_of(one.second.sentence, review)} for one in CONTRADICTIONS]
    assert [one for one, pair in zip(CONTRADICTIONS, pairs, strict=True) if pair not in found] == []
    assert all(one in pairs for one in found), "nothing else is blocking"
    assert result.outcome == 1
    assert {one.fate for one in review.sentences} == {"definition", "rule"}


@pytest.mark.slow
def test_the_twin_has_no_question_and_nothing_that_blocks(serve: Serve, tmp_path: Path) -> None:
    result = translated(PlantedDocument(is_twin=True), serve, tmp_path)
    assert result.review.questions == ()
    assert [one for one in result.review.findings if one.blocking] == []
    assert result.outcome == 0
