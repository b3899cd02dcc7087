"""Finds tools that data rules never allow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from guardagent.policy.lint.data_rules import analysis_of, is_over_data
from guardagent.policy.lint.descriptions import rules_of
from guardagent.policy.lint.finding import LintFinding
from guardagent.policy.lint.minimal_set import minimal_set
from guardagent.policy.lint.target import LintTarget
from guardagent.policy.logic.analysis import PolicyAnalysis
from guardagent.policy.monitors.rule import Rule


def data_contradictions(target: LintTarget) -> Iterator[LintFinding]:
    """Yields findings for one rule, or for several rules together."""
    analysis = analysis_of(target)
    if analysis is None:
        return
    rules = [rule for rule in target.blocking if is_over_data(rule)]
    for tool in sorted({tool for rule in rules for tool in rule.tools} - target.forbidden_tools):
        if analysis.is_never_allowed(tool, rules):
            least = minimal_set(rules, partial(analysis.is_never_allowed, tool))
            yield never_allowed(tool, least, "", analysis)


def never_allowed(tool: str, least: Sequence[Rule], who: str, analysis: PolicyAnalysis) -> LintFinding:
    """Returns the finding for a tool that some rules never allow; `who` says to whom."""
    least = sorted(least, key=lambda rule: tool in rule.tools)
    ids = [rule.id for rule in least]
    others = tuple(ids[:-1])
    if not ids:  # an unlisted call is denied, or an argument is not declared
        message = f"'{tool}' can never be called: no declaration in the file allows it"
        return LintFinding("contradictory", None, tool, message, f"{tool}(): denied")
    message = f"'{tool}' can never be called{who}: no call satisfies {rules_of(ids)}{' together' * (len(ids) > 1)}"
    found = analysis.example(tool, satisfied=least[:-1], violated=least[-1:])
    if found is None:
        return LintFinding("contradictory", ids[-1], tool, message, f"{tool}(), with any arguments: denied", others)
    denied = f"denied by rule '{ids[-1]}'" + (f", allowed by {rules_of(ids[:-1])}" if len(ids) > 1 else "")
    return LintFinding("contradictory", ids[-1], tool, message, f"{found.description}: {denied}", others)
