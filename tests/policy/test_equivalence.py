"""Two drafts are equal, or real sessions differ on the witness; questions about witnesses are plain sentences."""

from __future__ import annotations

import json
from collections import Counter
from itertools import islice
from random import Random
from typing import Any

import pytest

from guardagent.batch.audit import judge_trace
from guardagent.batch.records import read_case, read_trace
from guardagent.errors import InputError
from guardagent.policy.equivalence import (
    Different,
    ReviewerAnswer,
    Same,
    Undecided,
    choices,
    compare_rules,
    question,
    with_answer,
)
from guardagent.policy.equivalence.draft import ComparedDraft
from guardagent.policy.load import load_policies
from tests.policy.draft_pairs import DIFFERENT, SAME, each, rule
from tests.policy.random_cases import RandomCases, can_happen, outcome, text_of
from tests.policy.tables import paragraphs
from tests.tiers import slow_but_every

RANDOM = 500  # random cases of each pair

pytest.importorskip("z3")


@pytest.mark.parametrize(("first", "second"), slow_but_every(3, SAME))
def test_equal_drafts_are_proved_equal(first: Any, second: Any) -> None:
    """Each of them in another form."""
    assert isinstance(compare_rules(first, second), Same)


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second"), DIFFERENT)
def test_a_witness_is_judged_differently(first: Any, second: Any) -> None:
    """Also when it is written to a file, and read again."""
    comparison = compare_rules(first, second)
    assert isinstance(comparison, Different)
    assert (
        replayed(comparison, first) == comparison.outcomes[0] != comparison.outcomes[1] == replayed(comparison, second)
    )


@pytest.mark.parametrize(
    "condition",
    ["limit[k] > a", "count(f:pay(kind=j, amount=b), b > limit[j]) == 0", "all(x in a, x > limit.last)"],
)
def test_tables_that_differ_are_not_proved_equal(condition: str) -> None:
    """However long they are."""
    rows = ", ".join(f"a_longer_key_{at}: {at}" for at in range(9))
    first, second = (
        load_policies(
            text=f"version: 1\nconstants: {{limit: {{value: {{table: {{{rows}, last: {last}}}}}}}}}\n"
            f"policies: [{{id: a, temporal: 'forall(pay(kind=k, amount=a), {condition})'}}]\n"
        )
        for last in (10, 20)
    )
    assert not isinstance(compare_rules(first, second), Same)
    assert isinstance(compare_rules(first, first), Same)


def replayed(difference: Different, draft: Any) -> str:
    policies, witness = ComparedDraft(draft).policies, difference.witness
    line = json.dumps(witness.record())
    if witness.is_case:
        return outcome(policies, read_case(line, "cases.jsonl", 1))
    verdict = judge_trace(policies, read_trace(line, "traces.jsonl", 1))
    return "denied" if verdict.label else "allowed"


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second"), SAME)
def test_equal_drafts_never_differ(first: Any, second: Any) -> None:
    """On random cases whose history can happen."""
    comparison = compare_rules(first, second)
    assert isinstance(comparison, Same)
    assert differences(first, second, labels_only=comparison.labels_only) == []


def differences(first: Any, second: Any, *, labels_only: bool) -> list[Any]:
    """Returns random cases on which drafts differ."""
    first_policies, other = ComparedDraft(first).policies, ComparedDraft(second).policies

    def seen(policies: Any, case: Any) -> Any:
        policies_outcome = outcome(policies, case)
        return policies_outcome in ("denied", "unchecked") if labels_only else policies_outcome

    cases = islice(RandomCases(text_of([first, second]), Random(7)), RANDOM)  # noqa: S311 - a fixed seed
    return [
        case for case in cases
        if seen(first_policies, case) != seen(other, case)
        and can_happen(first_policies, case) and can_happen(other, case)
    ]  # fmt: skip


@pytest.mark.slow
def test_random_pairs() -> None:
    """Any two drafts of the table: a witness always reproduces, and equal drafts do not differ on random cases."""
    drafts = [draft for pair in (*SAME, *DIFFERENT) for draft in pair]
    random, answers = Random(3), Counter[str]()  # noqa: S311 - a fixed seed
    for _ in range(60):
        first, second = random.choice(drafts), random.choice(drafts)
        comparison = compare_rules(first, second)
        answers[type(comparison).__name__] += 1
        if isinstance(comparison, Different):
            assert (replayed(comparison, first), replayed(comparison, second)) == comparison.outcomes
        if isinstance(comparison, Same):
            assert differences(first, second, labels_only=comparison.labels_only) == []
    assert answers["Undecided"] <= 4


