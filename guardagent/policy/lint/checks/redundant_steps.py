"""Duplicate and shadowed: a rule about the order of steps that another one implies."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from guardagent.policy.lint.descriptions import calls_of
from guardagent.policy.lint.finding import LintFinding
from guardagent.policy.lint.forbidden_calls import rules_about_forbidden_calls
from guardagent.policy.lint.implication import ImplicationResult, check_implication
from guardagent.policy.lint.redundant import ViolatingCalls, redundancy_findings
from guardagent.policy.lint.severity import allows_continuing, covers
from guardagent.policy.lint.steps import RuleAutomaton, SearchLimitError
from guardagent.policy.lint.target import LintTarget


def check(target: LintTarget) -> Iterator[LintFinding]:
    automata = [RuleAutomaton(rule, target.tags, calls_may_fail=True) for rule in target.rules]
    automata = [one for one in automata if any(track is not None for track in one.tracks)]
    reported = set(rules_about_forbidden_calls(target))
    for first, second in combinations(automata, 2):
        if not (first.rule.tools & second.rule.tools or first.rule.labels & second.rule.labels):
            continue
        try:
            found = [] if reported & {first.rule.id, second.rule.id} else list(_of_pair(first, second, target))
        except SearchLimitError:
            question = f"whether rules '{first.rule.id}' and '{second.rule.id}' imply each other"
            target.add_undecided(question, "they have too many states")
            continue
        reported |= {one.policy for one in found if one.policy}
        yield from found


def _of_pair(first: RuleAutomaton, second: RuleAutomaton, target: LintTarget) -> Iterator[LintFinding]:
    forth, back = _shadowed(first, second, target), _shadowed(second, first, target)
    found = {first.rule: forth, second.rule: back}
    return redundancy_findings(first.rule, second.rule, forth, back, lambda rule: _broken(found[rule]))


def _shadowed(first: RuleAutomaton, second: RuleAutomaton, target: LintTarget) -> ImplicationResult | None:
    """Returns the implication that makes the first rule redundant, or None."""
    severity = second.rule.source.on_violation
    if not first.exact or not covers(severity, first.rule.source.on_violation):
        return None
    found = check_implication(first, second, target.tools, may_continue=allows_continuing(severity))
    return found if found.implied and found.example is not None else None


def _broken(found: ImplicationResult | None) -> ViolatingCalls | None:
    if found is None or found.example is None:
        return None
    return calls_of(found.example), found.example[-1].call.tool if found.example else None
