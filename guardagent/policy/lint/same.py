"""What is said of two rules of which one implies the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from guardagent.policy.lint.finding import LintFinding
from guardagent.policy.monitors.rule import Rule

Broken = tuple[str, str | None]  # calls in words, and the tool of the one that breaks a rule


def told_of(
    first: Rule, second: Rule, forth: object, back: object, broken: Callable[[Rule], Broken | None]
) -> Iterator[LintFinding]:
    """A duplicate, or a rule that another one shadows.

    Args:
        first: a rule.
        second: a later one.
        forth: whether the first one is left nothing to decide.
        back: whether the second one is.
        broken: gives calls that break a rule; None where there are none, and so nothing to shadow.
    """
    if not forth and not back:
        return
    loser, winner = (second, first) if back else (first, second)
    found = broken(loser)
    if found is None:
        return
    example, tool = found
    if forth and back:
        message = f"{loser.id} says the same as {winner.id}; take one of them out"
        yield LintFinding("duplicate", loser.id, tool, message, f"{example}: breaks both")
        return
    message = (
        f"{loser.id} never decides anything: whatever breaks it breaks {winner.id}, which is as severe; "
        "take it out, or say what it forbids besides"
    )
    yield LintFinding("shadowed", loser.id, tool, message, f"{example}: breaks {loser.id}, and {winner.id} with it")
