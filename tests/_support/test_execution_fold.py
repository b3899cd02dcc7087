from typing import Any

import pytest

from guardagent import Context, Decision, Event, GuardError, Verdict
from guardagent._support.execution import combine, deny_on_crash, fold
from guardagent.types import Check

EVENT, CONTEXT = Event("tool"), Context()


def gives(decision: str, **values: Any) -> Check:
    return lambda event, context: Verdict(Decision(decision), **values)


def crashes(error: Exception) -> Check:
    def check(event: Event, context: Context) -> Verdict:
        raise error

    return check


def test_the_most_severe_decision_stands_with_the_reasons_of_all() -> None:
    """The order does not affect the decision, and no reason is lost."""
    checks = [gives("warn", reasons=("w",)), gives("halt", reasons=("h",)), gives("allow", answer="x")]
    for ordered in (checks, checks[::-1]):
        verdict = fold(ordered)(EVENT, CONTEXT)
        assert verdict.decision == "halt"
        assert set(verdict.reasons) == {"w", "h"}
        assert verdict.answer is None


@pytest.mark.parametrize("error", [ValueError("boom"), GuardError("boom"), RecursionError("boom"), KeyError("boom")])
def test_a_check_that_crashes_denies_with_its_cause(error: Exception) -> None:
    """One crashing check among allowing ones denies, with the cause."""
    verdict = fold([gives("allow"), crashes(error), gives("allow")])(EVENT, CONTEXT)
    assert verdict.decision == "deny"
    assert "boom" in verdict.errors[0]


def test_no_check_at_all_denies() -> None:
    """An empty guard is a mistake, not a permission."""
    assert fold([])(EVENT, CONTEXT).errors


def test_a_check_that_returns_something_else_denies() -> None:
    """Only a Verdict counts as an answer."""
    check: Any = lambda event, context: True  # noqa: E731
    assert "expected a Verdict" in deny_on_crash(check)(EVENT, CONTEXT).errors[0]


def test_an_answer_passes_only_when_nothing_denies() -> None:
    """A check without an answer keeps the answer of another; a denial drops it."""
    answered, silent, denied = (v(EVENT, CONTEXT) for v in (gives("allow", answer="a"), gives("allow"), gives("deny")))
    assert combine(silent, answered).answer == "a"
    assert combine(denied, answered).answer is None
