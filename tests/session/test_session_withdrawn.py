"""Allowed calls that never ran: rules ignore them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guardagent.errors import InputError
from guardagent.policy.load import compile_rules
from guardagent.session.session import Session
from guardagent.types import Verdict
from tests.tiers import examples

KEY = b"0123456789abcdef"
RULES = [
    "G(tool:refund -> O tool:login)",
    "tool:login -> F tool:refund",
    "G !(tool:mail && Y tool:login)",
    "tool:mail -> F[<=2] tool:refund",
    "(G !tool:mail) OR (forall(refund(n=n), n < 2))",
    "forall(refund(n=n), count(f:refund(n=n), !failed(f)) < 2 && sum(f:mail(), true, args(f).n) < 4)",
    "forall(mail(), args(last(f:login(), true)).n == 1)",
    "after(login(n=n), True, mail(n=n), True)",
    "before(mail(n=n), True, f:login(n=n), True)",
    "NOT (after(login(), True, mail(), True))",
]
TOOLS = ["login", "refund", "mail"]


def open_session(*rules: str, now: list[float] | None = None) -> Session:
    return compile_rules(rules).session(clock=lambda: now[0] if now else 0.0)


def summary(verdict: Verdict) -> tuple[object, ...]:
    return verdict.label, verdict.rules, len(verdict.errors)


@settings(max_examples=examples(60))
@given(
    st.lists(st.tuples(st.sampled_from(TOOLS), st.integers(0, 2), st.sampled_from("wwofs")), max_size=8),
    st.lists(st.integers(0, 7), max_size=8),
    st.booleans(),
)
def test_withdrawn_calls_leave_no_trace(  # noqa: C901 - three ways to end, in two sessions
    steps: list[tuple[str, int, str]], order: list[int], restored: bool
) -> None:
    """This holds for every time of withdrawal and all calls in between, also in a restored session."""
    session, plain = open_session(*RULES), open_session(*RULES)
    reserved = []
    for tool, number, end in steps:
        verdict = session.check(tool, {"n": number})
        if not verdict.label:
            reserved.append((verdict.permit, tool, number, end))
    ranked = sorted(range(len(reserved)), key=lambda at: order[at] if at < len(order) else 9)
    if restored:
        session = session.policies.restore(session.snapshot(KEY), KEY)
        permits = dict(zip([reservation[0].place for reservation in reserved], session.in_flight, strict=True))
        reserved = [(permits[permit.place], *rest) for permit, *rest in reserved]
    for at in ranked:
        permit, _, _, end = reserved[at]
        if end == "w":
            session.withdraw(permit, "not wanted")
        elif end != "s":
            session.record("x", failed=end == "f", permit=permit)
    ran = [reservation for reservation in reserved if reservation[3] != "w"]
    calls = []
    for _, tool, number, _ in ran:
        verdict = plain.check(tool, {"n": number})
        if verdict.label:
            return  # a withdrawn call had discharged an obligation
        calls.append(verdict.permit)
    for at in ranked:
        if reserved[at] in ran and reserved[at][3] != "s":
            plain.record("x", failed=reserved[at][3] == "f", permit=calls[ran.index(reserved[at])])
    assert [event.tool for event in session.history] == [event.tool for event in plain.history]
    for tool in TOOLS:
        for number in range(3):
            verdicts = [side.check(tool, {"n": number}, reserve=False) for side in (session, plain)]
            assert summary(verdicts[0]) == summary(verdicts[1])
    assert summary(session.finish()) == summary(plain.finish())
    assert session.status == plain.status


def test_what_was_allowed_holds_if_another_call_never_runs() -> None:
    """Calls that have not started may never run; started calls count as run."""
    for rule, first in (
        ("forall(pay(), count(quote()) >= 1)", "quote"),
        ("G(tool:pay -> Y Y tool:quote)", "other"),
        ("forall(pay(), args(last(f:quote(), true)).n == 1)", "quote"),
    ):
        session = open_session(rule)
        if first == "other":
            session.call(lambda: None, "quote")
        permit = session.check(first, {"n": 1}).permit
        assert session.check("pay", reserve=False).label == 1
        session.use(permit)
        assert session.check("pay", reserve=False).label == 0


def test_a_permit_that_expired_unused_is_void_and_its_call_withdrawn() -> None:
    """A call is never both withdrawn and run; a call with a used permit stays in flight."""
    now = [0.0]
    session = open_session("forall(pay(), count(pay()) == 0)", now=now)
    first = session.check("pay").permit
    now[0] = 301.0
    second = session.check("pay").permit
    assert second is not None
    assert [permit.place for permit in session.lapsed()] == [1]
    with pytest.raises(InputError, match="expired"):
        session.use(first)
    session.use(second)
    now[0] = 900.0
    assert session.check("pay").label == 1
    with pytest.raises(InputError, match="was used"):
        session.withdraw(second, "no")
    assert [event.status for event in session.history] == [None]


def test_a_call_whose_permit_was_never_requested_may_have_run() -> None:
    """It stays in flight until the host records its outcome."""
    now = [0.0]
    session = open_session("forall(pay(), count(pay()) == 0)", now=now)
    assert session.check("pay").label == 0
    now[0] = 301.0
    assert session.check("pay").label == 1
    session.withdraw(session.in_flight[0], "it was not run")
    assert session.check("pay").label == 0


def test_a_call_that_ran_without_using_its_permit_can_be_recorded() -> None:
    """It counts as a call from then on."""
    now = [0.0]
    session = open_session("forall(pay(), count(pay()) == 0)", now=now)
    slow = session.check("pay").permit
    now[0] = 301.0
    assert session.check("look").label == 0
    with pytest.raises(InputError, match="several calls"):
        session.record("done")
    session.record("done", permit=slow)
    assert session.check("pay").label == 1


def test_a_call_that_another_process_may_run_does_not_expire() -> None:
    """A snapshot does not show later uses of a permit."""
    now = [0.0]
    session = open_session("forall(pay(), count(pay()) == 0)", now=now)
    session.check("pay")
    again = Session.restore(session.policies, session.snapshot(KEY), KEY, clock=lambda: now[0])
    now[0] = 900.0
    assert again.check("pay").label == 1
    again.withdraw(again.in_flight[0], "the other process never began it")
    assert again.check("pay").label == 0
    kept = Session.restore(again.policies, again.snapshot(KEY), KEY, clock=lambda: now[0])
    assert [event.tool for event in kept.history] == ["pay"]
