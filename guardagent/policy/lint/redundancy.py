"""What is said of two rules of which one implies the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from guardagent.policy.lint.finding import LintFinding
from guardagent.policy.monitors.rule import Rule

ViolatingCalls = tuple[str, str | None]  # calls in words, and the tool of the one that breaks a rule


def redundancy_findings(
    first: Rule,
    second: Rule,
    first_redundant: object,
    second_redundant: object,
    violating_calls: Callable[[Rule], ViolatingCalls | None],
) -> Iterator[LintFinding]:
    """A duplicate, or a rule that another one shadows.

    Args:
        first: a rule.
        second: a later one.
        first_redundant: whether the first one is left nothing to decide.
        second_redundant: whether the second one is.
        violating_calls: gives calls that break a rule; None where there are none, and so nothing to shadow.
    """
    if not first_redundant and not second_redundant:
        return
    loser, winner = (second, first) if second_redundant else (first, second)
    found = violating_calls(loser)
    if found is None:
        return
    example, tool = found
    if first_redundant and second_redundant:
        message = f"{loser.id} says the same as {winner.id}; take one of them out"
        yield LintFinding("duplicate", loser.id, tool, message, f"{example}: breaks both")
        return
    message = (
        f"{loser.id} never decides anything: whatever breaks it breaks {winner.id}, which is as severe; "
        "take it out, or say what it forbids besides"
    )
    yield LintFinding("shadowed", loser.id, tool, message, f"{example}: breaks {loser.id}, and {winner.id} with it")
