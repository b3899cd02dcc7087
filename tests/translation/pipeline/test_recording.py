"""Nothing open in a document is decided silently: it becomes a question or a finding with its sentences."""

from __future__ import annotations

from pathlib import Path

import pytest

from guardagent.policy.review.record import Review, ReviewFinding
from guardagent.translation.pipeline import Translation, translate
from tests.models.conftest import Serve, serve
from tests.translation.pipeline.planted import CONTRADICTIONS, TOOLS, PlantedDocument

__all__ = ["serve"]


def translated(document: PlantedDocument, serve: Serve, folder: Path) -> Translation:
    serve(document.reply)
    (folder / "POLICY.md").write_text(document.text)
    return translate(folder / "POLICY.md", TOOLS, model="openai/test", out=folder / "policies.yaml")


def hash_of(sentence: str, review: Review) -> str:
    return next(reviewed.hash for reviewed in review.sentences if reviewed.text == sentence)


def blocking(review: Review) -> list[ReviewFinding]:
    return [finding for finding in review.findings if finding.blocking]


@pytest.mark.slow
@pytest.mark.parametrize("are_apart", [True, False])
def test_every_planted_ambiguity_and_contradiction_is_reported(
    serve: Serve, tmp_path: Path, *, are_apart: bool
) -> None:
    """Also where both sentences of a contradiction are drafted together: no draft has to resolve it."""
    document = PlantedDocument(are_apart=are_apart)
    result = translated(document, serve, tmp_path)
    review = result.review
    ambiguous = [clause.sentence for clause in document.clauses.values() if clause.behaviour]
    assert len(ambiguous) == 12
    in_question = {sentence for open_question in review.open_questions for sentence in open_question.sentences}
    assert [wording for wording in ambiguous if hash_of(wording, review) not in in_question] == []
    conflicts = [{*finding.sentences} for finding in blocking(review)]
    pairs = [
        {hash_of(contradiction.first.sentence, review), hash_of(contradiction.second.sentence, review)}
        for contradiction in CONTRADICTIONS
    ]
    assert [
        contradiction for contradiction, pair in zip(CONTRADICTIONS, pairs, strict=True) if pair not in conflicts
    ] == []
    assert all(conflict in pairs for conflict in conflicts), "nothing else is blocking"
    assert result.outcome == 1
    assert {sentence.fate for sentence in review.sentences} == {"definition", "rule"}


@pytest.mark.slow
def test_the_twin_is_settled(serve: Serve, tmp_path: Path) -> None:
    result = translated(PlantedDocument(is_twin=True), serve, tmp_path)
    assert (result.review.questions, blocking(result.review), result.outcome) == ((), [], 0)
