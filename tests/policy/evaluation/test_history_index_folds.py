"""`since`, `previous` and `distinct`: over settled calls by an index, and over calls in flight."""

from __future__ import annotations

import time
from typing import Any

import pytest

from guardagent.policy.lint import lint_report
from guardagent.policy.load import compile_rules, load_policies
from guardagent.session.session import Session
from guardagent.types import Event

SINCE = "forall(pay(user=u), since(login(user=u), !logout(user=u)))"
PREVIOUS = "forall(pay(user=u), previous(login(user=u)))"
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
    seconds = []
    for size in (100, 4_000):
        for number in range(size):
            for tool in ("logout", "login", "pay"):
                session.observe(Event(tool, {"user": f"u{number % 7}"}, status="ok"), judge=False)
        started = time.perf_counter()
        for _ in range(300):
            session.check("pay", {"user": "u1"}, reserve=False)
        seconds.append(time.perf_counter() - started)
    assert seconds[1] < 8 * seconds[0] + 0.02


def test_a_fork_has_values_of_its_own() -> None:
    """A trial call in it adds none to the session."""
    session = compile_rules([DISTINCT]).session()
    session.observe(Event("pay", {"user": "a"}, status="ok"), judge=False)
    fork = session.fork()
    fork.observe(Event("pay", {"user": "b"}, status="ok"), judge=False)
    assert fork.check("pay", {"user": "a"}, reserve=False).label == 1
    assert session.check("pay", {"user": "a"}, reserve=False).label == 0


@pytest.mark.parametrize("rule", [SINCE, PREVIOUS, DISTINCT, f"{SINCE} AND {PREVIOUS} AND {DISTINCT}"])
def test_lint_proves_nothing_false_about_them(rule: str) -> None:
    """A call can satisfy such a rule, and can violate it."""
    policies = load_policies(data={"version": 1, "unlisted": "deny", "policies": [{"id": "a", "temporal": rule}]})
    assert lint_report(policies, ["contradictory", "vacuous"]).findings == ()
