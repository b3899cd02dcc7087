"""The policy file that lint checks: loaded as for a session, with stubs in place of its functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from guardagent.errors import InputError
from guardagent.policy.evaluation.library import Library
from guardagent.policy.file.policy_file import PolicyFile, read_policy_file
from guardagent.policy.file.rule_keys import RuleSource
from guardagent.policy.language import ast
from guardagent.policy.lint.scopes import is_within
from guardagent.policy.lint.step_formulas import bans
from guardagent.policy.load import compile_policies, functions_of, inspection_only
from guardagent.policy.logic.known_calls import NOTHING_KNOWN, KnownCalls
from guardagent.policy.monitors.rule import Rule
from guardagent.policy.policies import Policies
from guardagent.policy.scope import Scope
from guardagent.policy.stubs import stub_functions
from guardagent.types import Decision


@dataclass(eq=False)
class LintTarget:
    """A policy file that lint checks.

    Attributes:
        functions: stubs of the state functions.
        undecided: questions that could not be decided; the checks add to it.
        seconds: the CPU seconds for questions about data.
        known: what judged calls have shown of the policies.
    """

    file: PolicyFile
    functions: Mapping[str, Callable[..., Any]]
    policies: Policies
    undecided: list[str] = field(default_factory=list)
    seconds: float = math.inf
    known: KnownCalls = NOTHING_KNOWN

    @property
    def ids(self) -> Sequence[str]:
        return [source.id for source in self.file.rules]

    @property
    def rules(self) -> Sequence[Rule]:
        """All rules except guard requests."""
        return self.policies.rules

    @cached_property
    def denying(self) -> Sequence[Rule]:
        """The rules whose violation denies a call for good; a warning or an escalation does not."""
        return [rule for rule in self.rules if rule.source.on_violation in (Decision.DENY, Decision.HALT)]

    @cached_property
    def blocking(self) -> Sequence[Rule]:
        """The denying rules that judge the same calls: of several scopes, only rules without one are among them."""
        alike = len({rule.source.applies_to for rule in self.denying}) == 1
        return [rule for rule in self.denying if alike or rule.source.applies_to is None]

    @property
    def tags(self) -> Mapping[str, frozenset[str]]:
        return self.file.tags

    @cached_property
    def sources(self) -> Mapping[str, RuleSource]:
        return {source.id: source for source in self.file.rules}

    @cached_property
    def named_tools(self) -> Sequence[str]:
        """The tools that rules name, sorted."""
        return sorted({tool for rule in self.rules for tool in rule.tools})

    @cached_property
    def tools(self) -> Sequence[str]:
        """The tools that can be called; if the file has no list of tools, another tool is included."""
        known = sorted(self.file.tools) if self.file.tools is not None else [*self.mentioned_tools, "another_tool"]
        return [tool for tool in known if self.policies.for_anyone(tool).listed]

    @cached_property
    def mentioned_tools(self) -> Sequence[str]:
        """The tools that rules mention anywhere, such as prerequisites; sorted."""
        patterns = [one for rule in self.rules for read in rule.rules for one in ast.walk(read)]
        names = [name for one in patterns if isinstance(one, ast.Pattern) for name in one.tools]
        tagged = {tool for name in names if name[0] == "@" for tool in self.tags[name[1:]]}
        return sorted({*self.named_tools, *tagged, *(name for name in names if name[0] != "@")})

    @cached_property
    def forbidden_tools(self) -> frozenset[str]:
        """The tools that a rule forbids outright, on purpose."""
        return frozenset(tool for rule in self.rules for tool in self.banned_by(rule))

    def forbidden_within(self, scope: Scope | None) -> frozenset[str]:
        """The tools that a rule forbids outright for every call in a scope."""
        rules = (rule for rule in self.denying if is_within(scope, rule.source.applies_to))
        return frozenset(tool for rule in rules for tool in self.banned_by(rule))

    @cached_property
    def forbidding_rules(self) -> frozenset[str]:
        """The ids of rules about calls or steps that forbid tools outright."""
        return frozenset(rule.id for rule in self.rules if any(bans(one, self.tags) for one in rule.rules))

    def banned_by(self, rule: Rule) -> frozenset[str]:
        """The tools that a rule forbids outright."""
        solver = self.sources[rule.id].solver
        outright = (
            tool for tool, one in (solver.tools if solver else {}).items() if one.permit.text.strip() == "false"
        )
        return frozenset({*outright, *(tool for one in rule.rules for tool in bans(one, self.tags))})

    def rule_of(self, rule: Rule, read: ast.Rule) -> Rule:
        """Compiles one formula as a rule with the source of another."""
        counters = {counter.name: counter for counter in self.policies.counters}
        return Rule(
            rule.source,
            [read],
            Library(self.functions, self.tags, self.file.tools, sources=self.file.labels, counters=counters),
        )

    def add_undecided(self, question: str, reason: str) -> None:
        """Records a question that was not decided."""
        self.undecided.append(f"{question}: not decided: {reason}")


def subject_of(source: Path | str | Policies) -> LintTarget:
    """Loads a policy file for lint, or takes loaded policies.

    Raises:
        InputError: the file cannot be loaded, or the policies come from none.
    """
    if isinstance(source, Policies):
        if source.source is None:
            raise InputError("these policies have no source; expected policies that 'load_policies' loaded")
        return LintTarget(source.source, source.functions, source)
    file = read_policy_file(source)
    functions = functions_of(file, stub_functions)
    return LintTarget(file, functions, compile_policies(file, functions, lambda _: inspection_only))
