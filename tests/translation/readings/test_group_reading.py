"""Two readings of a sentence, and disputed cases, are questions where a call depends on them; the answers decide."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from guardagent.policy.equivalence import Different, Same, compare_rules
from guardagent.policy.equivalence.draft import ComparedDraft
from guardagent.policy.equivalence.search import difference_of
from guardagent.policy.review.record import RecordedAnswer, ReviewQuestion
from guardagent.translation.assembly import assemble
from guardagent.translation.assembly.completion import completed
from guardagent.translation.drafts import Ambiguity, Draft, RuleDraft
from guardagent.translation.readings.cases import CaseReading, dispute_problems, disputes, expected, readable_cases
from guardagent.translation.readings.group_reading import GroupReader, GroupReading, SentenceGroup, sentence_groups
from guardagent.translation.readings.questions import (
    WholeDocument,
    loaded,
    reading_question,
    rulings_of,
    tools_of,
    witness_of,
)
from tests.policy.draft_pairs import DIFFERENT, SAME
from tests.translation.readings.ambiguous_document import CONTEXT, PLANTED, Planted, Reading, context_of, tool

pytest.importorskip("z3")

NUMBERED = list(enumerate(PLANTED, 1))


WHEN = "2026-01-31T12:00:00Z"
READINGS = ("The first sense.", "The second sense.")


def flagged(number: int, planted: Planted, other: Reading | None = None) -> Draft:
    """A draft by the first reading; its author has the rules by another one as well."""
    first, second = planted.first.draft(number), (other or planted.second).draft(number)
    ambiguity = Ambiguity(number, "Which sense?", READINGS, READINGS[0], second.rules)
    keys = {*first.declarations, *second.declarations}
    declared = {key: {**first.declarations.get(key, {}), **second.declarations.get(key, {})} for key in keys}
    return replace(first, declarations=declared, ambiguities=(ambiguity,))


def read(
    draft: Draft | None,
    *answers: RecordedAnswer,
    earlier: Sequence[ReviewQuestion] = (),
    others: Sequence[Draft] = (),
    more: Mapping[str, CaseReading] | None = None,
    known: Sequence[ReviewQuestion] = (),
) -> GroupReading:
    """Reads a group of one sentence of the document, whose cases somebody has read as their author expects."""
    reader = GroupReader(CONTEXT, tuple(rulings_of(earlier, answers)))
    cases = readable_cases(draft.rules, CONTEXT) if draft is not None else ()
    confirmed = {key: CaseReading(expected(rule, case)) for rule, case, key in cases}
    group = SentenceGroup((1,) if draft is None else draft.sentences, draft, read={**confirmed, **(more or {})})
    return reader.read(reader.chosen(group), WholeDocument(others, CONTEXT), known)


def answer(question: ReviewQuestion, text: str) -> RecordedAnswer:
    """Returns an answer that contains a text, in its words or in those of the reading."""
    positions = [at for at, choice in enumerate(question.choices) if text in choice.answer or text in choice.words]
    return RecordedAnswer(question.id, positions[0], "Ann", WHEN)


def blocking(reading: GroupReading) -> list[str]:
    return [finding.kind for finding in reading.findings if finding.blocking]


# --- two readings of a sentence


@pytest.mark.parametrize(("number", "planted"), NUMBERED)
def test_an_ambiguity_is_a_question(number: int, planted: Planted) -> None:
    """By a call on which the rules differ, where there is one. Until an answer, the reading that denies stands."""
    reading = read(flagged(number, planted))
    (question,) = reading.questions
    assert reading.readings == "open"
    if question.witness is not None:
        strict = question.choices[-1].policy["policies"]
        assert [rule.source for rule in reading.draft.rules] == strict
    assert question.text.startswith(f'"{planted.sentence}" Which sense?')
    assert {choice.words.partition(" (")[0] for choice in question.choices} == {*READINGS}
    assert question.witness is None or "For example: " in question.text


@pytest.mark.parametrize(("number", "planted"), NUMBERED)
def test_other_words_are_no_question(number: int, planted: Planted) -> None:
    """The rules by both readings have other names and forms, and mean the same."""
    reading = read(flagged(number, planted, planted.same))
    assert reading.questions == ()
    assert [finding.kind for finding in reading.findings] == ["same_readings", "single_reading"]


@pytest.mark.slow
@pytest.mark.parametrize(("number", "planted"), NUMBERED)
@pytest.mark.parametrize("chosen", [0, 1])
def test_an_answer_chooses_the_rules(number: int, planted: Planted, chosen: int) -> None:
    """Without its author: the rules by both readings are there."""
    draft = flagged(number, planted)
    question = read(draft).questions[0]
    reading = read(draft, answer(question, READINGS[chosen]), earlier=[question])
    if question.witness is not None:
        rules = (planted.first, planted.second)[chosen].draft(number).rules
        assert [rule.source for rule in reading.draft.rules] == [rule.source for rule in rules]
        assert (reading.readings, blocking(reading)) == ("answered", [])
    assert [each.id for each in reading.questions] == [question.id]


def test_rules_of_one_name_stand_together() -> None:
    """The rule with the sentence of its exception stands for the one without it; others get names of their own."""
    first, second = (replace(LIMIT.first.draft(number), sentences=(number,)) for number in (1, 2))
    case = {"id": "c", "proposed": {"tool": "refund"}, "label": 1, "rules": ["same"]}
    own, other = (replace(each.rules[0], id="same", cases=(case,)) for each in (first, second))
    whole = replace(other, quotes={**own.quotes, **other.quotes})
    pair = replace(first, rules=(own,)), replace(second, rules=(whole,))
    for drafts in (pair, pair[::-1]):
        (group,) = sentence_groups(drafts, [1, 2])
        assert group.rules == (whole,)
        assert not group.problems
    groups = sentence_groups((pair[0], replace(second, rules=(other,))), [1, 2])
    assert [(rule.id, rule.cases[0]["rules"]) for group in groups for rule in group.rules] == [
        ("same", ["same"]),
        ("same_2", ["same_2"]),
    ]


def draft_of(source: Any, number: int) -> Draft:
    """A draft of one sentence with the rules of a source."""
    rules = [{"temporal": each} if isinstance(each, str) else dict(each) for each in _listed(source)]
    named = (RuleDraft(f"{each.pop('id', 'r')}_{number}_{at}", each, {number: "…"}) for at, each in enumerate(rules))
    return Draft((number,), tuple(named))


def _listed(source: Any) -> list[Any]:
    return source if isinstance(source, list) else [source]


@pytest.mark.slow
def test_any_two_readings_are_compared_under_other_rules_and_chosen_by_an_answer() -> None:
    """The comparison agrees with one of all rules, and an answer leaves the rules of its reading."""
    random, seen = Random(11), Counter[str]()  # noqa: S311 - a fixed seed
    for at in range(30):
        rules = (*random.choice((SAME, DIFFERENT)[at % 2]), random.choice(random.choice(DIFFERENT)))
        first, second, other = (draft_of(source, number) for source, number in zip(rules, (1, 1, 2), strict=True))
        second = replace(second, rules=tuple(replace(rule, id=f"other_{rule.id}") for rule in second.rules))
        names = sorted({name for source in rules for name in ComparedDraft(source).tools})
        context = context_of(["This is a rule.", "This is another rule."], [tool(name, {}) for name in names or ["x"]])
        whole = WholeDocument([other], context)
        policies = [assemble((other, each), context).policies for each in (first, second)]
        assert policies[0]
        assert policies[1]
        everything = compare_rules(*policies, tools=tools_of(context))
        assert {type(whole.difference(first, second)), type(everything)} != {Same, Different}, rules
        gone = (RuleDraft(rule.id, {}, rule.quotes) for rule in first.rules)
        both = Ambiguity(1, "Which sense?", READINGS, READINGS[0], (*second.rules, *gone))
        group = SentenceGroup((1,), replace(first, ambiguities=(both,)))
        questions = GroupReader(context).read(group, whole).questions
        for question, (sense, chosen) in (
            (each, side) for each in questions for side in zip(READINGS, (first, second), strict=True)
        ):
            reader = GroupReader(context, tuple(rulings_of([question], [answer(question, sense)])))
            draft = reader.chosen(group).draft
            assert question.witness is None or (draft is not None and draft.rules == chosen.rules), rules
        seen["open" if questions else "same"] += 1
    assert min(seen["open"], seen["same"]) >= 4, seen


LIMIT = PLANTED[0]


def test_a_call_that_other_rules_deny_is_no_witness() -> None:
    """Whether 100 euros are possible does not matter where nobody gets more than 50."""
    lower = replace(Reading("forall(refund(amount=a), a <= 50)").draft(2, "lower"), sentences=(2,))
    reading = read(flagged(1, LIMIT), others=[lower])
    assert (reading.questions, blocking(reading)) == ((), ["single_reading"])


def test_a_witness_has_what_other_rules_need() -> None:
    """As their own allowed cases say it, for the ids of the call."""
    needs = Reading("before(refund(order=o), true, get_order(order=o), true)").draft(2, "needs")
    history = [{"tool": "get_order", "args": {"order": "o7"}, "output": "ok"}]
    allowed = {"id": "a", "history": history, "proposed": {"tool": "refund", "args": {"order": "o7"}}, "label": 0}
    others = [replace(needs, rules=(replace(needs.rules[0], cases=(allowed,)),))]
    (question,) = read(flagged(1, LIMIT), others=others).questions
    assert question.witness is not None
    (earlier,), args = question.witness["history"], question.witness["proposed"]["args"]
    assert (earlier["tool"], earlier["args"], args["amount"]) == ("get_order", {"order": args["order"]}, 100)
    assert "amount 100 (exactly the limit)" in question.text


def test_a_case_takes_over_the_missing_fields_of_a_record_and_the_facts_around_another_call() -> None:
    """An earlier call that two rules read is one call, with what both need."""
    context = context_of(["This is a rule."], [tool("pay", {}), tool("move", {}), tool("get", {})])

    def rule(name: str, formula: str, of: str, output: Mapping[str, Any], **facts: Any) -> RuleDraft:
        event = {"tool": "get", "args": {"id": "o7"}, "output": {"id": "o7", **output}, "failed": False}
        case = {
            "id": "a",
            "history": [event],
            "proposed": {"tool": of, "args": {"id": "o7"}},
            "label": 0,
            "facts": facts,
        }
        return RuleDraft(name, {"temporal": formula}, {1: "…"}, (case,))

    get = "output(last(f:get(id=i), !failed(f)))"
    rules = (
        rule("paid", f"forall(pay(id=i), {get}.paid == true)", "pay", {"paid": True}),
        rule("age", f"forall(pay(id=i), {get}.age >= 18)", "pay", {"age": 18}),
        rule("told", "forall(pay|move(), fact(told) == true)", "move", {}, told=True),
    )
    record = {key: part for key, part in rules[0].cases[0].items() if key != "facts"}
    result = completed(record, Draft((1,), rules).policies(context), rules, ["paid"])
    assert result is not None
    assert [event["output"] for event in result["history"]] == [{"id": "o7", "age": 18, "paid": True}]
    assert result["facts"] == {"told": True}


def test_a_case_of_the_author_is_the_example_where_a_search_has_no_time() -> None:
    draft = flagged(1, LIMIT)
    case = {"id": "a", "proposed": {"tool": "refund", "args": {"order": "o1", "amount": 100}}, "label": 1}
    (doubt,) = draft.ambiguities
    doubt = replace(doubt, otherwise=tuple(replace(rule, cases=(case,)) for rule in doubt.otherwise))
    draft = replace(draft, ambiguities=(doubt,))
    difference = WholeDocument((), CONTEXT, seconds=0).difference(draft, draft.switched(doubt))
    assert isinstance(difference, Different)
    assert difference.witness.proposed is not None
    assert difference.witness.proposed.args["amount"] == 100


def test_only_whole_ids_and_names_of_data_are_taken_over() -> None:
    """A longer text with an id, and an argument with the name of an id, stay."""
    rule = RuleDraft(
        "needs", {"temporal": "forall(pay(order=o), state.open[o] == true && some(note(order=o)))"}, {1: "…"}
    )
    known = {"order": "order", "text": "of order", "at": "2026-01-01T10:00:00Z"}
    case = {
        "id": "a",
        "label": 0,
        "now": "2026-01-01T12:00:00Z",
        "state": {"open": {"order": True}},
        "history": [{"tool": "note", "args": known, "output": "order", "failed": False}],
        "proposed": {"tool": "pay", "args": {"order": "order"}},
    }
    context = context_of(["This is a rule."], [tool("pay", {}), tool("note", {})])
    policies = Draft((1,), (rule,)).policies(context)
    record = {"now": "2026-01-02T12:00:00Z", "proposed": {"tool": "pay", "args": {"order": "o7"}}}
    result = completed(record, policies, [replace(rule, cases=(case,))], ())
    assert result is not None
    assert result["state"] == {"open": {"o7": True}}
    args = {"order": "o7", "text": "of order", "at": "2026-01-02T10:00:00+00:00"}
    assert result["history"] == [{"tool": "note", "args": args, "output": "o7", "failed": False}]


def test_a_call_is_in_one_question() -> None:
    """Its answer decides every ambiguity on which the same call differs, whatever its words are."""
    draft = flagged(1, LIMIT)
    other = replace(draft, ambiguities=(replace(draft.ambiguities[0], question="Is 100 too much?"),))
    (question,) = read(draft).questions
    known = read(other, known=[question])
    assert known.questions == ()
    assert "decides it: Is 100 too much?" in known.findings[0].message
    reading = read(other, answer(question, "not allowed"), earlier=[question])
    assert [rule.rule for rule in reading.draft.rules] == [{"temporal": "forall(refund(amount=a), a < 100)"}]
    assert reading.questions == (replace(question, rules=("rule_1",)),)


def test_a_call_of_another_sentence_does_not_decide() -> None:
    """Both sentences deny its call in one of their readings; an answer chooses the reading that was asked about."""
    last = len(PLANTED)
    limit, other = flagged(1, LIMIT), flagged(last, replace(LIMIT, sentence=PLANTED[-1].sentence))
    both = replace(
        limit,
        sentences=(1, last),
        rules=(*limit.rules, *other.rules),
        ambiguities=(*limit.ambiguities, *other.ambiguities),
    )
    first, second = read(both).questions
    assert first.witness is not None
    assert second.witness is not None
    assert first.witness["proposed"] == second.witness["proposed"]
    reading = read(both, answer(second, "not allowed"), earlier=[first, second])
    assert [rule.rule["temporal"].partition("a ")[2] for rule in reading.draft.rules] == ["<= 100)", "< 100)"]


def test_a_question_shows_what_decides() -> None:
    """Not the facts and the state that change nothing, but what is missing or was written by somebody."""
    case = {
        "id": "c",
        "proposed": {"tool": "refund", "args": {"order": "o1", "amount": 100}},
        "state": {"orders": {"o1": {"paid": True, "colour": "red"}}, "open": True},
        "messages": [{"role": "user", "content": "Refund o1."}],
    }
    draft = flagged(1, LIMIT)
    of_both = "forall(refund(order=o, amount=a), {} || state.orders[o].paid == false || !mentions(text(user), o))"
    first, second = ({"temporal": of_both.format(limit)} for limit in ("a <= 100", "a < 100"))
    other = replace(draft.ambiguities[0], otherwise=(replace(draft.rules[0], rule=second),))
    both = replace(draft, rules=(replace(draft.rules[0], rule=first),), ambiguities=(other,))
    drafts = both, both.switched(other)
    policies = [loaded(each, CONTEXT) for each in drafts]
    difference = difference_of(policies[0], policies[1], witness_of(case, CONTEXT))
    assert difference is not None
    question = reading_question(other, drafts, difference, CONTEXT)
    assert "paid" in question.text
    assert 'The user says "Refund o1."' in question.text
    assert not {"colour", "open"} & {*question.text.split()}


def test_an_ambiguity_without_rules_is_a_question_in_words() -> None:
    """An answer is for the author, until it is known."""
    draft = replace(LIMIT.first.draft(1), ambiguities=(Ambiguity(1, "Which sense?", READINGS),))
    (question,) = read(draft).questions
    assert [choice.answer for choice in question.choices] == [*READINGS]
    decision = answer(question, READINGS[1])
    reading = read(draft, decision, earlier=[question])
    assert (reading.readings, blocking(reading)) == ("open", ["unapplied_answer"])
    (ruling,) = GroupReader(CONTEXT, tuple(rulings_of([question], [decision]))).due(SentenceGroup((1,), draft))
    assert ruling.text.endswith("the owner of the document answered 'The second sense.'.")
    after = read(replace(draft, rulings=(ruling.key,)), decision, earlier=[question])
    assert (after.readings, blocking(after)) == ("answered", [])


# --- cases that their reader takes otherwise


def with_case(amount: int = 100, label: int = 0) -> Draft:
    draft = LIMIT.first.draft(1)
    case = {"id": "c", "proposed": {"tool": "refund", "args": {"amount": amount}}, "label": label}
    return replace(draft, rules=(replace(draft.rules[0], cases=(case,)),))


def disputed(draft: Draft) -> dict[str, CaseReading]:
    (case,) = readable_cases(draft.rules, CONTEXT)
    return {case[2]: CaseReading(violates=True, why="It has to be less.")}


def test_cases_that_are_read_as_expected_confirm_a_rule() -> None:
    reading = read(with_case())
    assert (reading.readings, reading.findings, reading.questions) == ("agree", (), ())


def test_a_rule_whose_cases_nobody_has_read_is_not_confirmed() -> None:
    reading = read(LIMIT.first.draft(1))
    assert (reading.readings, blocking(reading)) == ("single", ["single_reading"])
    assert blocking(read(None)) == ["single_reading"]


def test_a_disputed_case_is_a_question() -> None:
    """Both sides are in words. An answer for the rule settles it; one for the reader is for the author of the rule."""
    draft = with_case()
    reading = read(draft, more=disputed(draft))
    (question,) = reading.questions
    assert question.text == '"Refunds are possible up to 100 euros." The agent calls refund with amount 100. Allowed?'
    assert [choice.answer for choice in question.choices] == ["allowed", "not allowed"]
    assert question.choices[1].words == "It has to be less."
    settled = read(draft, answer(question, "at most 100"), earlier=[question], more=disputed(draft))
    assert (settled.readings, blocking(settled), settled.draft) == ("answered", [], draft)
    other = read(draft, answer(question, "less"), earlier=[question], more=disputed(draft))
    assert (other.readings, blocking(other)) == ("open", ["unapplied_answer"])


def test_a_disputed_case_that_other_rules_deny_is_no_question() -> None:
    draft = with_case()
    lower = Reading("forall(refund(amount=a), a <= 50)").draft(2, "lower")
    reading = read(draft, others=[lower], more=disputed(draft))
    assert (reading.questions, [finding.kind for finding in reading.findings]) == (
        (),
        ["disputed_case", "single_reading"],
    )


def test_a_case_that_its_reader_finds_unclear_goes_back_to_its_author() -> None:
    """An author who sees no other reading is believed: the owner gets a finding, and no question."""
    draft = with_case()
    unclear = {key: CaseReading(None, "100 may be too much.") for key in disputed(draft)}
    (problem,) = dispute_problems(disputes(draft.rules, unclear, CONTEXT))
    assert problem.message == "a reader says that the case 'c' is not clear from the words: 100 may be too much."
    reading = read(draft, more=unclear)
    assert (reading.questions, [(each.kind, each.blocking) for each in reading.findings][:1]) == (
        (),
        [("unclear_case", False)],
    )


def test_a_case_on_which_two_known_readings_differ_is_not_disputed() -> None:
    """The question about them decides it."""
    draft = with_case()
    both = replace(draft, ambiguities=flagged(1, LIMIT).ambiguities)
    assert len(read(both, more=disputed(draft)).questions) == 1
