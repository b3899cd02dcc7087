"""Calls that were allowed and never ran: to the rules they have not been."""

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


def told(verdict: Verdict) -> tuple[object, ...]:
    return verdict.label, verdict.rules, len(verdict.errors)


@settings(max_examples=examples(200))
@given(
    st.lists(st.tuples(st.sampled_from(TOOLS), st.integers(0, 2), st.sampled_from("wwofs")), max_size=8),
    st.lists(st.integers(0, 7), max_size=8),
    st.booleans(),
)
def test_it_is_as_if_they_had_never_been_proposed(  # noqa: C901 - three ways to end, in two sessions
    steps: list[tuple[str, int, str]], order: list[int], restored: bool
) -> None:
    """Whenever they are withdrawn, and whatever was judged in between; in a restored session as well."""
    session, plain = open_session(*RULES), open_session(*RULES)
    placed = []
    for tool, number, end in steps:
        verdict = session.check(tool, {"n": number})
        if not verdict.label:
            placed.append((verdict.permit, tool, number, end))
    ranked = sorted(range(len(placed)), key=lambda at: order[at] if at < len(order) else 9)
    if restored:
        session = session.policies.restore(session.snapshot(KEY), KEY)
        permits = dict(zip([one[0].place for one in placed], session.in_flight, strict=True))
        placed = [(permits[permit.place], *rest) for permit, *rest in placed]
    for at in ranked:
        permit, _, _, end = placed[at]
        if end == "w":
            session.withdraw(permit, "not wanted")
        elif end != "s":
            session.record("x", failed=end == "f", permit=permit)
    ran = [one for one in placed if one[3] != "w"]
    calls = []
    for _, tool, number, _ in ran:
        verdict = plain.check(tool, {"n": number})
        if verdict.label:
            return  # it was allowed because of what came to nothing: possible where obligations were met
        calls.append(verdict.permit)
    for at in ranked:
        if placed[at] in ran and placed[at][3] != "s":
            plain.record("x", failed=placed[at][3] == "f", permit=calls[ran.index(placed[at])])
    assert [event.tool for event in session.history] == [event.tool for event in plain.history]
    for tool in TOOLS:
        for number in range(3):
            asked = [one.check(tool, {"n": number}, reserve=False) for one in (session, plain)]
            assert told(asked[0]) == told(asked[1])
    assert told(session.finish()) == told(plain.finish())
    assert session.status == plain.status


def test_what_was_allowed_holds_if_another_call_never_runs() -> None:
    """A call is judged as if those that have not begun might never run; then as if they ran."""
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
    """Never both withdrawn and run; one that was used stays in flight."""
    now = [0.0]
    session = open_session("forall(pay(), count(pay()) == 0)", now=now)
    first = session.check("pay").permit
    now[0] = 301.0
    second = session.check("pay").permit
    assert second is not None
    assert [one.place for one in session.lapsed()] == [1]
    with pytest.raises(InputError, match="expired"):
        session.use(first)
    session.use(second)
    now[0] = 900.0
    assert session.check("pay").label == 1
    with pytest.raises(InputError, match="was used"):
        session.withdraw(second, "no")
    assert [event.status for event in session.history] == [None]


def test_a_call_whose_permit_nobody_took_may_have_run() -> None:
    """So it stays in flight, until the host says what became of it."""
    now = [0.0]
    session = open_session("forall(pay(), count(pay()) == 0)", now=now)
    assert session.check("pay").label == 0
    now[0] = 301.0
    assert session.check("pay").label == 1
    session.withdraw(session.in_flight[0], "it was not run")
    assert session.check("pay").label == 0


def test_who_ran_a_call_without_using_its_permit_can_still_say_so() -> None:
    """Then it happened after all, and counts."""
    now = [0.0]
    session = open_session("forall(pay(), count(pay()) == 0)", now=now)
    slow = session.check("pay").permit
    now[0] = 301.0
    assert session.check("look").label == 0
    with pytest.raises(InputError, match="several calls"):
        session.record("done")
    session.record("done", permit=slow)
    assert session.check("pay").label == 1


def test_what_may_have_begun_in_another_process_does_not_expire() -> None:
    """A snapshot does not tell whether a permit was used since."""
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
