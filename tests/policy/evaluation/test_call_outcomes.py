"""Calls in flight: the verdict equals the worst verdict over all of their outcomes."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from guardagent.policy.evaluation import call_outcomes
from guardagent.policy.load import compile_rules
from guardagent.policy.policies import Policies
from guardagent.types import Event, Verdict
from tests.tiers import examples

Call = tuple[str, int, bool]  # a tool, its amount, and whether it has begun to run
UNKNOWN = "unknown"


def truth_of(verdict: Verdict) -> bool | str:
    return True if not verdict.label else False if verdict.rules else UNKNOWN


def every_outcome(policies: Policies, past: list[Event], calls: list[Call], outputs: list[Any]) -> bool | str:
    """The worst verdict on `buy` over all outcomes of the calls."""
    ran = [(status, output) for status in ("ok", "failed") for output in outputs]
    ends: list[list[Any]] = [ran if begun else [*ran, None] for _, _, begun in calls]
    verdicts = set()
    for outcome in product(*ends):
        session = policies.session()
        events = [
            Event(call[0], {"n": call[1]}, end[1], end[0]) for call, end in zip(calls, outcome, strict=True) if end
        ]
        for event in (*past, *events):
            session.observe(event, judge=False)
        verdicts.add(truth_of(session.check("buy", {"n": 2}, reserve=False)))
    return False if False in verdicts else UNKNOWN if UNKNOWN in verdicts else True


def in_flight(policies: Policies, past: list[Event], calls: list[Call]) -> bool | str:
    session = policies.session()
    for event in past:
        session.observe(event, judge=False)
    for tool, amount, begun in calls:
        permit = session.check(tool, {"n": amount}).permit
        if begun:
            session.use(permit)
    return truth_of(session.check("buy", {"n": 2}, reserve=False))


def about(conditions: list[str]) -> st.SearchStrategy[str]:
    """Rules about calls of `pay` and `get`."""
    some = st.sampled_from(conditions)
    tool = st.sampled_from(["pay", "get", "pay|get"])
    counted = st.builds("count(f:{}(), {})".format, tool, some)
    summed = st.builds("sum(f:{}(), {}, args(f).n)".format, tool, some)
    other = st.sampled_from(["args(b).n", "1", "0 - 2"])
    number = st.one_of(counted, summed, st.builds("({} {} {})".format, summed, st.sampled_from("+-*"), other))
    sign, bound = st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), st.integers(-3, 5)
    compared = st.builds("{} {} {}".format, number, sign, bound)
    between = st.builds("{} {} {}".format, number, sign, number)
    picked = st.builds("args({}(f:pay(), {})).n {} {}".format, st.sampled_from(["first", "last"]), some, sign, bound)
    known = st.builds("known({})".format, counted)
    leaf = st.one_of(compared, compared, between, picked, known)
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.builds("({} && {})".format, inner, inner),
            st.builds("({} || {})".format, inner, inner),
            st.builds("({} -> {})".format, inner, inner),
            st.builds("!({})".format, inner),
        ),
        max_leaves=3,
    )


BY_STATUS = ["true", "!failed(f)", "failed(f)", "args(f).n > 1", "args(f).n == args(b).n && !failed(f)"]
CALLS = st.tuples(st.sampled_from(["pay", "get"]), st.integers(-3, 4), st.booleans())
PAST = st.lists(
    st.builds(
        lambda tool, amount, status: Event(tool, {"n": amount}, None, status),
        st.sampled_from(["pay", "get"]),
        st.integers(-3, 4),
        st.sampled_from(["ok", "failed"]),
    ),
    max_size=3,
)


@settings(max_examples=examples(150))
@given(about(BY_STATUS), st.sampled_from(["{}", "({}) AND ({})"]), PAST, st.lists(CALLS, max_size=4))
@example(  # a success of one call has the same effect as the withdrawal of the other
    "count(f:pay(), failed(f)) > sum(f:pay(), true, args(f).n) || count(f:pay(), failed(f)) > 0",
    "{}",
    [],
    [("pay", 0, False), ("pay", -1, False)],
)
@example("count(f:get(), true) <= count(f:pay(), true)", "{}", [], [("pay", 0, False), ("get", 0, False)])
def test_the_verdict_covers_every_outcome(condition: str, form: str, past: list[Event], calls: list[Call]) -> None:
    """Counts, sums of amounts of any sign, the first and the last call; combined, and in rules that are combined."""
    policies = compile_rules([form.format(f"forall(b:buy(), {condition})", "forall(b:buy(), count(f:pay()) < 3)")])
    assert in_flight(policies, past, calls) == every_outcome(policies, past, calls, [None])


@given(about(BY_STATUS), PAST, st.lists(CALLS, max_size=4))
@example("count(f:pay(), true) > 0", [], [("pay", 0, False)] * 3)
def test_of_rules_joined_by_or_one_holds_for_every_outcome(
    condition: str, past: list[Event], calls: list[Call]
) -> None:
    """Each rule is decided by itself: if different outcomes satisfy different rules, the call is denied."""
    policies = compile_rules([f"(forall(b:buy(), {condition})) OR (forall(b:buy(), count(f:pay()) < 3))"])
    if in_flight(policies, past, calls) is True:
        assert every_outcome(policies, past, calls, [None]) is True


@settings(max_examples=examples(15))
@given(about(BY_STATUS), PAST, st.lists(CALLS, min_size=5, max_size=6))
def test_six_calls_are_tried_with_every_outcome(condition: str, past: list[Event], calls: list[Call]) -> None:
    policies = compile_rules([f"forall(b:buy(), {condition})"])
    assert in_flight(policies, past, calls) == every_outcome(policies, past, calls, [None])


@settings(max_examples=examples(150))
@given(about(BY_STATUS), PAST, st.lists(CALLS, max_size=4))
@example("known(count(f:pay(), !failed(f)))", [], [("pay", 0, False)])
def test_beyond_the_limit_the_outcomes_that_matter_are_tried(
    condition: str, past: list[Event], calls: list[Call]
) -> None:
    """As if every combination was tried."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(call_outcomes, "MAX_OUTCOMES", 0)
        patch.setattr(call_outcomes, "MAX_TRIES", 200)
        policies = compile_rules([f"forall(b:buy(), {condition})"])
        assert in_flight(policies, past, calls) == every_outcome(policies, past, calls, [None])


