"""A draft: the rules that one translation of a sentence consists of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from guardagent.errors import InputError
from guardagent.policy.equivalence.canonical import as_data, as_steps, canonical, parts_of
from guardagent.policy.equivalence.names import without_names
from guardagent.policy.evaluation.library import Library
from guardagent.policy.language import ast
from guardagent.policy.lint.steps import RuleAutomaton
from guardagent.policy.load import load_policies
from guardagent.policy.monitors.rule import Rule
from guardagent.policy.policies import Policies
from guardagent.policy.scope import Scope
from guardagent.types import Decision

Group = tuple[Decision, Scope | None]
"""The response to violations, and whom the rules concern."""


@dataclass(frozen=True, eq=False)
class Part:
    """A rule of a conjunction, in a canonical spelling."""

    rule: ast.Rule
    source: Rule

    @property
    def group(self) -> Group:
        return self.source.source.on_violation, self.source.source.applies_to

    @property
    def text(self) -> str:
        """Its canonical text; equal texts mean equal rules."""
        return f"{id(self.rule)}" if isinstance(self.rule, ast.SolverRule) else repr(self.rule)


class ComparedDraft:
    """A draft.

    Args:
        rules: policies, a formula, a rule as in a policy file, or a list of such rules.

    Raises:
        InputError: the rules are invalid.
    """

    def __init__(self, rules: Any) -> None:
        self.policies = _policies_of(rules)

    @cached_property
    def parts(self) -> Sequence[Part]:
        wholes = [(without_names(one, self.policies), rule) for rule in self.policies.rules for one in rule.rules]
        return [Part(canonical(read), rule) for whole, rule in wholes for read in parts_of(whole)]

    @cached_property
    def data_parts(self) -> Sequence[Part] | None:
        """The parts without formulas about steps, or None if one has no such form."""
        found = [(as_data(one.rule), one.source) for one in self.parts]
        if any(rule is None for rule, _ in found):
            return None
        return [Part(canonical(rule), source) for rule, source in found if rule is not None]

    def automata(self, parts: Sequence[Part]) -> list[RuleAutomaton] | None:
        """The automata of parts, or None if one is not about the order of steps only."""
        steps = [(as_steps(one.rule), one.source) for one in parts]
        if any(rule is None for rule, _ in steps):
            return None
        try:
            rules = [Rule(source.source, [rule], self._library) for rule, source in steps if rule is not None]
            return [RuleAutomaton(rule, self.policies.tags, calls_may_fail=True) for rule in rules]
        except InputError:  # an automaton is too large
            return None

    @property
    def _library(self) -> Library:
        return Library(self.policies.functions, self.policies.tags, None)

    @cached_property
    def tools(self) -> frozenset[str]:
        """The tools that its rules mention."""
        return frozenset(tool for rule in self.policies.rules for tool in rule.mentioned_tools) - {"*"}

    @property
    def frame(self) -> tuple[Any, ...]:
        """Declarations that decide beside the rules: drafts with different ones cannot be proved equal."""
        one = self.policies
        listed = None if one.unlisted == "allow" else frozenset(rule.tools for rule in one.rules)
        declared = None if one.source is None or one.source.tools is None else tuple(one.source.tools.items())
        toolbox = None if one.source is None else one.source.toolbox
        return listed, declared, one.failed_output and one.failed_output.pattern, one.sources, toolbox

    @property
    def has_solver_rules(self) -> bool:
        """Whether sets of tools may be named in the expressions of solver rules."""
        return any(isinstance(one.rule, ast.SolverRule) for one in self.parts)

    @property
    def problem(self) -> str:
        """The reason that the draft can only be compared with one in the same words; empty if there is none."""
        if self.policies.requests:
            return "a draft has a guard request, which a model or program judges"
        return "a draft counts across conversations" if self.policies.counters else ""


def _policies_of(rules: Any) -> Policies:
    if isinstance(rules, Policies):
        return rules
    found = [rules] if isinstance(rules, str | Mapping) else list(rules) if isinstance(rules, Sequence) else []
    if not found or not all(isinstance(one, str | Mapping) for one in found):
        kind = type(rules).__name__
        raise InputError(f"a draft is a {kind}; expected policies, a rule as in a policy file, or a list of such rules")
    written = [
        {"id": f"rule {at}", "temporal": one} if isinstance(one, str) else one for at, one in enumerate(found, 1)
    ]
    return load_policies(data={"version": 1, "policies": written})
