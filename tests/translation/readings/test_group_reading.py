"""Each difference of two drafts and each ambiguity is a question; the answers decide which draft stands."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guardagent.batch.cases import judge_case
from guardagent.batch.records import read_case
from guardagent.errors import InputError
from guardagent.policy.equivalence.draft import ComparedDraft
from guardagent.policy.review.record import NeededFact, RecordedAnswer, ReviewQuestion
from guardagent.translation.drafts import Ambiguity, Draft, RuleDraft
from guardagent.translation.readings.group_reading import GroupReading, SentenceGroup, read_group, sentence_groups
from tests.policy.draft_pairs import DIFFERENT, SAME
from tests.translation.readings.ambiguous_document import CONTEXT, PLANTED, Planted, context_of, tool

pytest.importorskip("z3")

NUMBERED = list(enumerate(PLANTED, 1))


def group_of(first: Draft | None, second: Draft | None) -> SentenceGroup:
    """Returns the group of a single sentence."""
    number = next(draft.sentences[0] for draft in (first, second) if draft is not None)
    return SentenceGroup((number,), first, second)


def read(first: Draft | None, second: Draft | None, *answers: RecordedAnswer, **options: Any) -> GroupReading:
    """Reads a group of one sentence of the document."""
    known = {answer.question: answer for answer in answers}
    return read_group(group_of(first, second), CONTEXT, known, **options)


def answer(question: ReviewQuestion, text: str) -> RecordedAnswer:
    """Returns an answer that contains a text, in its words or in those of the reading."""
    positions = [at for at, choice in enumerate(question.choices) if text in (choice.answer, choice.words)]
    return RecordedAnswer(question.id, positions[0], "Ann", "2026-01-31T12:00:00Z")


@pytest.mark.parametrize(("number", "planted"), NUMBERED)
def test_an_ambiguity_is_a_question(number: int, planted: Planted) -> None:
    """The same one, whichever draft is the first one. The reading that denies stands until it is answered."""
    first, second = planted.first.draft(number, "a"), planted.second.draft(number, "b")
    there, back = read(first, second), read(second, first)
    assert [question.id for question in there.questions] == [question.id for question in back.questions]
    assert len(there.questions) == 1
    assert there.readings == "open"
    assert len(there.questions[0].choices) == 2
    assert there.questions[0].text.startswith(f'"{planted.sentence}" ')
    if there.questions[0].witness is not None:
        strict = there.questions[0].choices[-1].policy["policies"]
        assert [rule.source for rule in there.draft.rules] == strict


@pytest.mark.parametrize(("number", "planted"), NUMBERED)
def test_other_words_are_no_question(number: int, planted: Planted) -> None:
    """The drafts have other ids, names and forms."""
    reading = read(planted.first.draft(number, "a"), planted.same.draft(number, "b"))
    assert (reading.readings, reading.questions, reading.mending) == ("agree", (), ((), ()))
    assert not [finding for finding in reading.findings if finding.blocking]


@pytest.mark.slow
@pytest.mark.parametrize(("number", "planted"), NUMBERED)
@pytest.mark.parametrize("chosen", [0, 1])
def test_an_answer_decides(number: int, planted: Planted, chosen: int) -> None:
    """The other draft is to be mended; when it says the same, nothing is left."""
    drafts = planted.first.draft(number, "a"), planted.second.draft(number, "b")
    question = read(*drafts).questions[0]
    decision = answer_of(question, drafts[chosen])
    reading = read(*drafts, decision, earlier=[question])
    assert (reading.draft, reading.readings) == (drafts[chosen], "answered")
    contradicting = reading.mending[1] if chosen == 0 else reading.mending[0]
    assert [ruling.question.id for ruling in contradicting] == [question.id]
    assert question.choices[decision.choice or 0].answer in contradicting[0].text
    mended = read(drafts[chosen], drafts[chosen], decision, earlier=[question])
    assert (mended.readings, mended.mending) == ("answered", ((), ()))
    assert [question.id for question in mended.questions] == [question.id]


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
    first = [planted.first.draft(number, "a") for number, planted in NUMBERED]
    second = [planted.second.draft(number, "b") for number, planted in NUMBERED]
    groups = sentence_groups(first, second, range(1, len(PLANTED) + 1))
    readings = [read_group(group, CONTEXT, {}) for group in groups]
    assert [reading.readings for reading in readings] == ["open"] * 12
    assert len({question.id for reading in readings for question in reading.questions}) == 12


# --- ambiguities that a draft names


FLAGGED = Ambiguity(1, "Are 100 euros possible?", ("100 euros are possible", "less than 100 euros are possible"))


def test_a_named_ambiguity_is_a_question_although_the_drafts_agree() -> None:
    """Whoever names it; the same words are asked once."""
    first, second = PLANTED[0].first.draft(1, "a", FLAGGED), PLANTED[0].same.draft(1, "b", FLAGGED)
    reading = read(first, second, surveyed=[FLAGGED, Ambiguity(7, "Which order?", ("a", "b"))])
    assert [question.text for question in reading.questions] == [
        '"Refunds are possible up to 100 euros." Are 100 euros possible?'
    ]
    assert reading.readings == "open"


def test_a_named_ambiguity_stands_beside_a_witness() -> None:
    """They may be about different things."""
    reading = read(PLANTED[0].first.draft(1, "a", FLAGGED), PLANTED[0].second.draft(1, "b"))
    assert [question.witness is None for question in reading.questions] == [False, True]


def test_a_ruling_in_words_is_for_drafts_that_were_written_without_it() -> None:
    """Both of them, until their authors knew it."""
    first, second = PLANTED[0].first.draft(1, "a", FLAGGED), PLANTED[0].same.draft(1, "b")
    question = read(first, second).questions[0]
    decision = answer(question, FLAGGED.readings[0])
    reading = read(first, second, decision)
    assert reading.mending[0] == reading.mending[1]
    assert reading.readings == "open"
    assert reading.mending[0][0].text.endswith("the owner of the document answered '100 euros are possible'.")
    mended = [
        Draft((1,), draft.rules, draft.declarations, rulings=(reading.mending[0][0].key,)) for draft in (first, second)
    ]
    after = read(mended[0], mended[1], decision, earlier=[question])
    assert (after.readings, after.mending, len(after.questions)) == ("answered", ((), ()), 1)


def test_an_ambiguity_without_readings_is_a_finding() -> None:
    """It is no question that can be answered."""
    reading = read(PLANTED[0].first.draft(1, "a", Ambiguity(1, "Really?", ("yes", " "))), PLANTED[0].same.draft(1))
    assert [finding.kind for finding in reading.findings if finding.blocking] == ["ambiguous"]


def test_an_open_question_remains() -> None:
    """Although later drafts agree by chance, or no longer name it."""
    first, second = PLANTED[0].first.draft(1, "a", FLAGGED), PLANTED[0].second.draft(1, "b")
    questions = read(first, second).questions
    assert read(PLANTED[0].first.draft(1), PLANTED[0].same.draft(1), earlier=questions).questions == tuple(
        ReviewQuestion(question.id, question.sentences, ("rule_1",), question.text, question.choices, question.witness)
        for question in questions
    )


# --- drafts that are missing, or have no rule


def test_one_draft_alone_is_not_confirmed() -> None:
    """The finding blocks."""
    reading = read(PLANTED[0].first.draft(1), None)
    assert (reading.readings, [finding.kind for finding in reading.findings if finding.blocking]) == (
        "single",
        ["single_reading"],
    )
    assert read_group(SentenceGroup((1,), None, None), CONTEXT, {}).findings[0].blocking


def test_a_rule_that_one_draft_declines_is_a_question() -> None:
    """An answer chooses one of them."""
    rule, declined = PLANTED[0].first.draft(1), Draft((1,), declined={1: "amounts are unknown"})
    reading = read(declined, rule)
    question = reading.questions[0]
    assert [choice.words for choice in question.choices] == [
        "No rule can be written for this, because: amounts are unknown",
        "A call of `refund` is allowed only if its `amount` is at most 100.",
    ]
    assert reading.draft == rule
    assert read(declined, rule, answer(question, "no rule")).draft == declined
    assert read(declined, PLANTED[0].second.draft(1), answer(question, "this rule")).draft.rules
    both = read(declined, declined)
    assert (both.readings, both.questions, both.findings) == ("agree", (), ())


def test_a_rule_that_one_draft_forgets_is_a_question() -> None:
    """Its witness is what it denies; a sentence that both forget is a finding."""
    reading = read(Draft((1,)), PLANTED[0].first.draft(1))
    assert [choice.answer for choice in reading.questions[0].choices] == ["allowed", "not allowed"]
    assert [finding.kind for finding in read(Draft((1,)), Draft((1,))).findings] == ["no_rule"]


# --- answers


def test_neither_draft_keeps_an_answer() -> None:
    """Both of them are to be mended, and the finding blocks."""
    first, second = PLANTED[0].first.draft(1, "a"), PLANTED[0].second.draft(1, "b")
    question = read(first, second).questions[0]
    reading = read(second, second, answer(question, "allowed"), earlier=[question])
    assert reading.readings == "open"
    assert reading.mending[0] == reading.mending[1] != ()
    assert [finding.kind for finding in reading.findings if finding.blocking] == ["unapplied_answer"]


def test_an_answer_that_is_no_choice_is_an_error() -> None:
    """The review file was edited."""
    question = read(PLANTED[0].first.draft(1), PLANTED[0].second.draft(1)).questions[0]
    for choice in (-1, 2):
        with pytest.raises(InputError, match=f"the choice {choice}; expected 0 to 1"):
            read(PLANTED[0].first.draft(1), None, RecordedAnswer(question.id, choice, "", ""), earlier=[question])


def test_the_end_of_a_conversation_is_a_question() -> None:
    """By a question with yes and no, whose answer is a trace."""
    first, second = as_draft("F tool:notify"), as_draft("G(tool:refund -> F tool:notify)")
    reading = read(first, second)
    assert [choice.answer for choice in reading.questions[0].choices] == ["yes", "no"]
    after = read(first, second, answer(reading.questions[0], "no"), earlier=reading.questions)
    assert after.draft == first
    assert [
        (conversation.case["events"], conversation.case["label"])
        for conversation in after.mending[1]
        if conversation.case
    ] == [([], 1)]


@pytest.mark.slow
def test_several_differences_come_at_once() -> None:
    """Those of rules about other tools."""
    first, second = (
        Draft((1,), tuple(RuleDraft(f"r{at}", {"temporal": text}, {1: "…"}) for at, text in enumerate(texts)))
        for texts in (
            ["forall(refund(amount=a), a < 5)", "G !tool:export", "G !tool:ship", "forall(place_order(net=n), n < 2)"],
            ["forall(refund(amount=a), a <= 5)", "G !tool:ship", "forall(place_order(net=n), n <= 2)"],
        )
    )
    reading = read(first, second)
    assert len({question.id for question in reading.questions}) == 3
    answers = [answer(question, "not allowed") for question in reading.questions]
    assert read(first, second, *answers, earlier=reading.questions).draft == first


def test_one_difference_is_not_all() -> None:
    """The next one is asked as soon as the contradicting draft is mended."""
    first, second, mended = (
        Draft((1,), (RuleDraft("r", {"temporal": f"forall(refund(amount=a, order=o), {condition})"}, {1: "…"}),))
        for condition in ('a <= 5 && o != "X"', "a < 5", 'a < 5 && o != "X"')
    )
    questions = read(first, second).questions
    decision = answer_of(questions[0], first)
    waiting = read(first, second, decision, earlier=questions)
    assert (waiting.readings, waiting.questions) == ("answered", questions)
    assert [each.kind for each in waiting.findings] == ["unconfirmed_reading"]
    after = read(first, mended, decision, earlier=questions)
    assert (after.readings, after.draft, after.questions[:-1]) == ("open", mended, questions)
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
    sources = [{"temporal": rule} if isinstance(rule, str) else dict(rule) for rule in listed]
    made = [RuleDraft(f"{source.pop('id', 'r')}_{at}", source, {1: "…"}) for at, source in enumerate(sources)]
    return Draft((1,), tuple(made))


@pytest.mark.slow
def test_answers_as_one_draft_gives_them_choose_it() -> None:
    """For random pairs of drafts."""
    pairs = [source for pair in (*SAME, *DIFFERENT) for source in pair]
    random, seen = Random(11), Counter[str]()  # noqa: S311 - a fixed seed
    for _ in range(60):
        rules = random.choice(pairs), random.choice(pairs)
        first, second = as_draft(rules[0]), as_draft(rules[1])
        names = sorted({name for rule in rules for name in ComparedDraft(rule).tools})
        context = context_of(["This is a rule."], [tool(name, {}) for name in names or ["x"]])
        group = SentenceGroup((1,), first, second)
        group_reading = read_group(group, context, {})
        answers = {question.id: answer_of(question, first) for question in group_reading.questions}
        after = read_group(group, context, answers, earlier=group_reading.questions)
        assert after.draft == first or group_reading.readings == "agree"
        assert after.readings == ("answered" if group_reading.questions else "agree")
        seen[group_reading.readings] += 1
    assert seen["open"] > 20


def answer_of(question: ReviewQuestion, draft: Draft) -> RecordedAnswer:
    """Returns the answer of a draft: that whose reading has one of its rules, or no rule where it has none."""
    rules = [rule.source for rule in draft.rules]
    mine = [any(rule in rules for rule in choice.policy.get("policies", ())) for choice in question.choices]
    at = mine.index(True) if any(mine) else [choice.words for choice in question.choices].index("No rule.")
    return RecordedAnswer(question.id, at, "Ann", "2026-01-31T12:00:00Z")


# --- rules connect the enforceable sentences that they quote; nothing of a draft is lost


def rule(name: str, *sentences: int, text: str = "G !tool:x") -> RuleDraft:
    """Returns a rule that quotes sentences."""
    return RuleDraft(name, {"temporal": text}, dict.fromkeys(sentences, "…"))


def draft(sentences: Sequence[int], *rules: RuleDraft, **keys: Any) -> Draft:
    """Returns a draft of sentences."""
    return Draft(tuple(sentences), rules, **keys)


def test_rules_of_either_side_connect() -> None:
    """Definitions do not."""
    first = [draft([1, 2, 3, 4], rule("a", 1, 2, 9), rule("b", 4, 9))]
    second = [draft([1, 2], rule("c", 1), rule("d", 2)), draft([3, 4], rule("e", 3), rule("f", 4))]
    groups = sentence_groups(first, second, {1, 2, 3, 4})
    assert [group.sentences for group in groups] == [(1, 2), (3,), (4,)]
    assert [[rule.id for draft in group.drafts for rule in draft.rules] for group in groups] == [
        ["a", "c", "d"],
        ["e"],
        ["b", "f"],
    ]
    assert groups[0].grounds == (1, 2, 9)


def test_a_rule_without_an_enforceable_sentence_has_a_group() -> None:
    """It has the sentences that it quotes; a rule that quotes none is reported."""
    draft_result = draft([1, 9], rule("a", 1), rule("b", 9), rule("c"))
    groups = sentence_groups([draft_result], [draft_result], {1})
    assert [[rule.id for rule in group.drafts[0].rules] for group in groups] == [["c"], ["a"], ["b"]]
    group_reading = read_group(groups[0], context_of(["x"] * 9, [tool("x", {})]), {})
    assert [(finding.kind, finding.rules) for finding in group_reading.findings] == [("ungrounded_rule", ("c",))]


def test_a_side_without_a_draft_of_all_sentences_is_missing() -> None:
    """The group has one draft, and is not confirmed."""
    groups = sentence_groups([draft([1, 2], rule("a", 1, 2))], [draft([1], rule("b", 1))], {1, 2, 3})
    assert [(group.first is None, group.second is None) for group in groups] == [(False, True), (True, True)]


def test_what_rules_need_goes_with_them() -> None:
    """Declarations that other declarations mention as well; facts; what is said about the sentences."""
    draft_result = draft(
        [1, 2],
        rule("a", 1, text="forall(@writes(n=n), small(n) && fact(vip))"),
        rule("b", 2, text="G !tool:y"),
        declarations={
            "tags": {"writes": ["x"], "reads": ["y"]},
            "define": {"small(n)": "n < most", "smaller(n)": "n < 1"},
            "constants": {"most": 5, "least": 1},
        },
        facts=(NeededFact("vip"), NeededFact("old")),
        declined={3: "no tool"},
        ambiguities=(Ambiguity(2, "Which?", ("a", "b")), Ambiguity(8, "Who?", ("a", "b"))),
        rulings=("case-1",),
    )
    first, second, third, other = (group.first for group in sentence_groups([draft_result], [], {1, 2}))
    assert first
    assert second
    assert third
    assert other
    assert first.declarations == {
        "tags": {"writes": ["x"]},
        "define": {"small(n)": "n < most"},
        "constants": {"most": 5},
    }
    assert (first.facts, second.declarations, second.facts) == ((NeededFact("vip"),), {}, ())
    assert (third.declined, first.rulings) == ({3: "no tool"}, ("case-1",))
    assert [[ambiguity.sentence for ambiguity in each.ambiguities] for each in (first, second, third, other)] == [
        [],
        [2],
        [],
        [8],
    ]


def test_drafts_that_cannot_stand_together_are_reported() -> None:
    """The same name has two meanings, or the same id is that of two rules."""
    context = context_of(["x", "y"], [tool("x", {"n": "number"})])
    limits = [
        draft([at], rule(f"r{at}", 1, 2, text="forall(x(n=n), n < most)"), declarations={"constants": {"most": at}})
        for at in (1, 2)
    ]
    twice = [draft([1], rule("r", 1, 2)), draft([2], rule("r", 1, 2))]
    for side in (limits, twice):
        (group,) = sentence_groups(side, [limits[0]], {1, 2})
        group_reading = read_group(group, context, {})
        assert "expected another" in group.problems[0]
        assert {"incompatible_drafts", "single_reading"} <= {
            finding.kind for finding in group_reading.findings if finding.blocking
        }


NUMBERS = st.integers(1, 6)
RULES = st.lists(st.frozensets(NUMBERS, max_size=3), max_size=5)


@given(RULES, RULES, st.frozensets(NUMBERS))
def test_nothing_is_lost(first: Any, second: Any, enforceable: frozenset[int]) -> None:
    """Each enforceable sentence is in one group, and each rule once on its side."""
    sides = [
        draft(range(1, 7), *(rule(f"{side}{at}", *quotes) for at, quotes in enumerate(listed)))
        for side, listed in (("a", first), ("b", second))
    ]
    groups = sentence_groups([sides[0]], [sides[1]], enforceable)
    numbers = [number for group in groups for number in group.sentences]
    assert len(numbers) == len(set(numbers))
    assert enforceable <= set(numbers)
    for at, side in enumerate(sides):
        ids = [rule.id for group in groups for rule in group.drafts[at].rules]
        assert sorted(ids) == sorted(rule.id for rule in side.rules)
