"""The scopes of rules (`applies_to:`): one within another, and a scope as a condition on the principal."""

from __future__ import annotations

from collections.abc import Iterator

from guardagent.policy.evaluation.terms import is_true
from guardagent.policy.language import ast
from guardagent.policy.scope import Scope

_EVERYONE = Scope()


def is_within(inner: Scope | None, outer: Scope | None) -> bool:
    """Whether a rule with the outer scope surely judges every call that one with the inner scope judges."""
    one, other = inner or _EVERYONE, outer or _EVERYONE
    pairs = ((one.roles, other.roles), (one.tenants, other.tenants), (one.agents, other.agents))
    inside = all(wide is None or (narrow is not None and narrow <= wide) for narrow, wide in pairs)
    return inside and other.excluded in (None, one.excluded)


def conditional(rule: ast.Rule, scope: Scope | None) -> list[ast.Rule]:
    """Returns rules for everyone that allow every call that a rule with the scope allows.

    Only parts that judge each proposed call are kept.
    """
    condition = _condition(scope) if scope is not None else ast.TRUE
    if condition is None:
        return []
    parts = rule.parts if isinstance(rule, ast.AllOf) else (rule,)
    return [found for one in parts if (found := _conditional(one, condition)) is not None]


def _conditional(rule: ast.Rule, scope: ast.Term) -> ast.Rule | None:
    match rule:
        case ast.Forall(pattern, condition):
            return ast.Forall(pattern, condition if is_true(scope) else ast.Implies(scope, condition))
        case ast.Not(ast.Exists(pattern, condition)):
            return ast.Forall(pattern, ast.Negation(ast.And((scope, condition))))
        case ast.Before(pattern, condition, partner, wanted):
            return ast.Before(pattern, ast.And((condition, scope)), partner, wanted)
    return None


def _condition(scope: Scope) -> ast.Term | None:
    """Returns a condition that implies that the scope covers the call; None if the agent decides."""
    if scope.agents is not None or (scope.excluded is not None and scope.excluded.agents is not None):
        return None
    outside = [ast.Negation(ast.And(tuple(_sets(scope.excluded))))] if scope.excluded is not None else []
    return ast.And((*_sets(scope), *outside))


def _sets(scope: Scope) -> Iterator[ast.Term]:
    principal = ast.Principal()
    if scope.roles is not None:
        roles = ast.Field(principal, "roles")
        yield ast.Or(tuple(ast.Compare(ast.Constant(one), "in", roles) for one in sorted(scope.roles)))
    if scope.tenants is not None:
        tenants = ast.ListOf(tuple(ast.Constant(one) for one in sorted(scope.tenants)))
        yield ast.Compare(ast.Field(principal, "tenant"), "in", tenants)
