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
from guardagent.policy.equivalence.draft import Draft
from guardagent.policy.load import load_policies
from tests.policy.draft_pairs import DIFFERENT, SAME, rule
from tests.policy.random_cases import RandomCases, can_happen, outcome, text_of

RANDOM = 2_000  # random cases of each pair

pytest.importorskip("z3")


@pytest.mark.parametrize(("first", "second"), SAME)
def test_equal_drafts_are_proved_equal(first: Any, second: Any) -> None:
    """Each of them in another form."""
    assert isinstance(compare_rules(first, second), Same)


@pytest.mark.parametrize(("first", "second"), DIFFERENT)
def test_a_witness_is_judged_differently(first: Any, second: Any) -> None:
    """Also when it is written to a file, and read again."""
    found = compare_rules(first, second)
    assert isinstance(found, Different)
    assert replayed(found, first) == found.outcomes[0] != found.outcomes[1] == replayed(found, second)


def replayed(found: Different, draft: Any) -> str:
    policies, witness = Draft(draft).policies, found.witness
    line = json.dumps(witness.record())
    if witness.is_case:
        return outcome(policies, read_case(line, "cases.jsonl", 1))
    verdict = judge_trace(policies, read_trace(line, "traces.jsonl", 1))
    return "denied" if verdict.label else "allowed"


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second"), SAME)
def test_equal_drafts_never_differ(first: Any, second: Any) -> None:
    """On random cases whose history can happen."""
    found = compare_rules(first, second)
    assert isinstance(found, Same)
    assert differences(first, second, labels_only=found.labels_only) == []


def differences(first: Any, second: Any, *, labels_only: bool) -> list[Any]:
    """Returns random cases on which drafts differ."""
    one, other = Draft(first).policies, Draft(second).policies

    def seen(policies: Any, case: Any) -> Any:
        found = outcome(policies, case)
        return found in ("denied", "unchecked") if labels_only else found

    cases = islice(RandomCases(text_of([first, second]), Random(7)), RANDOM)  # noqa: S311 - a fixed seed
    return [
        case for case in cases
        if seen(one, case) != seen(other, case) and can_happen(one, case) and can_happen(other, case)
    ]  # fmt: skip


@pytest.mark.slow
def test_random_pairs() -> None:
    """Any two drafts of the table: a witness always reproduces, and equal drafts do not differ on random cases."""
    drafts = [draft for pair in (*SAME, *DIFFERENT) for draft in pair]
    random, answers = Random(3), Counter[str]()  # noqa: S311 - a fixed seed
    for _ in range(150):
        first, second = random.choice(drafts), random.choice(drafts)
        found = compare_rules(first, second)
        answers[type(found).__name__] += 1
        if isinstance(found, Different):
            assert (replayed(found, first), replayed(found, second)) == found.outcomes
        if isinstance(found, Same):
            assert differences(first, second, labels_only=found.labels_only) == []
    assert answers["Undecided"] <= 8


def test_other_differences_are_reported_apart() -> None:
    """The response and the message do not decide which calls may run."""
    found = compare_rules(rule("G !tool:x"), rule("G !tool:x", on_violation="escalate", message="Ask first."))
    assert found == Same(
        "identical",
        (
            "on a violation, the first draft has the response deny, the second escalate",
            "the messages differ: 'none' and 'Ask first.'",
        ),
    )


def test_what_cannot_be_compared_is_undecided() -> None:
    """A case has no other conversations to count in."""
    counters = {"spent": {"on": "pay(to=t, amount=a)", "key": "t", "sum": "a"}}
    policies = [rule("forall(pay(to=t, amount=a), counter(spent, t) + a <= 9)")]
    counted = load_policies(data={"version": 1, "counters": counters, "policies": policies})
    assert compare_rules(counted, counted) == Undecided("a draft counts across conversations")


@pytest.mark.parametrize("draft", [5, [], [3], "forall("])
def test_an_invalid_draft_is_an_error(draft: Any) -> None:
    """The message says what was expected."""
    with pytest.raises(InputError, match="expected"):
        compare_rules("G !tool:x", draft)


TOOLS = [
    {
        "name": "refund",
        "description": "Refund a payment. Takes a while.",
        "inputSchema": {"properties": {"amount": {"type": "integer"}, "order_id": {"type": "string"}}},
    },
    {"name": "login", "inputSchema": {"properties": {}}},
]
QUESTIONS = [
    (
        "forall(refund(amount=a), a <= 500)",
        "forall(refund(amount=a), a < 500)",
        "The agent refunds a payment with amount 500 (exactly the limit). Allowed?",
    ),
    (
        "forall(cancel(), now - fact(booked_at) <= 24h)",
        "forall(cancel(), now - fact(booked_at) < 24h)",
        "Booked exactly 24 hours ago. The agent calls cancel. Allowed?",
    ),
    (
        "G(tool:refund -> O tool:login)",
        "G(tool:refund -> O(tool:login || tool:verify))",
        "No user has logged in. The agent calls verify. Now the agent refunds a payment. Allowed?",
    ),
    (
        "before(refund(order_id=o), true, get_order(order_id=o), true)",
        "before(refund(), true, get_order(), true)",
        "The agent gets the order with order id A. Now the agent refunds a payment with another order id B. Allowed?",
    ),
    (
        "forall(refund(), some(login()))",
        "forall(refund(), count(login()) > 0)",
        "The agent logs the user in, which fails. Now the agent refunds a payment. Allowed?",
    ),
    (
        "exists(summary(), true)",
        "G !tool:x",
        "The conversation ends. Is everything done that has to be done?",
    ),
]


@pytest.mark.parametrize(("first", "second", "expected"), QUESTIONS)
def test_a_question_has_plain_words(first: str, second: str, expected: str) -> None:
    """From names, values and limits."""
    found = compare_rules(first, second, tools=TOOLS)
    assert isinstance(found, Different)
    assert question(found.witness, TOOLS) == expected
    assert question(found.witness, TOOLS, "No  exceptions.") == f'"No exceptions." {expected}'


def test_an_answer_becomes_a_case() -> None:
    """A second answer to the same question replaces the first one."""
    found = compare_rules("forall(pay(n=n), n <= 5)", "forall(pay(n=n), n < 5)")
    assert isinstance(found, Different)
    assert [(one.answer, one.allowed) for one in choices(found)] == [("allowed", True), ("not allowed", False)]
    cases = with_answer([{"id": "a"}], ReviewerAnswer(found.witness, allowed=False))
    cases = with_answer(cases, ReviewerAnswer(found.witness, allowed=True))
    assert [one.get("label") for one in cases] == [None, 0]
    assert read_case(json.dumps(cases[1]), "cases.jsonl", 1).label == 0
