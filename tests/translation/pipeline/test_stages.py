"""The stages that ask the owner, and that look at a group again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from guardagent.policy.documents import read_document
from guardagent.policy.review.record import RecordedAnswer, ReviewChoice, ReviewFinding, ReviewQuestion
from guardagent.translation.context import TranslationContext
from guardagent.translation.drafts import Draft, RuleDraft
from guardagent.translation.stages import MOST_CHARACTERS, OwnerAnswers, kept_confirmations
from guardagent.translation.tools import ToolSchema
from tests.policy.review.reviews import review_of, shop

# --- the answers that a request shows, and those that concern another draft


DOCUMENT = """\
# Rooms

A suite is booked by a manager. A suite is cleaned before it is booked. Every guest gets a key.

# Boats

A boat is let for a day. A boat with an engine needs a licence.
"""
SUITE, CLEANED, KEY, BOAT, ENGINE = 2, 3, 4, 6, 7
WHEN = "2026-05-01T10:00:00+00:00"


@pytest.fixture
def context(tmp_path: Path) -> TranslationContext:
    (tmp_path / "POLICY.md").write_text(DOCUMENT)
    tools = tuple(ToolSchema(name, "", {"type": "object"}) for name in ("book", "clean", "give_key", "let_boat"))
    return TranslationContext(read_document(tmp_path / "POLICY.md"), tools, folder=tmp_path)


def answers(context: TranslationContext, *texts: tuple[int, str], applied: bool = False) -> OwnerAnswers:
    """The answers to questions about sentences; all are 'Yes'. Those about suites and keys are definitions."""
    choices = (ReviewChoice("Yes", None, ""), ReviewChoice("No", None, ""))
    questions = [
        ReviewQuestion(f"ambiguity-{at}", (context.sentence(number).hash,), (), text, choices)
        for at, (number, text) in enumerate(texts)
    ]
    recorded_answers = [RecordedAnswer(question.id, 0, "Ann", WHEN, applied) for question in questions]
    enforceable = [context.sentence(number).hash for number in (CLEANED, BOAT, ENGINE)]
    return OwnerAnswers(context, questions, recorded_answers, enforceable)


def draft(sentence: int, temporal: str, rulings: tuple[str, ...] = ()) -> Draft:
    return Draft((sentence,), (RuleDraft("a", {"temporal": temporal}, {sentence: "words"}),), rulings=rulings)


def test_the_own_answers_come_first_and_those_of_definitions_follow(context: TranslationContext) -> None:
    """Those about other sentences that have rules of their own are not shown."""
    texts = (
        (ENGINE, "Is a motor an engine?"),
        (SUITE, "Is a large room a suite?"),
        (CLEANED, "Is a wiped room clean?"),
    )
    shown = list(answers(context, *texts).shown([CLEANED]).values())
    assert [next(word for word in ("motor", "suite", "wiped") if word in text) for text in shown] == ["wiped", "suite"]


def test_answers_are_bounded_apart_from_the_own_ones(context: TranslationContext) -> None:
    texts = [(KEY, f"Is the card number {at} a key? {'long ' * 60}") for at in range(100)]
    owner = answers(context, *texts, (BOAT, "Is a raft a boat?"))
    assert len(owner.shown([KEY])) >= 100
    shown = owner.shown([BOAT])
    assert "raft" in next(iter(shown.values()))
    assert len("".join(shown.values())) < MOST_CHARACTERS + 200


def test_an_answer_about_a_definition_concerns_those_who_quote_it(context: TranslationContext) -> None:
    owner = answers(context, (SUITE, "Is a large room a suite?"), (CLEANED, "Is a wiped room clean?"))
    booking = "before(book(), true, f:clean(), true)"
    assert owner.concerns(draft(SUITE, booking))
    assert not owner.concerns(draft(CLEANED, booking)), "it has rules of its own, which are written again anyway"
    assert not owner.concerns(draft(BOAT, booking)), "it shares no more than words and tools"
    assert not owner.concerns(draft(SUITE, booking, tuple(ruling.key for ruling in owner.rulings))), "it is known"
    assert not answers(context, (SUITE, "Is a large room a suite?"), applied=True).concerns(draft(SUITE, booking))


def test_an_answer_about_a_sentence_that_is_gone_is_none(context: TranslationContext, tmp_path: Path) -> None:
    owner = answers(context, (ENGINE, "Is a motor an engine?"))
    (question,) = (ruling.question for ruling in owner.rulings)
    (tmp_path / "POLICY.md").write_text(DOCUMENT.replace("with an engine", "with a sail"))
    changed = TranslationContext(read_document(tmp_path / "POLICY.md"), context.tools)
    known = [RecordedAnswer(question.id, 0, "Ann", WHEN)]
    assert OwnerAnswers(changed, [question], known).rulings == ()
    assert len(OwnerAnswers(context, [question], known).rulings) == 1


# --- confirmations that stand after another translation


FINDING = ReviewFinding("contradictory", "Two rules contradict each other.", rules=("refunds",))


@pytest.mark.parametrize(
    ("new", "voided"),
    [
        (FINDING, set()),
        (replace(FINDING, rules=("managers",)), {"managers"}),
        (replace(FINDING, rules=("managers",), blocking=False), set()),
        (replace(FINDING, message="Others do."), {"refunds"}),
    ],
)
def test_a_finding_with_the_same_words_about_another_rule_is_new(
    tmp_path: Path, new: ReviewFinding, voided: set[str]
) -> None:
    review = replace(review_of(shop(tmp_path)), findings=(FINDING,))
    now = replace(review, findings=(FINDING, new))
    confirmed = {rule for confirmation in kept_confirmations(review, now).confirmations for rule in confirmation.rules}
    assert {"refunds", "managers", "own"} - confirmed == voided
