"""Changes of formulas. Each variant is the kind of the change, and the changed rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from guardagent.policy.language import ast
from guardagent.policy.mutants import ConditionVariants
from guardagent.policy.mutants_pieces.steps import formula_variants

ChangedRules = Iterator[tuple[str, ast.Rule]]


class RuleVariants:
    """Changes one place of a formula at a time.

    Args:
        tags: the sets of tools.
    """

    def __init__(self, tags: Mapping[str, frozenset[str]]) -> None:
        self._conditions = ConditionVariants(tags)

    def variants(self, rule: ast.Rule) -> ChangedRules:
        match rule:
            case ast.Temporal(formula):
                yield from ((kind, ast.Temporal(one)) for kind, one in formula_variants(formula))
            case ast.AllOf(parts) | ast.AnyOf(parts):
                yield from self._joined(rule, parts)
            case ast.Not(body):
                yield "rule negated", body
                yield from ((kind, ast.Not(one)) for kind, one in self.variants(body))
            case ast.Forall() | ast.Exists() | ast.Before() | ast.After():
                yield from self._turned(rule)
                yield from self._patterns(rule)
                yield from self._changed(rule)

    def _joined(self, rule: ast.AllOf | ast.AnyOf, parts: tuple[ast.Rule, ...]) -> ChangedRules:
        for at in range(len(parts)):
            rest = parts[:at] + parts[at + 1 :]
            yield "formula dropped", rest[0] if len(rest) == 1 else replace(rule, parts=rest)
        yield (
            "or in place of and" if isinstance(rule, ast.AllOf) else "and in place of or",
            (ast.AnyOf(parts) if isinstance(rule, ast.AllOf) else ast.AllOf(parts)),
        )
        for at, part in enumerate(parts):
            for kind, one in self.variants(part):
                yield kind, replace(rule, parts=(*parts[:at], one, *parts[at + 1 :]))

    def _turned(self, rule: ast.Rule) -> ChangedRules:
        """`before` and `after` in place of each other, and the two calls of `before` exchanged."""
        match rule:
            case ast.Before(pattern, condition, partner, partner_condition):
                yield "after in place of before", ast.After(pattern, condition, partner, partner_condition)
                yield "calls exchanged", ast.Before(partner, partner_condition, pattern, condition)
            case ast.After(pattern, condition, partner, partner_condition):
                yield "before in place of after", ast.Before(pattern, condition, partner, partner_condition)

    def _patterns(self, rule: ast.Forall | ast.Exists | ast.Before | ast.After) -> ChangedRules:
        for kind, pattern in self._conditions.pattern(rule.pattern):
            yield kind, replace(rule, pattern=pattern)
        if isinstance(rule, ast.Before | ast.After):
            for kind, pattern in self._conditions.pattern(rule.partner):
                yield kind, replace(rule, partner=pattern)

    def _changed(self, rule: ast.Forall | ast.Exists | ast.Before | ast.After) -> ChangedRules:
        if isinstance(rule, ast.Forall) and rule.condition == ast.Constant(value=False):
            yield "condition dropped", replace(rule, condition=ast.TRUE)
        for kind, condition in self._conditions.dropped(rule.condition):
            yield kind, replace(rule, condition=condition)
        if isinstance(rule, ast.Before | ast.After):
            for kind, condition in self._conditions.dropped(rule.partner_condition):
                yield kind, replace(rule, partner_condition=condition)