def test_messages_are_reported_apart() -> None:
    """They do not decide what happens."""
    comparison = compare_rules(rule("G !tool:x"), rule("G !tool:x", message="Ask first."))
    assert comparison == Same("identical", ("the messages differ: 'none' and 'Ask first.'",))


@pytest.mark.slow
@pytest.mark.parametrize("text", ["G !tool:x", "forall(x(n=n), n <= 5)", "NOT exists(x(n=n), n > 5)"])
@pytest.mark.parametrize(
    ("response", "expected"), [("warn", "warned"), ("escalate", "escalated"), ("halt", "ended"), ("block", None)]
)
def test_a_response_decides_what_happens(text: str, response: str, expected: str | None) -> None:
    """A person may approve a call only if every rule that it violates lets them."""
    comparison = compare_rules(rule(text), rule(text, on_violation=response))
    assert (comparison.outcomes[1] if isinstance(comparison, Different) else None) == expected
    both = [rule(text), rule(text, id="too", on_violation=response)]
    assert isinstance(compare_rules(rule(text), both), Same | Undecided) or response == "halt"


def named(keys: Any, *texts: str) -> Any:
    """Returns a draft with declarations."""
    return load_policies(data={"version": 1, **keys, "policies": each(*texts)})


PAID = {"on": "pay(to=t, n=n)", "key": "t", "sum": "n"}
PAID_BELOW = "forall(pay(to=t, n=n), counter({}, t) + n <= 5)"
NAMED = [
    ({"tags": {"writes": ["a", "b"]}}, "forall(@writes(n=n), n < 5)", {}, "forall(a|b(n=n), n < 5)"),
    ({"tags": {"w": ["a", "b"]}}, "forall(@w(n=n), n < 5)", {"tags": {"x": ["b", "a"]}}, "forall(@x(n=n), n < 5)"),
    ({"tags": {"writes": ["a", "b"]}}, "G(@writes -> O tool:c)", {}, "G((tool:a || tool:b) -> O tool:c)"),
    ({"tags": {"writes": ["a", "b"]}}, "G(@writes -> O tool:c)", {}, "forall(a|b(), some(c()))"),
    ({"constants": {"most": 5}}, "forall(a(n=n), n < most)", {"define": {"few(n)": "n < 5"}}, "forall(a(n=n), few(n))"),
    ({"counters": {"a": PAID}}, PAID_BELOW.format("a"), {"counters": {"b": PAID}}, PAID_BELOW.format("b")),
]


@pytest.mark.parametrize(("first", "first_name", "second", "other"), NAMED)
def test_names_do_not_matter(first: Any, first_name: str, second: Any, other: str) -> None:
    """Neither of sets, constants, definitions nor counters."""
    assert isinstance(compare_rules(named(first, first_name), named(second, other)), Same)


DECLARED = [
    ({"tags": {"w": ["a"]}}, {"tags": {"w": ["b"]}}, "G !@w"),
    ({"tags": {"w": ["a"]}}, {"tags": {"w": ["b"]}}, "forall(@w(n=n), n < 5)"),
    ({"labels": {"w": ["a"]}}, {"labels": {"w": ["b"]}}, "flow(w -> send(), false)"),
    ({"constants": {"w": 1}}, {"constants": {"w": 2}}, "forall(a(n=n), n < w)"),
    ({"define": {"w": "fact(a)"}}, {"define": {"w": "fact(b)"}}, "forall(a(), w)"),
    ({"tools": ["a"]}, {"tools": ["a", "b"]}, "forall(a(), false)"),
    ({"counters": {"w": PAID}}, {"counters": {"w": {**PAID, "window": "1h"}}}, PAID_BELOW.format("w")),
]


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second", "text"), DECLARED)
def test_the_same_words_about_other_declarations_are_not_equal(first: Any, second: Any, text: str) -> None:
    """A declaration decides beside the rules."""
    assert not isinstance(compare_rules(named(first, text), named(second, text)), Same)


def test_what_cannot_be_compared_is_undecided() -> None:
    """A case has no other conversations to count in."""
    assert compare_rules(named({"counters": {"paid": PAID}}, PAID_BELOW.format("paid")), "G !tool:x") == Undecided(
        "a draft counts across conversations"
    )


