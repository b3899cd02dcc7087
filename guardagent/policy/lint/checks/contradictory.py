"""Contradictory: a tool that can never be called, or after which no conversation ends well.

One that is forbidden outright is meant to be.
"""

from __future__ import annotations

from collections.abc import Iterator

from guardagent.policy.lint.contradictory_data import by_data
from guardagent.policy.lint.contradictory_solver import by_solver
from guardagent.policy.lint.contradictory_steps import by_steps
from guardagent.policy.lint.finding import LintFinding
from guardagent.policy.lint.subject import Subject


def check(subject: Subject) -> Iterator[LintFinding]:
    """Each tool once, by the simplest reason; what can never be called helps no other one."""
    told: dict[str | None, None] = {}
    for by in (by_solver, by_data):
        for found in by(subject):
            if found.tool not in told:
                told[found.tool] = None
                yield found
    yield from by_steps(subject, never=[tool for tool in told if tool is not None])
