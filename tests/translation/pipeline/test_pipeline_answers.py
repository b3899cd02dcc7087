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
from tests.translation.library import block, sentences_of
from tests.translation.pipeline import pharmacy
from tests.translation.pipeline.pharmacy import numbered, pharmacist
from tests.translation.pipeline.test_translation import EXCLUSIVE, LIMIT, WHEN, confirmed, folder, translated

__all__ = ["folder", "serve"]

AMOUNTS = numbered("Amounts are")
REFUNDS = [numbered("A refund is paid"), numbered("A refund is at most"), numbered("Refunds above")]
TAX: Mapping[int, Any] = {
    AMOUNTS: {"question": "Is the tax part of the amount of a refund?", "readings": ["Yes, with tax.", "No, without."]}
}
TABLETS = "Does a blister count as one tablet?"


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


def drafted(server: ScriptedServer) -> list[tuple[str, tuple[int, ...]]]:
    """The templates of all requests for drafts, with their sentences."""
    return sorted(sentences for request in server.requests if (sentences := sentences_of(request))[0] != "survey")


def users(server: ScriptedServer) -> Sequence[str]:
    return [request["messages"][-1]["content"] for request in server.requests]


@pytest.mark.slow
def test_an_answer_reaches_all_rules_that_it_concerns_once(serve: Serve, folder: Path) -> None:
    serve(pharmacist(survey=TAX))
    assert [open_question.text for open_question in translated(folder).review.open_questions] == [
        '"Amounts are in euros." Is the tax part of the amount of a refund?'
    ]
    confirmed(folder)
    answer(folder)
    server = serve(pharmacist())
    result = translated(folder)
    assert drafted(server) == [(name, (refund,)) for name in ("draft", "second_draft") for refund in REFUNDS]
    assert all("answered 'Yes, with tax.'" in user for user in users(server))
    assert len(server.requests) <= 3 * len(REFUNDS)
    assert result.outcome == 0
    assert [(answer.question, answer.applied) for answer in result.review.answers] == [
        (result.review.questions[0].id, True)
    ]
    assert len(result.review.confirmations) == len(result.review.sentences), "the rules came out as they were"
    server = serve(pharmacist())
    again = translated(folder)
    assert (server.requests, again.review) == ([], replace(result.review, cost=again.review.cost))


@pytest.mark.slow
def test_a_rule_that_changes_after_an_answer_is_to_be_confirmed_again(serve: Serve, folder: Path) -> None:
    serve(pharmacist(survey=TAX))
    translated(folder)
    confirmed(folder)
    answer(folder)
    stricter = {REFUNDS[1]: {"temporal": "forall(refund(amount=a), a <= 200 && a > 0)"}}
    serve(pharmacist(first=stricter, second=stricter))
    review = translated(folder).review
    changed = review.sentences[REFUNDS[1] - 1]
    assert changed.hash not in {confirmation.sentence for confirmation in review.confirmations}
    assert "a > 0" in (folder / "policies.yaml").read_text()


@pytest.mark.slow
def test_an_edited_rule_is_not_written_again_after_an_answer(serve: Serve, folder: Path) -> None:
    serve(pharmacist(survey=TAX))
    translated(folder)
    policy = folder / "policies.yaml"
    policy.write_text(policy.read_text().replace("a <= 200", "a <= 150"))
    answer(folder)
    server = serve(pharmacist())
    translated(folder)
    assert "a <= 150" in policy.read_text()
    assert {group for _, group in drafted(server)} == {(REFUNDS[0],), (REFUNDS[2],)}


@pytest.mark.slow
def test_an_answer_that_reaches_no_draft_blocks(serve: Serve, folder: Path) -> None:
    serve(pharmacist(survey=TAX))
    translated(folder)
    answer(folder)
    serve(pharmacist(answered=lambda template, group, _: "I refuse." if group == (REFUNDS[0],) else None))
    result = translated(folder)
    (finding,) = (finding for finding in result.review.findings if finding.blocking)
    assert (finding.kind, finding.rules) == ("unapplied_answer", ("own_order",))
    assert not result.review.answers[0].applied
    serve(pharmacist())
    assert translated(folder).outcome == 0


