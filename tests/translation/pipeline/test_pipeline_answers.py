"""The answers of the owner: the drafts that they reach, and answers in own words."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from guardagent.policy.review import read_review, review_path, write_review
from guardagent.policy.review.record import RecordedAnswer, Review
from tests.models.conftest import Serve, serve
from tests.models.server import ScriptedServer
from tests.translation.library import sentences_of
from tests.translation.pipeline import pharmacy
from tests.translation.pipeline.pharmacy import numbered, pharmacist
from tests.translation.pipeline.test_translation import AMBIGUOUS, LIMIT, WHEN, confirmed, folder, translated

__all__ = ["folder", "serve"]

AMOUNTS = numbered("Amounts are")
REFUNDS = [numbered("A refund is paid"), numbered("A refund is at most"), numbered("Refunds above")]
LIMITED = REFUNDS[1]
TAX = {"question": "Is the tax part of the amount?", "readings": ["Yes, with tax.", "No, without."]}
WITH_TAX: Mapping[int, Any] = {
    number: {
        "quotes": [
            {"sentence": number, "words": pharmacy.SENTENCES[number - pharmacy.FIRST][0].rstrip(".")},
            {"sentence": AMOUNTS, "words": "Amounts are in euros"},
        ],
        **({"ambiguous": {**TAX, "sentence": AMOUNTS}} if number == LIMITED else {}),
    }
    for number in REFUNDS[1:]
}
"""Two rules quote the definition of an amount, which the author of one of them calls ambiguous."""


def answer(folder: Path, *, choice: int | None = 0, words: str = "") -> None:
    """Answers all open questions."""
    path = review_path(folder / "policies.yaml")
    review = read_review(path)
    left = [answer for answer in review.answers if answer.applied]
    there = {doubt.question for doubt in left}
    new = [
        RecordedAnswer(question.id, choice, "Ann", WHEN, words=words)
        for question in review.questions
        if question.id not in there
    ]
    write_review(path, replace(review, answers=(*left, *new)))


def drafted(server: ScriptedServer) -> list[tuple[int, ...]]:
    """The sentences of all requests for rules."""
    return sorted(group for request in server.requests for name, group in [sentences_of(request)] if name == "draft")


def users(server: ScriptedServer) -> Sequence[str]:
    return [request["messages"][-1]["content"] for request in server.requests]


@pytest.mark.slow
def test_an_answer_about_a_definition_reaches_the_rules_that_quote_it(serve: Serve, folder: Path) -> None:
    serve(pharmacist(first=WITH_TAX))
    assert [open_question.text for open_question in translated(folder).review.open_questions] == [
        '"Amounts are in euros." Is the tax part of the amount?'
    ]
    confirmed(folder)
    answer(folder)
    server = serve(pharmacist(first=WITH_TAX))
    result = translated(folder)
    assert drafted(server) == [(*REFUNDS[1:],)], "one request for both"
    assert all("answered 'Yes, with tax.'" in user for user in users(server))
    assert result.outcome == 0
    assert [(answer.question, answer.applied) for answer in result.review.answers] == [
        (result.review.questions[0].id, True)
    ]
    server = serve(pharmacist())
    again = translated(folder)
    assert (server.requests, again.review) == ([], replace(result.review, cost=again.review.cost))


@pytest.mark.slow
def test_an_answer_is_for_the_rules_of_its_own_sentence(serve: Serve, folder: Path) -> None:
    """Not for those of another sentence that quote the same definition and share its words and its tool."""
    quotes = {number: {"quotes": change["quotes"]} for number, change in WITH_TAX.items()}
    doubt = {"question": "Does the refund limit include the amount of the tax?", "readings": ["Yes.", "No."]}
    first = {**quotes, LIMITED: {**quotes[LIMITED], "ambiguous": doubt}}
    serve(pharmacist(first=first))
    translated(folder)
    answer(folder)
    server = serve(pharmacist(first=quotes))
    assert translated(folder).outcome == 0
    assert drafted(server) == [(LIMITED,)]


@pytest.mark.slow
def test_a_rule_that_changes_after_an_answer_is_to_be_confirmed_again(serve: Serve, folder: Path) -> None:
    serve(pharmacist(first=WITH_TAX))
    translated(folder)
    confirmed(folder)
    answer(folder)
    stricter = {"temporal": "forall(refund(amount=a), a <= 200 && a > 0)"}
    serve(pharmacist(first={LIMITED: {**WITH_TAX[LIMITED], **stricter}}))
    review = translated(folder).review
    changed = review.sentences[LIMITED - 1]
    assert changed.hash not in {confirmation.sentence for confirmation in review.confirmations}
    assert "a > 0" in (folder / "policies.yaml").read_text()


@pytest.mark.slow
def test_an_edited_rule_is_not_written_again_after_an_answer(serve: Serve, folder: Path) -> None:
    serve(pharmacist(first=WITH_TAX))
    translated(folder)
    policy = folder / "policies.yaml"
    policy.write_text(policy.read_text().replace("a <= 100", "a <= 50"))
    answer(folder)
    server = serve(pharmacist(first=WITH_TAX))
    translated(folder)
    assert "a <= 50" in policy.read_text()
    assert drafted(server) == [(LIMITED,)]


@pytest.mark.slow
def test_an_answer_that_reaches_no_draft_blocks(serve: Serve, folder: Path) -> None:
    serve(pharmacist(first=WITH_TAX))
    translated(folder)
    answer(folder)
    refusing = pharmacist(answered=lambda template, group, _: "I refuse." if LIMITED in group else None)
    serve(refusing)
    result = translated(folder)
    assert {finding.kind for finding in result.review.findings if finding.blocking} == {"unapplied_answer"}
    assert not result.review.answers[0].applied
    serve(pharmacist(first=WITH_TAX))
    assert translated(folder).outcome == 0


def test_own_words_are_a_ruling(serve: Serve, folder: Path) -> None:
    """The rule that comes out is to be confirmed, as all else."""
    serve(pharmacist(first=AMBIGUOUS))
    translated(folder)
    answer(folder, choice=None, words="Neither: at most 25 on Mondays,\n else 30.")
    server = serve(pharmacist())
    result = translated(folder)
    assert drafted(server) == [(LIMIT,)]
    ruling = "answered in own words, which decide: 'Neither: at most 25 on Mondays, else 30.'"
    assert any(ruling in user for user in users(server))
    assert (result.outcome, result.review.answers[0].applied) == (0, True)
    assert not result.review.confirmations
    assert {rule.id: rule.readings for rule in result.review.rules}["tablet_limit"] == "answered"
    answer(folder, choice=None, words="Thirty is fine.")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ({"choice": None}, "or 'words'"),
        ({"choice": None, "words": " "}, "or 'words'"),
        ({"choice": 1, "words": "Both."}, "expected one of both"),
        ({"choice": 7}, "position from 0 to 1, or null"),
    ],
)
def test_an_answer_is_a_choice_or_words(serve: Serve, folder: Path, answer: dict[str, Any], problem: str) -> None:
    serve(pharmacist(first=AMBIGUOUS))
    review: Review = translated(folder).review
    path = review_path(folder / "policies.yaml")
    content = json.loads(path.read_text())
    content["answers"] = [{"question": review.questions[0].id, "by": "Ann", "at": WHEN, **answer}]
    path.write_text(json.dumps(content))
    with pytest.raises(Exception, match=problem):
        read_review(path)
