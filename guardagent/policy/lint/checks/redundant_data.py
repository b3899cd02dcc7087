"""Duplicate and shadowed: a data rule that another one implies."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from guardagent.policy.evaluation.terms import is_true
from guardagent.policy.language import ast
from guardagent.policy.language.printer import text_of
from guardagent.policy.lint.data_rules import analysis_of, is_never_violated, is_over_data, terms_of
from guardagent.policy.lint.finding import LintFinding
from guardagent.policy.lint.forbidden_calls import rules_about_forbidden_calls
from guardagent.policy.lint.redundant import ViolatingCalls, redundancy_findings
from guardagent.policy.lint.severity import covers
from guardagent.policy.lint.steps import RuleAutomaton
from guardagent.policy.lint.target import LintTarget
from guardagent.policy.logic.analysis import PolicyAnalysis
from guardagent.policy.monitors.rule import Rule


def check(target: LintTarget) -> Iterator[LintFinding]:
    """Compares data rules, except vacuous ones and pairs that are about the order of steps only."""
    analysis = analysis_of(target)
    if analysis is None:
        return
    rules = [rule for rule in target.rules if is_over_data(rule) and not is_never_violated(target, rule)]
    exact = {rule for rule in rules if RuleAutomaton(rule, target.tags).exact}
    looks_at = {rule: terms_of(rule) for rule in rules}
    reported = set(rules_about_forbidden_calls(target))
    for first, second in combinations(rules, 2):
        if (
            not _comparable(looks_at[first], looks_at[second])
            or (first in exact and second in exact)
            or reported & {first.id, second.id}
        ):
            continue
        forth, back = _shadows(second, first, analysis), _shadows(first, second, analysis)
        for one in redundancy_findings(first, second, forth, back, lambda rule: _broken(rule, analysis)):
            reported.add(one.policy or "")
            yield one


def _comparable(one: frozenset[str], other: frozenset[str]) -> bool:
    """Whether one rule reads all that the other reads; otherwise an implication is too unlikely to check."""
    return one <= other or other <= one


def _shadows(second: Rule, first: Rule, analysis: PolicyAnalysis) -> bool:
    """Whether the second rule makes the first one redundant."""
    severities = second.source.on_violation, first.source.on_violation
    return first.tools <= second.tools and covers(*severities) and analysis.implies(second, first)


def _broken(rule: Rule, analysis: PolicyAnalysis) -> ViolatingCalls | None:
    """Returns a call or an end that violates a rule."""
    found = (analysis.example(tool, violated=[rule]) for tool in sorted(rule.tools))
    call = next(((one.description, one.tool) for one in found if one is not None), None)
    return call or next((one for read in rule.rules if (one := _ended(read))), None)


def _ended(read: ast.Rule) -> ViolatingCalls | None:
    match read:
        case ast.Exists(pattern):
            return "no call at all before the end", pattern.tools[0].removeprefix("@")
        case ast.After(pattern, condition, partner):
            so = "" if is_true(condition) else f" so that {text_of(condition)}"
            return f"{text_of(pattern)}{so}, and no {text_of(partner)} after it", pattern.tools[0].removeprefix("@")
    return None