@pytest.mark.parametrize("draft", [5, [], [3], "forall("])
def test_an_invalid_draft_is_an_error(draft: Any) -> None:
    """The message says what was expected."""
    with pytest.raises(InputError, match="expected"):
        compare_rules("G !tool:x", draft)


REFUNDED = {"properties": {"amount": {"type": "integer"}, "order_id": {"type": "string"}}}
TOOLS = [
    {"name": "refund", "description": "Refund a payment. Takes a while.", "inputSchema": REFUNDED},
    {"name": "login", "inputSchema": {"properties": {}}},
    {"name": "find_parcel", "outputSchema": {"properties": {"place": {"enum": ["here", "lost"]}}}},
]
QUESTIONS = """
The agent refunds a payment with amount 500 (exactly the limit). Allowed?
  forall(refund(amount=a), a <= 500)
  forall(refund(amount=a), a < 500)
Booked exactly 24 hours ago. The agent calls cancel. Allowed?
  forall(cancel(), now - fact(booked_at) <= 24h)
  forall(cancel(), now - fact(booked_at) < 24h)
No user has logged in. The agent calls verify. Now the agent refunds a payment. Allowed?
  G(tool:refund -> O tool:login)
  G(tool:refund -> O(tool:login || tool:verify))
The agent gets the order with order id A. Now the agent refunds a payment with another order id B. Allowed?
  before(refund(order_id=o), true, get_order(order_id=o), true)
  before(refund(), true, get_order(), true)
The agent logs the user in, which fails. Now the agent refunds a payment. Allowed?
  forall(refund(), some(login()))
  forall(refund(), count(login()) > 0)
The agent finds the parcel, and learns that place is lost. Now the agent calls ship. Allowed?
  forall(ship(), output(last(find_parcel())).place == "here")
  forall(ship(), known(output(last(find_parcel())).place))
The conversation ends. Is everything done that has to be done?
  exists(summary(), true)
  G !tool:x
"""


@pytest.mark.parametrize(("expected", "first", "second"), paragraphs(QUESTIONS))
def test_a_question_has_plain_words(expected: str, first: str, second: str) -> None:
    """From names, values and limits."""
    comparison = compare_rules(first, second, tools=TOOLS)
    assert isinstance(comparison, Different)
    assert question(comparison.witness, TOOLS) == expected
    assert question(comparison.witness, TOOLS, "No  exceptions.") == f'"No exceptions." {expected}'


SPENT = "forall(refund(order_id=o, amount=a), a + sum(f:refund(order_id=o), {}, args(f).amount{}) <= 300{})"


def test_a_question_has_no_name_of_a_zone() -> None:
    """The ids of calls that are summed are not compared with what else stands in the rule."""
    today = 'date(time(f), "Europe/Rome") == date(now, "Europe/Rome")'
    comparison = compare_rules(SPENT.format(today, "", ""), SPENT.format("true", ", within 24h", ""), tools=TOOLS)
    assert isinstance(comparison, Different)
    assert comparison.outcomes == ("allowed", "denied")
    assert comparison.witness.proposed is not None
    assert comparison.witness.proposed.args["order_id"] in ("A", "B")


def test_a_question_is_clear_where_a_value_away_from_it_decides() -> None:
    """One reading denies the call, not only because the role is unknown; the role is one of the host's, if known."""
    lead = ' || fact(role) == "lead"'
    day, two = (SPENT.format("!failed(f)", f", within {hours}h", lead) for hours in (24, 48))
    for facts, role in (({}, "A"), ({"role": ["guest", "lead"]}, "guest")):
        comparison = compare_rules(day, two, tools=TOOLS, facts=facts)
        assert isinstance(comparison, Different)
        assert (comparison.outcomes, comparison.witness.facts) == (("allowed", "denied"), {"role": role})


def test_an_answer_becomes_a_case() -> None:
    """A second answer to the same question replaces the first one."""
    comparison = compare_rules("forall(pay(n=n), n <= 5)", "forall(pay(n=n), n < 5)")
    assert isinstance(comparison, Different)
    assert [(choice.answer, choice.allowed) for choice in choices(comparison)] == [
        ("allowed", True),
        ("not allowed", False),
    ]
    cases = with_answer([{"id": "a"}], ReviewerAnswer(comparison.witness, allowed=False))
    cases = with_answer(cases, ReviewerAnswer(comparison.witness, allowed=True))
    assert [case.get("label") for case in cases] == [None, 0]
    assert read_case(json.dumps(cases[1]), "cases.jsonl", 1).label == 0
