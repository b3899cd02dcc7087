"""Finds tools that nobody may call, or nobody to whom a rule applies, because of rules with scopes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from guardagent.policy.language import ast
from guardagent.policy.lint.data_contradictions import never_allowed
from guardagent.policy.lint.data_rules import analysis_of, is_over_data
from guardagent.policy.lint.finding import LintFinding
from guardagent.policy.lint.minimal_set import minimal_set
from guardagent.policy.lint.scopes import conditional, is_within
from guardagent.policy.lint.target import LintTarget
from guardagent.policy.logic.analysis import PolicyAnalysis
from guardagent.policy.monitors.rule import Rule


def scoped_contradictions(target: LintTarget) -> Iterator[LintFinding]:
    """Yields at most one finding for each tool, also for one that is forbidden to everyone without a scope."""
    analysis = analysis_of(target)
    if analysis is not None:
        common = [rule for rule in target.blocking if is_over_data(rule)]
        yield from _ScopedContradictions(target, analysis, common).findings()


class _ScopedContradictions:
    """The searches, for one policy file.

    Earlier calls of a conversation can have another principal, so rules with scopes judge one call only.
    """

    def __init__(self, target: LintTarget, analysis: PolicyAnalysis, common: Sequence[Rule]) -> None:
        self._target, self._analysis, self._never = target, analysis, set[str]()
        self._common = [rule for rule in common if rule.source.applies_to is None]
        denying = [rule for rule in target.denying if rule not in target.blocking]
        self._scoped = [rule for rule in denying if rule.source.applies_to is not None]

    def findings(self) -> Iterator[LintFinding]:
        for rule in self._scoped:
            scope = rule.source.applies_to
            same = [one for one in self._scoped if is_within(scope, one.source.applies_to) and is_over_data(one)]
            tools = rule.tools - self._never - self._target.forbidden_within(scope)
            who = f" by anyone in the scope of rule '{rule.id}'"
            yield from self._of_tools(tools, same if rule in same else [], lambda one: one, who)
        tools = frozenset(tool for rule in self._scoped for tool in rule.tools) - self._never
        yield from self._of_tools(
            tools - self._target.forbidden_within(None), self._scoped, self._for_everyone, " by anyone"
        )

    def _for_everyone(self, rule: Rule) -> Rule:
        """A rule without a scope that allows at least what the rule with the scope allows."""
        tools = tuple(sorted(self._target.banned_by(rule)))
        bans = [ast.Forall(ast.Pattern(tools), ast.Constant(value=False))] if tools else []
        read = [one for part in (*rule.rules, *bans) for one in conditional(part, rule.source.applies_to)]
        return self._target.rule_of(rule, ast.AllOf(tuple(read)))

    def _of_tools(
        self, tools: frozenset[str], scoped: Sequence[Rule], judged: Callable[[Rule], Rule], who: str
    ) -> Iterator[LintFinding]:
        judging = {rule: judged(rule) for rule in scoped}
        for tool in sorted(tools) if scoped else ():

            def is_excluded(some: Sequence[Rule], tool: str = tool) -> bool:
                common = [one for one in some if one not in judging]
                others = [judging[one] for one in some if one in judging]
                return bool(others) and self._analysis.is_never_allowed(tool, common, others=others)

            together = [*self._common, *scoped]
            if is_excluded(together):
                self._never.add(tool)
                least = minimal_set(together, is_excluded)
                yield never_allowed(tool, least, who, self._analysis)
