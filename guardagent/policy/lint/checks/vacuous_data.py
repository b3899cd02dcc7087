"""Vacuous: a data rule, or one of its formulas, that nothing violates."""

from __future__ import annotations

from collections.abc import Iterator

from guardagent.policy.evaluation.terms import is_true
from guardagent.policy.language import ast
from guardagent.policy.lint.data_rules import analysis_of, is_never_violated, is_over_data
from guardagent.policy.lint.descriptions import text_of
from guardagent.policy.lint.finding import LintFinding
from guardagent.policy.lint.target import LintTarget
from guardagent.policy.logic.analysis import PolicyAnalysis
from guardagent.policy.monitors.rule import Rule


def check(target: LintTarget) -> Iterator[LintFinding]:
    """Skips `forall(t(), true)`, which lists a tool on purpose."""
    analysis = analysis_of(target)
    for rule in target.rules if analysis is not None else ():
        assert analysis is not None
        for at, read in enumerate(rule.rules):
            one = rule if len(rule.rules) == 1 else target.rule_of(rule, read)
            meant = isinstance(read, ast.Forall) and is_true(read.condition)
            if is_over_data(one) and one.tools and not meant and is_never_violated(target, one):
                yield _finding(one, text_of(rule, at, target), analysis)


def _finding(rule: Rule, text: str, analysis: PolicyAnalysis) -> LintFinding:
    tool = min(rule.tools)
    message = (
        f"nothing violates '{text}': every call satisfies it, or no call matches it; "
        "change it so that it forbids something"
    )
    found = analysis.example(tool, satisfied=[rule])
    example = f"{found.description if found else f'{tool}()'}: allowed, whatever the other values"
    return LintFinding("vacuous", rule.id, tool if len(rule.tools) == 1 else None, message, example)
