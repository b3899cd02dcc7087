"""Contradictory: a rule that says when a call is allowed, or what it needs, although other rules forbid it outright."""

from __future__ import annotations

from collections.abc import Iterator

from guardagent.policy.lint.finding import LintFinding
from guardagent.policy.lint.forbidden_calls import rules_about_forbidden_calls
from guardagent.policy.lint.target import LintTarget


def check(target: LintTarget) -> Iterator[LintFinding]:
    yield from rules_about_forbidden_calls(target).values()
