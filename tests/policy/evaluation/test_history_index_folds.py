"""`since`, `previous`, `distinct` and `pending`: over settled calls by an index, and over calls in flight."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from guardagent.errors import GuardError
from guardagent.policy.lint import lint_report
from guardagent.policy.load import compile_rules, load_policies
from guardagent.session.session import Session
from guardagent.types import Event
from tests._support.work import calls_within

KEY = bytes(32)
SINCE = "forall(pay(user=u), since(login(user=u), !logout(user=u)))"
PREVIOUS = "forall(pay(user=u), previous(login(user=u)))"
PENDING = "forall(pay(user=u), !pending(pay(user=u)))"
DISTINCT = "forall(pay(user=u), distinct(f:pay(), !failed(f), args(f).user) < 2)"


def after(rule: str, *events: str) -> str:
    """The outcome of a payment of user `a`; `TOOL USER`, with `?` in flight and `!` failed."""
    session: Session = compile_rules([rule, "forall(note(), true)"]).session()
    for event in events:
        tool, user = event.rstrip("?!").split()
        if event.endswith("?"):
            session.use(session.check(tool, {"user": user}).permit)
        else:
            status: Any = "failed" if event.endswith("!") else "ok"
            session.observe(Event(tool, {"user": user}, status=status), judge=False)
    verdict = session.check("pay", {"user": "a"}, reserve=False)
    return "unknown" if verdict.errors else "deny" if verdict.label else "allow"


@pytest.mark.parametrize(
    ("rule", "events", "outcome"),
    [
        (SINCE, (), "deny"),
        (SINCE, ("login a",), "allow"),
        (SINCE, ("login b",), "deny"),
        (SINCE, ("login a!",), "deny"),
        (SINCE, ("login a?",), "deny"),
        (SINCE, ("login a", "logout b"), "allow"),
        (SINCE, ("login a", "logout a"), "deny"),
        (SINCE, ("login a", "logout a!"), "deny"),
        (SINCE, ("login a", "logout a?"), "deny"),
        (SINCE, ("login a", "logout a", "login a"), "allow"),
        (SINCE, ("login a", "login a?"), "allow"),
        (SINCE, ("login a", "logout a", "login a?"), "deny"),
        (PREVIOUS, (), "deny"),
        (PREVIOUS, ("login a",), "allow"),
        (PREVIOUS, ("login a", "note a"), "deny"),
        (PREVIOUS, ("note a", "login a"), "allow"),
        (PREVIOUS, ("login a!",), "deny"),
        (PREVIOUS, ("login a?",), "deny"),
        (PENDING, ("pay a", "pay b?", "note a?"), "allow"),
        (PENDING, ("pay a?", "pay b?"), "deny"),
        (PENDING.replace("!", ""), ("pay a!",), "deny"),
        (f"{PENDING} OR {DISTINCT}", ("pay a?",), "allow"),
        (DISTINCT, ("pay a", "pay a", "pay a"), "allow"),
        (DISTINCT, ("pay a", "pay b"), "deny"),
        (DISTINCT, ("pay a", "pay b!"), "allow"),
    ],
)
def test_an_outcome_follows_the_calls(rule: str, events: tuple[str, ...], outcome: str) -> None:
    """For one user; a failed logout is one, and a failed login is none; calls in flight can end in each way."""
    assert after(rule, *events) == outcome


@pytest.mark.parametrize("rule", [SINCE, PREVIOUS, DISTINCT.replace("< 2", "< 9999")])
def test_a_check_takes_as_long_in_a_long_history(rule: str) -> None:
    """The calls are not searched one by one."""
    session = compile_rules([rule]).session()
    calls = []
    for size in (100, 4_000):
        for number in range(size):
            for tool in ("logout", "login", "pay"):
                session.observe(Event(tool, {"user": f"u{number % 7}"}, status="ok"), judge=False)
        session.check("pay", {"user": "u1"}, reserve=False)
        calls.append(calls_within(partial(session.check, "pay", {"user": "u1"}, reserve=False)))
    assert calls[1] < 2 * calls[0]


def test_a_call_is_pending_until_its_outcome_is_recorded() -> None:
    """Also in a restored snapshot; in a fork it stays so; a withdrawn call is not."""
    policies = compile_rules([PENDING])

    def denied(session: Session) -> list[Any]:
        return [user for user in ("a", "b", "c", "d") if session.check("pay", {"user": user}, reserve=False).label]

    session: Session = policies.session()
    first, second, _ = (session.check("pay", {"user": user}).permit for user in ("a", "b", "c"))
    assert denied(session) == ["a", "b", "c"]
    fork = session.fork()
    session.use(first)
    session.record("done", permit=first)
    session.withdraw(second)
    assert denied(session) == ["c"]
    assert denied(fork) == ["a", "b", "c"]
    assert denied(policies.restore(session.snapshot(KEY), KEY)) == ["c"]


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ("exists(pay(), pending(get()))", "without NOT"),
        ("after(pay(), true, get(), !pending(get()))", "without NOT"),
        ("NOT forall(pay(), pending(get()))", "without NOT"),
        ("forall(pay(), pending(f:get(), output(f) == 1))", "of a call in flight does not exist yet"),
    ],
)
def test_calls_in_flight_are_about_a_check(rule: str, problem: str) -> None:
    """A rule that outcomes decide, and an outcome of such a call, are errors when the rule is loaded."""
    with pytest.raises(GuardError, match=problem):
        compile_rules([rule])


def test_a_check_takes_as_long_among_many_calls_in_flight() -> None:
    """They have an index of their own: a rule about them costs little more than one that asks nothing."""
    calls = []
    for text in (PENDING, "forall(pay(user=u), true)"):
        session = compile_rules([text]).session(permit_seconds=10**9)
        for number in range(250):
            session.use(session.check("pay", {"user": f"u{number}"}).permit)
        session.check("pay", {"user": "other"}, reserve=False)
        calls.append(calls_within(partial(session.check, "pay", {"user": "new"}, reserve=False)))
    assert calls[0] < 3 * calls[1]


def test_a_fork_has_values_of_its_own() -> None:
    """A trial call in it adds none to the session."""
    session = compile_rules([DISTINCT]).session()
    session.observe(Event("pay", {"user": "a"}, status="ok"), judge=False)
    fork = session.fork()
    fork.observe(Event("pay", {"user": "b"}, status="ok"), judge=False)
    assert fork.check("pay", {"user": "a"}, reserve=False).label == 1
    assert session.check("pay", {"user": "a"}, reserve=False).label == 0


@pytest.mark.parametrize("rule", [SINCE, PREVIOUS, DISTINCT, PENDING, f"{SINCE} AND {PREVIOUS} AND {DISTINCT}"])
def test_lint_proves_nothing_false_about_them(rule: str) -> None:
    """A call can satisfy such a rule, and can violate it."""
    policies = load_policies(data={"version": 1, "unlisted": "deny", "policies": [{"id": "a", "temporal": rule}]})
    assert lint_report(policies, ["contradictory", "vacuous"]).findings == ()
