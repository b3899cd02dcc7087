"""The cost of a window does not grow with the history."""

from __future__ import annotations

from time import perf_counter

import pytest

from guardagent import Event, Session
from guardagent.policy.load import compile_rules

RULES = (
    "forall(pay(to=t), count(f:pay(to=t), within 24h) >= 0)",
    "forall(pay(to=t), sum(f:pay(to=t, n=n), true, n, within 24h) >= 0)",
    "forall(pay(to=t), some(f:pay(to=t), true, within 24h))",
)
STEP = 60


def after(calls: int, rule: str) -> Session:
    session = compile_rules([rule]).session(clock=lambda: calls * STEP)
    for number in range(calls):
        session.observe(Event("pay", {"to": "a", "n": 0.1}, None, "ok", time=number * STEP), judge=False)
    return session


def cost(session: Session) -> float:
    """The fastest of several checks, in seconds."""
    best = 1.0
    for _ in range(200):
        started = perf_counter()
        assert session.check("pay", {"to": "a"}, reserve=False).label == 0
        best = min(best, perf_counter() - started)
    return best


@pytest.mark.parametrize("rule", RULES)
def test_a_long_history_costs_no_more(rule: str) -> None:
    """Calls before the window, and in it, are not visited one by one."""
    assert cost(after(8000, rule)) < 8 * cost(after(80, rule))