@settings(max_examples=examples(60))
@given(
    about(["output(f).done == true", "output(f).done == true || failed(f)"]).filter(
        lambda condition: "known" not in condition
    ),
    PAST,
    st.lists(CALLS, max_size=3),
)
def test_a_verdict_that_depends_on_outputs_is_unknown_unless_all_agree(
    condition: str, past: list[Event], calls: list[Call]
) -> None:
    """Otherwise the verdict is unknown."""
    policies = compile_rules([f"forall(b:buy(), {condition})"])
    past = [Event(event.tool, event.args, {"done": True}, event.status) for event in past]
    verdict = in_flight(policies, past, calls)
    assert verdict in (every_outcome(policies, past, calls, [{"done": True}, {"done": False}]), UNKNOWN)


@pytest.mark.parametrize("begun", [True, False])
@pytest.mark.parametrize("condition", ["!failed(f)", "true", "output(f).done == true"])
def test_harmless_calls_run_beside_each_other(condition: str, begun: bool) -> None:
    """As many calls run as the rule allows, and not one more, for sums and counts."""
    for rule in (f"count(f:pay(), {condition}) < 40", f"sum(f:pay(), {condition}, args(f).n) < 40 * args(b).n"):
        session = compile_rules([f"forall(b:pay(), {rule})"]).session()
        for _ in range(40):
            verdict = session.check("pay", {"n": 3})
            assert verdict.label == 0, verdict.reasons
            if begun:
                session.use(verdict.permit)
        assert session.check("pay", {"n": 3}).label == 1


def test_calls_that_timed_out_end_no_conversation() -> None:
    """They stay in flight and count as possible calls."""
    session = compile_rules(["forall(pay(), count(f:pay(), !failed(f)) < 8)"]).session()
    for _ in range(7):
        session.use(session.check("pay").permit)
    assert session.check("pay", reserve=False).label == 0
    assert session.check("get").label == 0


def test_a_condition_that_is_not_monotone_is_tried() -> None:
    """Interchangeable calls are grouped; with too many combinations the verdict is unknown."""
    rule = "forall(buy(), count(f:pay(), !failed(f)) == 3 -> count(f:pay(), failed(f)) == 27)"
    session = compile_rules([rule]).session()
    for at in range(30):
        session.use(session.check("pay", {"n": at}).permit)
    assert session.check("buy", reserve=False).label == 0
    session.use(session.check("pay").permit)
    assert truth_of(session.check("buy", reserve=False)) is False
    session = compile_rules(["forall(buy(), sum(f:pay(), !failed(f), args(f).n) != 15431)"]).session()
    for at in range(30):
        session.use(session.check("pay", {"n": 1000 + 2 * at}).permit)
    assert truth_of(session.check("buy", reserve=False)) == UNKNOWN
