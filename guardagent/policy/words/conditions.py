"""Phrases for conditions by their kind, and for their negations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from guardagent.policy.language import ast
from guardagent.policy.words.function_phrases import CONDITIONS
from guardagent.policy.words.interface import Phrases
from guardagent.policy.words.phrases import code, either
from guardagent.policy.words.scope import SentenceScope
from guardagent.policy.words.values import arguments_phrase, constant, is_instant, operands_of, template_of

_COMPARED = {
    "==": "is",
    "!=": "is different from",
    "<": "is less than",
    "<=": "is at most",
    ">": "is more than",
    ">=": "is at least",
    "in": "is in",
}
_SETS = {
    "<": "is properly contained in",
    "<=": "is contained in",
    ">": "properly contains",
    ">=": "contains",
}


def is_condition(node: Any) -> bool:
    """Whether a term is true or false by its form."""
    if isinstance(node, ast.OfCall):
        return node.what == "failed"
    if isinstance(node, ast.OverItems):
        return node.which != "count"
    if isinstance(node, ast.Apply):
        return node.function in CONDITIONS
    return type(node) in JOINED or (type(node) in CONDITION_PHRASES and not isinstance(node, ast.Constant))


def _and(to: Phrases, node: ast.And, scope: SentenceScope) -> str:
    return " and ".join(to.part(part, scope) for part in node.parts) if node.parts else "true"


def _or(to: Phrases, node: ast.Or, scope: SentenceScope) -> str:
    return either([to.part(part, scope) for part in node.parts])


def _implies(to: Phrases, node: ast.Implies, scope: SentenceScope) -> str:
    return f"if {to.part(node.first, scope)} then {to.part(node.second, scope)}"


def _compare(to: Phrases, node: ast.Compare, scope: SentenceScope, *, negated: bool) -> str:
    left, right = node.left, node.right
    if node.operator == "in":
        return _contained(to, node, scope, negated=negated)
    if negated:
        to.atoms -= 1
        return f"it is not true that ({to.condition(node, scope)})"
    phrase = to.seconds if _is_duration(left) or _is_duration(right) else to.value
    verbs = _SETS if _is_set(left) or _is_set(right) else _COMPARED
    return f"{phrase(left, scope)} {verbs.get(node.operator, _COMPARED[node.operator])} {phrase(right, scope)}"


def _contained(to: Phrases, node: ast.Compare, scope: SentenceScope, *, negated: bool) -> str:
    no = " not" if negated else ""
    if node.right == ast.Field(ast.Principal(), "roles"):
        return f"the principal {'does not have' if negated else 'has'} the role {to.operand(node.left, scope)}"
    left = to.operand(node.left, scope)
    if isinstance(node.right, ast.ListOf):
        return f"{left} is{no} one of {to.listed(node.right.items, scope) or 'nothing'}"
    return f"{left} is{no} in {to.operand(node.right, scope)}"


def _matches(to: Phrases, node: ast.Matches, scope: SentenceScope, *, negated: bool) -> str:
    verb = "does not match" if negated else "matches"
    return f"{to.operand(node.body, scope)} {verb} the pattern {code(f'/{node.regex}/')}"


def _known(to: Phrases, node: ast.Known, scope: SentenceScope, *, negated: bool) -> str:
    return f"{to.operand(node.body, scope)} is {'not ' if negated else ''}known"


def _seen(_: Phrases, node: ast.Seen, __: SentenceScope, *, negated: bool) -> str:
    return f"{'no' if negated else 'an'} output labelled {either([code(one) for one in node.labels])} has been seen"


def _some(to: Phrases, node: ast.SomeCall, scope: SentenceScope, *, negated: bool) -> str:
    return f"{'no' if negated else 'an'} {to.earlier(node, scope)[0]} ended well"


def _failed(to: Phrases, node: ast.OfCall, scope: SentenceScope, *, negated: bool) -> str:
    if node.what != "failed":
        return ""
    return f"{to.call(node.call, scope)} {'did not fail' if negated else 'failed'}"


def _over_items(to: Phrases, node: ast.OverItems, scope: SentenceScope, *, negated: bool) -> str:
    if node.which == "count":
        return ""
    if negated and node.which == "all":
        to.atoms -= 1
        return f"it is not true that ({to.condition(node, scope)})"
    every = "every item" if node.which == "all" else "no item" if negated else "at least one item"
    inner = to.condition(node.condition, scope.with_item(node.variable))
    return f"for {every} of {to.operand(node.items, scope)}, ({inner})"


def _applied(to: Phrases, node: ast.Apply, scope: SentenceScope, *, negated: bool) -> str:
    if node.function not in CONDITIONS:
        if template_of(node):
            return ""
        verb = "does not hold" if negated else "holds"
        return f"{code(node.function)} {verb}{arguments_phrase(to, operands_of(node), scope)}"
    verb = CONDITIONS[node.function][negated]
    return f"{to.operand(node.arguments[0], scope)} {verb} {to.operand(node.arguments[1], scope)}"


def _truth(_: Phrases, node: ast.Constant, __: SentenceScope, *, negated: bool) -> str:
    if not isinstance(node.value, bool):
        return ""
    return f"not {constant(node)}" if negated else constant(node)


JOINED: dict[type, Callable[..., str]] = {
    ast.And: _and,
    ast.Or: _or,
    ast.Implies: _implies,
    ast.Negation: lambda to, node, scope: to.condition(node.body, scope, negated=True),
}
CONDITION_PHRASES: dict[type, Callable[..., str]] = {
    ast.Compare: _compare,
    ast.Matches: _matches,
    ast.Known: _known,
    ast.Seen: _seen,
    ast.SomeCall: _some,
    ast.OfCall: _failed,
    ast.OverItems: _over_items,
    ast.Apply: _applied,
    ast.Constant: _truth,
}


def _is_set(node: Any) -> bool:
    return isinstance(node, ast.SetOf | ast.SetOperation | ast.Sources)


def _is_duration(node: Any) -> bool:
    """Whether a value is the difference of two instants."""
    return (
        isinstance(node, ast.Arithmetic) and node.operator == "-" and is_instant(node.left) and is_instant(node.right)
    )
