"""Each difference of two drafts and each ambiguity is a question; the answers decide which draft stands."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from guardagent.batch.cases import judge_case
from guardagent.batch.records import read_case
from guardagent.errors import InputError
from guardagent.policy.equivalence.draft import ComparedDraft
from guardagent.policy.review.record import RecordedAnswer, ReviewQuestion
from guardagent.translation.drafts import Ambiguity, Draft, RuleDraft
from guardagent.translation.readings.group_reading import GroupReading, SentenceGroup, read_group, sentence_groups
from tests.policy.draft_pairs import DIFFERENT, SAME
from tests.translation.readings.ambiguous_document import CONTEXT, PLANTED, Planted, context_of, tool

pytest.importorskip("z3")

NUMBERED = list(enumerate(PLANTED, 1))


def group_of(first: Draft | None, second: Draft | None) -> SentenceGroup:
    """Returns the group of a single sentence."""
    number = next(one.sentences[0] for one in (first, second) if one is not None)
    return SentenceGroup((number,), first, second)


def read(first: Draft | None, second: Draft | None, *answers: RecordedAnswer, **options: Any) -> GroupReading:
    """Reads a group of one sentence of the document."""
    known = {one.question: one for one in answers}
    return read_group(group_of(first, second), CONTEXT, known, **options)


def answer(question: ReviewQuestion, text: str) -> RecordedAnswer:
    """Returns an answer that contains a text, in its words or in those of the reading."""
    found = [at for at, one in enumerate(question.choices) if text in (one.answer, one.words)]
    return RecordedAnswer(question.id, found[0], "Ann", "2026-01-31T12:00:00Z")


@pytest.mark.parametrize(("number", "planted"), NUMBERED)
def test_an_ambiguity_is_a_question(number: int, planted: Planted) -> None:
    """The same one, whichever draft is the first one. The reading that denies stands until it is answered."""
    first, second = planted.first.draft(number, "a"), planted.second.draft(number, "b")
    there, back = read(first, second), read(second, first)
    assert [one.id for one in there.questions] == [one.id for one in back.questions]
    assert len(there.questions) == 1
    assert there.readings == "open"
    assert len(there.questions[0].choices) == 2
    assert there.questions[0].text.startswith(f'"{planted.sentence}" ')
    if there.questions[0].witness is not None:
        strict = there.questions[0].choices[-1].policy["policies"]
        assert [one.source for one in there.draft.rules] == strict


@pytest.mark.parametrize(("number", "planted"), NUMBERED)
def test_other_words_are_no_question(number: int, planted: Planted) -> None:
    """The drafts have other ids, names and forms."""
    found = read(planted.first.draft(number, "a"), planted.same.draft(number, "b"))
    assert (found.readings, found.questions, found.mending) == ("agree", (), ((), ()))
    assert not [one for one in found.findings if one.blocking]


@pytest.mark.slow
@pytest.mark.parametrize(("number", "planted"), NUMBERED)
@pytest.mark.parametrize("chosen", [0, 1])
def test_an_answer_decides(number: int, planted: Planted, chosen: int) -> None:
    """The other draft is to be mended; when it says the same, nothing is left."""
    drafts = planted.first.draft(number, "a"), planted.second.draft(number, "b")
    question = read(*drafts).questions[0]
    decision = answer_of(question, drafts[chosen])
    found = read(*drafts, decision, earlier=[question])
    assert (found.draft, found.readings) == (drafts[chosen], "answered")
    contradicting = found.mending[1] if chosen == 0 else found.mending[0]
    assert [one.question.id for one in contradicting] == [question.id]
    assert question.choices[decision.choice or 0].answer in contradicting[0].text
    mended = read(drafts[chosen], drafts[chosen], decision, earlier=[question])
    assert (mended.readings, mended.mending) == ("answered", ((), ()))
    assert [one.id for one in mended.questions] == [question.id]


def test_an_answer_is_a_case_that_the_draft_passes() -> None:
    """It is kept with the policy."""
    first, second = PLANTED[0].first.draft(1), PLANTED[0].second.draft(1)
    question = read(first, second).questions[0]
    case = read(first, second, answer(question, "allowed")).mending[1][0].case
    assert case
    judged = judge_case(first.policies(CONTEXT), read_case(json.dumps(case), "cases.jsonl", 1))
    assert judged.label == case["label"] == 0


def test_every_open_question_of_the_document() -> None:
    """The sentences are grouped, and each of them is open."""
    first = [one.first.draft(number, "a") for number, one in NUMBERED]
    second = [one.second.draft(number, "b") for number, one in NUMBERED]
    groups = sentence_groups(first, second, range(1, len(PLANTED) + 1))
    found = [read_group(one, CONTEXT, {}) for one in groups]
    assert [one.readings for one in found] == ["open"] * 12
    assert len({question.id for one in found for question in one.questions}) == 12


# --- ambiguities that a draft names


FLAGGED = Ambiguity(1, "Are 100 euros possible?", ("100 euros are possible", "less than 100 euros are possible"))


def test_a_named_ambiguity_is_a_question_although_the_drafts_agree() -> None:
    """Whoever names it; the same words are asked once."""
    first, second = PLANTED[0].first.draft(1, "a", FLAGGED), PLANTED[0].same.draft(1, "b", FLAGGED)
    found = read(first, second, surveyed=[FLAGGED, Ambiguity(7, "Which order?", ("a", "b"))])
    assert [one.text for one in found.questions] == ['"Refunds are possible up to 100 euros." Are 100 euros possible?']
    assert found.readings == "open"


def test_a_named_ambiguity_stands_beside_a_witness() -> None:
    """They may be about different things."""
    found = read(PLANTED[0].first.draft(1, "a", FLAGGED), PLANTED[0].second.draft(1, "b"))
    assert [one.witness is None for one in found.questions] == [False, True]


def test_a_ruling_in_words_is_for_drafts_that_were_written_without_it() -> None:
    """Both of them, until their authors knew it."""
    first, second = PLANTED[0].first.draft(1, "a", FLAGGED), PLANTED[0].same.draft(1, "b")
    question = read(first, second).questions[0]
    decision = answer(question, FLAGGED.readings[0])
    found = read(first, second, decision)
    assert found.mending[0] == found.mending[1]
    assert found.readings == "open"
    assert found.mending[0][0].text.endswith("the owner of the document answered '100 euros are possible'.")
    mended = [Draft((1,), one.rules, one.declarations, rulings=(found.mending[0][0].key,)) for one in (first, second)]
    after = read(mended[0], mended[1], decision, earlier=[question])
    assert (after.readings, after.mending, len(after.questions)) == ("answered", ((), ()), 1)


def test_an_ambiguity_without_readings_is_a_finding() -> None:
    """It is no question that can be answered."""
    found = read(PLANTED[0].first.draft(1, "a", Ambiguity(1, "Really?", ("yes", " "))), PLANTED[0].same.draft(1))
    assert [one.kind for one in found.findings if one.blocking] == ["ambiguous"]


def test_an_open_question_remains() -> None:
    """Although later drafts agree by chance, or no longer name it."""
    first, second = PLANTED[0].first.draft(1, "a", FLAGGED), PLANTED[0].second.draft(1, "b")
    questions = read(first, second).questions
    assert read(PLANTED[0].first.draft(1), PLANTED[0].same.draft(1), earlier=questions).questions == tuple(
        ReviewQuestion(one.id, one.sentences, ("rule_1",), one.text, one.choices, one.witness) for one in questions
    )


# --- drafts that are missing, or have no rule


def test_one_draft_alone_is_not_confirmed() -> None:
    """The finding blocks."""
    found = read(PLANTED[0].first.draft(1), None)
    assert (found.readings, [one.kind for one in found.findings if one.blocking]) == ("single", ["single_reading"])
    assert read_group(SentenceGroup((1,), None, None), CONTEXT, {}).findings[0].blocking


def test_a_rule_that_one_draft_declines_is_a_question() -> None:
    """An answer chooses one of them."""
    rule, declined = PLANTED[0].first.draft(1), Draft((1,), declined={1: "amounts are unknown"})
    found = read(declined, rule)
    question = found.questions[0]
    assert [one.words for one in question.choices] == [
        "No rule can be written for this, because: amounts are unknown",
        "A call of `refund` is allowed only if its `amount` is at most 100.",
    ]
    assert found.draft == rule
    assert read(declined, rule, answer(question, "no rule")).draft == declined
    assert read(declined, PLANTED[0].second.draft(1), answer(question, "this rule")).draft.rules
    both = read(declined, declined)
    assert (both.readings, both.questions, both.findings) == ("agree", (), ())


def test_a_rule_that_one_draft_forgets_is_a_question() -> None:
    """Its witness is what it denies; a sentence that both forget is a finding."""
    found = read(Draft((1,)), PLANTED[0].first.draft(1))
    assert [one.answer for one in found.questions[0].choices] == ["allowed", "not allowed"]
    assert [one.kind for one in read(Draft((1,)), Draft((1,))).findings] == ["no_rule"]


# --- answers


def test_neither_draft_keeps_an_answer() -> None:
    """Both of them are to be mended, and the finding blocks."""
    first, second = PLANTED[0].first.draft(1, "a"), PLANTED[0].second.draft(1, "b")
    question = read(first, second).questions[0]
    found = read(second, second, answer(question, "allowed"), earlier=[question])
    assert found.readings == "open"
    assert found.mending[0] == found.mending[1] != ()
    assert [one.kind for one in found.findings if one.blocking] == ["unapplied_answer"]


def test_an_answer_that_is_no_choice_is_an_error() -> None:
    """The review file was edited."""
    question = read(PLANTED[0].first.draft(1), PLANTED[0].second.draft(1)).questions[0]
    for choice in (-1, 2):
        with pytest.raises(InputError, match=f"the choice {choice}; expected 0 to 1"):
            read(PLANTED[0].first.draft(1), None, RecordedAnswer(question.id, choice, "", ""), earlier=[question])


def test_the_end_of_a_conversation_is_a_question() -> None:
    """By a question with yes and no, whose answer is a trace."""
    first, second = as_draft("F tool:notify"), as_draft("G(tool:refund -> F tool:notify)")
    found = read(first, second)
    assert [one.answer for one in found.questions[0].choices] == ["yes", "no"]
    after = read(first, second, answer(found.questions[0], "no"), earlier=found.questions)
    assert after.draft == first
    assert [(one.case["events"], one.case["label"]) for one in after.mending[1] if one.case] == [([], 1)]


@pytest.mark.slow
def test_several_differences_come_at_once() -> None:
    """Those of rules about other tools."""
    first, second = (
        Draft((1,), tuple(RuleDraft(f"r{at}", {"temporal": one}, {1: "…"}) for at, one in enumerate(texts)))
        for texts in (
            ["forall(refund(amount=a), a < 5)", "G !tool:export", "G !tool:ship", "forall(place_order(net=n), n < 2)"],
            ["forall(refund(amount=a), a <= 5)", "G !tool:ship", "forall(place_order(net=n), n <= 2)"],
        )
    )
    found = read(first, second)
    assert len({one.id for one in found.questions}) == 3
    answers = [answer(one, "not allowed") for one in found.questions]
    assert read(first, second, *answers, earlier=found.questions).draft == first


def test_one_difference_is_not_all() -> None:
    """The next one is asked as soon as the contradicting draft is mended."""
    first, second, mended = (
        Draft((1,), (RuleDraft("r", {"temporal": f"forall(refund(amount=a, order=o), {one})"}, {1: "…"}),))
        for one in ('a <= 5 && o != "X"', "a < 5", 'a < 5 && o != "X"')
    )
    one = read(first, second).questions
    decision = answer_of(one[0], first)
    waiting = read(first, second, decision, earlier=one)
    assert (waiting.readings, waiting.questions) == ("answered", one)
    assert [each.kind for each in waiting.findings] == ["unconfirmed_reading"]
    after = read(first, mended, decision, earlier=one)
    assert (after.readings, after.draft, after.questions[:-1]) == ("open", mended, one)
    assert "exactly the limit" in after.questions[1].text
    last = answer_of(after.questions[1], first)
    assert read(first, mended, decision, last, earlier=after.questions).draft == first


def test_a_draft_about_another_document_is_an_error() -> None:
    """No sentence has its number."""
    for number in (0, 99):
        with pytest.raises(InputError, match="expected the numbers 1 to 12"):
            read(PLANTED[0].first.draft(number), None)


def test_a_witness_that_was_edited_is_an_error() -> None:
    """It has the id of its question."""
    question = read(PLANTED[0].first.draft(1), PLANTED[0].second.draft(1)).questions[0]
    edited = replace(question, witness={"proposed": 5})
    with pytest.raises(InputError, match=question.id):
        read(PLANTED[0].first.draft(1), None, earlier=[edited])


# --- any two drafts


def as_draft(rules: Any) -> Draft:
    """Returns a draft of one sentence with these rules."""
    listed = rules if isinstance(rules, list) else [rules]
    sources = [{"temporal": one} if isinstance(one, str) else dict(one) for one in listed]
    made = [RuleDraft(f"{one.pop('id', 'r')}_{at}", one, {1: "…"}) for at, one in enumerate(sources)]
    return Draft((1,), tuple(made))


@pytest.mark.slow
def test_answers_as_one_draft_gives_them_choose_it() -> None:
    """For random pairs of drafts."""
    pairs = [one for pair in (*SAME, *DIFFERENT) for one in pair]
    random, seen = Random(11), Counter[str]()  # noqa: S311 - a fixed seed
    for _ in range(60):
        rules = random.choice(pairs), random.choice(pairs)
        first, second = as_draft(rules[0]), as_draft(rules[1])
        names = sorted({name for one in rules for name in ComparedDraft(one).tools})
        context = context_of(["This is a rule."], [tool(one, {}) for one in names or ["x"]])
        group = SentenceGroup((1,), first, second)
        found = read_group(group, context, {})
        answers = {one.id: answer_of(one, first) for one in found.questions}
        after = read_group(group, context, answers, earlier=found.questions)
        assert after.draft == first or found.readings == "agree"
        assert after.readings == ("answered" if found.questions else "agree")
        seen[found.readings] += 1
    assert seen["open"] > 20


def answer_of(question: ReviewQuestion, draft: Draft) -> RecordedAnswer:
    """Returns the answer of a draft: that whose reading has one of its rules, or no rule where it has none."""
    rules = [one.source for one in draft.rules]
    mine = [any(rule in rules for rule in one.policy.get("policies", ())) for one in question.choices]
    at = mine.index(True) if any(mine) else [one.words for one in question.choices].index("No rule.")
    return RecordedAnswer(question.id, at, "Ann", "2026-01-31T12:00:00Z")
