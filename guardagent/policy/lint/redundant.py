"""Findings for duplicate and shadowed rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from guardagent.policy.lint.finding import LintFinding
from guardagent.policy.lint.scopes import is_within
from guardagent.policy.monitors.immediate import ForallMonitor
from guardagent.policy.monitors.rule import Rule
from guardagent.policy.solver.monitor import SolverMonitor
from guardagent.types import Decision

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
    first_redundant = bool(first_redundant) and _judges_all(second, first)
    second_redundant = bool(second_redundant) and _judges_all(first, second)
    if not first_redundant and not second_redundant:
        return
    loser, winner = (second, first) if second_redundant else (first, second)
    found = violating_calls(loser)
    if found is None:
        return
    example, tool = found
    if first_redundant and second_redundant:
        message = f"rule '{loser.id}' is equivalent to rule '{winner.id}'; remove one of them"
        yield LintFinding("duplicate", loser.id, tool, message, f"{example}: violates both", (winner.id,))
        return
    is_pointless = (loser.source.on_violation, winner.source.on_violation) == (Decision.ESCALATE, Decision.DENY)
    message = (
        f"no approval that rule '{loser.id}' asks for can help: every violation of it also violates rule "
        f"'{winner.id}', which blocks; let '{winner.id}' escalate too, or forbid more in '{loser.id}'"
        if is_pointless
        else f"rule '{loser.id}' has no effect: every violation of it also violates rule '{winner.id}', which is as "
        "severe; remove it, or forbid more in it"
    )
    kind = "contradictory" if is_pointless else "shadowed"
    shown = f"{example}: violates '{loser.id}' and '{winner.id}'"
    yield LintFinding(kind, loser.id, tool, message, shown, (winner.id,))


def _judges_all(wider: Rule, rule: Rule) -> bool:
    """Whether a rule judges every call that another one judges.

    A rule about several calls sees only those in its own scope.
    """
    one, other = rule.source.applies_to, wider.source.applies_to
    return one == other or (is_within(one, other) and _is_immediate(rule) and _is_immediate(wider))


def _is_immediate(rule: Rule) -> bool:
    """Whether a rule judges each proposed call by itself."""
    return all(isinstance(one, SolverMonitor | ForallMonitor) for one in rule.monitors)
