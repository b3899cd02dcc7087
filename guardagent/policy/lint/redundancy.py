"""Findings for duplicate and shadowed rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from guardagent.policy.lint.finding import LintFinding
from guardagent.policy.monitors.rule import Rule

ViolatingCalls = tuple[str, str | None]  # a description of calls, and the tool of the violating call


def redundancy_findings(
    first: Rule,
    second: Rule,
    first_redundant: object,
    second_redundant: object,
    violating_calls: Callable[[Rule], ViolatingCalls | None],
) -> Iterator[LintFinding]:
    """Yields a finding if the rules are duplicates or one shadows the other.

    Args:
        first: the first rule.
        second: a later rule.
        first_redundant: whether the second rule makes the first one redundant.
        second_redundant: whether the first rule makes the second one redundant.
        violating_calls: returns calls that violate a rule, or None if there are none.
    """
    if not first_redundant and not second_redundant:
        return
    if first.source.applies_to != second.source.applies_to:
        return  # they judge different calls
    loser, winner = (second, first) if second_redundant else (first, second)
    found = violating_calls(loser)
    if found is None:
        return
    example, tool = found
    if first_redundant and second_redundant:
        message = f"rule '{loser.id}' is equivalent to rule '{winner.id}'; remove one of them"
        yield LintFinding("duplicate", loser.id, tool, message, f"{example}: violates both")
        return
    message = (
        f"rule '{loser.id}' has no effect: every violation of it also violates rule '{winner.id}', which is as severe; "
        "remove it, or forbid more in it"
    )
    yield LintFinding("shadowed", loser.id, tool, message, f"{example}: violates '{loser.id}' and '{winner.id}'")