@pytest.mark.slow
def test_an_answer_that_concerns_no_rule_needs_no_request(serve: Serve, folder: Path) -> None:
    serve(pharmacist(survey={AMOUNTS: {"question": "Are cents rounded?", "readings": ["Yes, up.", "No."]}}))
    assert translated(folder).outcome == 1
    answer(folder)
    server = serve(pharmacist())
    result = translated(folder)
    assert (server.requests, result.outcome, result.review.answers[0].applied) == ([], 0, True)
    assert translated(folder).review.questions == result.review.questions


@pytest.mark.slow
def test_answers_go_into_later_requests(serve: Serve, folder: Path) -> None:
    """Also into the survey, with the most relevant one first."""
    serve(pharmacist(survey={**TAX, LIMIT: {"question": TABLETS, "readings": ["Yes.", "No."]}}))
    translated(folder)
    answer(folder)
    serve(pharmacist())
    translated(folder)
    changed = pharmacy.DOCUMENT.replace("than 30 tablets at once", "than thirty tablets at once")
    (folder / "POLICY.md").write_text(changed)
    quotes = {LIMIT: {"quotes": [{"sentence": LIMIT, "words": "Never dispense more than thirty tablets at once"}]}}
    server = serve(pharmacist(first=quotes, second=quotes))
    translated(folder)
    assert {sentences_of(request)[0] for request in server.requests} == {"survey", "draft", "second_draft"}
    assert all("Is the tax part" in user for user in users(server))


def test_a_draft_that_follows_the_answer_is_not_sent_back(serve: Serve, folder: Path) -> None:
    doubt = {LIMIT: {"question": TABLETS, "readings": ["Yes, as one.", "No."]}}

    def followed(template: str, group: tuple[int, ...], user: str) -> str | None:
        if template == "survey" or LIMIT not in group:
            return None
        assert f"1. [{LIMIT}] {TABLETS} (1) Yes, as one. (2) No." in user
        content = json.loads(pharmacy.draft_answer(group)) | {"followed": [{"doubt": 1, "reading": 1}]}
        return block(json.dumps(content) + "\n")

    serve(pharmacist(survey=doubt, answered=followed))
    translated(folder)
    answer(folder, choice=0)
    server = serve(pharmacist())
    result = translated(folder)
    assert (drafted(server), result.outcome) == ([], 0)
    assert result.review.answers[0].applied


def test_own_words_are_a_ruling_for_both_drafts(serve: Serve, folder: Path) -> None:
    """The rule that comes out is to be confirmed, as all else."""
    serve(pharmacist(second=EXCLUSIVE))
    translated(folder)
    answer(folder, choice=None, words="Neither: at most 25 on Mondays,\n else 30.")
    server = serve(pharmacist())
    result = translated(folder)
    assert drafted(server) == [("draft", (LIMIT,)), ("second_draft", (LIMIT,))]
    ruling = "answered in own words, which decide: 'Neither: at most 25 on Mondays, else 30.'"
    assert all(ruling in user for user in users(server))
    assert (result.outcome, result.review.answers[0].applied) == (0, True)
    assert not result.review.confirmations
    assert {rule.id: rule.readings for rule in result.review.rules}["tablet_limit"] == "answered"


@pytest.mark.slow
def test_own_words_that_the_drafts_take_differently_decide_nothing(serve: Serve, folder: Path) -> None:
    serve(pharmacist(second=EXCLUSIVE))
    translated(folder)
    answer(folder, choice=None, words="As the doctor says.")
    server = serve(pharmacist(second=EXCLUSIVE))
    result = translated(folder)
    assert len(server.requests) <= 3
    (finding,) = (finding for finding in result.review.findings if finding.kind == "unapplied_answer")
    assert "take an answer in own words differently" in finding.message
    assert (result.outcome, result.review.answers[0].applied) == (1, False)
    answer(folder, choice=None, words="Thirty is fine.")
    server = serve(pharmacist())
    assert translated(folder).outcome == 0
    assert drafted(server) == [("draft", (LIMIT,)), ("second_draft", (LIMIT,))], "other words are another ruling"


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
    serve(pharmacist(second=EXCLUSIVE))
    review: Review = translated(folder).review
    path = review_path(folder / "policies.yaml")
    content = json.loads(path.read_text())
    content["answers"] = [{"question": review.questions[0].id, "by": "Ann", "at": WHEN, **answer}]
    path.write_text(json.dumps(content))
    with pytest.raises(Exception, match=problem):
        read_review(path)
