"""Contradictory: a tool that can never be called, or whose pending obligation can never be met.

Tools that are forbidden outright are not reported.
"""

from __future__ import annotations

from collections.abc import Iterator

from guardagent.policy.lint.data import required_calls
from guardagent.policy.lint.data_contradictions import data_contradictions
from guardagent.policy.lint.finding import LintFinding
from guardagent.policy.lint.scoped_contradictions import scoped_contradictions
from guardagent.policy.lint.solver_contradictions import solver_contradictions
from guardagent.policy.lint.step_contradictions import step_contradictions
from guardagent.policy.lint.target import LintTarget


def check(target: LintTarget) -> Iterator[LintFinding]:
    """Yields one finding per tool, for the simplest reason. Tools that can never be called are ignored afterwards."""
    reported: dict[str | None, None] = {}
    for contradictions in (solver_contradictions, data_contradictions):
        for found in contradictions(target):
            if found.tool not in reported:
                reported[found.tool] = None
                yield found
    for found in step_contradictions(target, never=[tool for tool in reported if tool is not None]):
        reported[found.tool] = None
        yield found
    for contradictions in (scoped_contradictions, required_calls):
        yield from (found for found in contradictions(target) if found.tool not in reported)
