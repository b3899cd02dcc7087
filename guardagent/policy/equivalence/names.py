"""Replaces the names that a draft declares by what they stand for, so that drafts with other names can be equal."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from guardagent.policy.equivalence.canonical import mapped
from guardagent.policy.language import ast
from guardagent.policy.language.formula import Conjunction, Disjunction, all_of, any_of
from guardagent.policy.language.formula import Literal as StepLiteral
from guardagent.policy.policies import Policies


def without_names(rule: ast.Rule, policies: Policies) -> ast.Rule:
    """Returns a rule with the tools of each set instead of `@name`, and counters by their definition.

    Constants and definitions have no names in a parsed rule; solver rules keep theirs.
    """
    return _Unnaming(policies).replaced(rule)  # type: ignore[no-any-return]


class _Unnaming:
    def __init__(self, policies: Policies) -> None:
        self._tags = policies.tags
        self._counters = {} if policies.source is None else policies.source.counters

    def replaced(self, node: Any) -> Any:
        match node:
            case ast.SolverRule():
                return node
            case ast.Pattern(tools) if any(one in self._sets for one in tools):
                node = replace(node, tools=tuple(sorted({tool for one in tools for tool in self._tools(one)})))
            case ast.CounterValue(name):
                node = replace(node, name=self._definition(name))
            case StepLiteral(atom, positive) if atom in self._sets:
                return (any_of if positive else all_of)(
                    StepLiteral(f"tool:{one}", positive) for one in self._tools(atom)
                )
            case Conjunction(parts):
                return all_of(map(self.replaced, parts))
            case Disjunction(parts):
                return any_of(map(self.replaced, parts))
        return mapped(node, self.replaced)

    @property
    def _sets(self) -> frozenset[str]:
        """The sets with a tool: another one stays a name."""
        return frozenset(f"@{name}" for name, tools in self._tags.items() if tools)

    def _tools(self, name: str) -> list[str]:
        return sorted(self._tags[name[1:]]) if name in self._sets else [name]

    def _definition(self, name: str) -> str:
        one = self._counters.get(name)
        if one is None:
            return name
        keys = [key.text for key in one.keys]
        return repr((one.on.text, keys, one.sum and one.sum.text, one.window))
