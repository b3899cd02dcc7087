"""Phrases for values by their kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from guardagent.policy.language import ast
from guardagent.policy.language.rule_text import number_text
from guardagent.policy.words.function_phrases import VALUES
from guardagent.policy.words.interface import Phrases
from guardagent.policy.words.phrases import code, quoted
from guardagent.policy.words.scope import SentenceScope

_ARITHMETIC = {"+": "plus", "-": "minus", "*": "times", "/": "divided by", "%": "modulo"}


def constant(node: ast.Constant | ast.ExactValue) -> str:
    value = node.value
    if isinstance(value, bool):
        return "true" if value else "false"
    return quoted(value) if isinstance(value, str) else number_text(value)


def is_instant(node: Any) -> bool:
    if isinstance(node, ast.Arithmetic) and node.operator in "+-":
        return is_instant(node.left) and not is_instant(node.right)
    return isinstance(node, ast.Now | ast.TimeOf) or (isinstance(node, ast.Apply) and node.function == "time")


def _arithmetic(to: Phrases, node: ast.Arithmetic, scope: SentenceScope) -> str:
    phrase = to.seconds if is_instant(node) else to.operand
    return f"{to.operand(node.left, scope)} {_ARITHMETIC[node.operator]} {phrase(node.right, scope)}"


def _set_operation(to: Phrases, node: ast.SetOperation, scope: SentenceScope) -> str:
    kind = "union" if node.operator == "|" else "intersection"
    return f"the {kind} of ({to.listed((node.left, node.right), scope)})"


def _field(to: Phrases, node: ast.Field, scope: SentenceScope) -> str:
    names, body = [node.name], node.body
    while isinstance(body, ast.Field):
        names.insert(0, body.name)
        body = body.body
    return f"{code('.'.join(names))} of {to.operand(body, scope)}"


def _item(to: Phrases, node: ast.Item, scope: SentenceScope) -> str:
    at, whole = node.index, to.operand(node.body, scope)
    place = at.value if isinstance(at, ast.Constant) else None
    if type(place) is int and place in (0, -1):
        return f"the {'last' if place else 'first'} item of {whole}"
    return f"the item at {to.operand(at, scope)} of {whole}"


def _of_call(to: Phrases, node: ast.OfCall, scope: SentenceScope) -> str:
    what = {"args": "arguments"}.get(node.what, node.what)
    if isinstance(node.call, ast.Label):
        return f"{scope.possessive(scope.labels[node.call.name])} {what}"
    return f"the {what} of {to.call(node.call, scope)}"


def _apply(to: Phrases, node: ast.Apply, scope: SentenceScope) -> str:
    operands, template = operands_of(node), template_of(node)
    if template is not None:
        return template.format(*(to.operand(one, scope) for one in operands))
    return f"the result of {code(node.function)}{arguments_phrase(to, operands, scope)}"


def operands_of(node: ast.Apply) -> list[Any]:
    """The arguments of a function as written: a time zone may be left out."""
    return [one for one in node.arguments if one != ast.Zone()]


def template_of(node: ast.Apply) -> str | None:
    return VALUES.get((node.function, len(operands_of(node))))


def arguments_phrase(to: Phrases, nodes: Sequence[Any], scope: SentenceScope) -> str:
    """The arguments of a function, or the keys of a counter."""
    text = to.listed(nodes, scope)
    return "" if not nodes else f" for {text}" if len(nodes) == 1 else f" for ({text})"


def _sum(to: Phrases, node: ast.SumCalls, scope: SentenceScope) -> str:
    text, inner = to.earlier(node, scope, "calls")
    return f"the sum of {to.operand(node.term, inner.by_name)} over the {text}"


def _count_items(to: Phrases, node: ast.OverItems, scope: SentenceScope) -> str:
    inner = to.condition(node.condition, scope.with_item(node.variable))
    return f"the number of items of {to.operand(node.items, scope)} for which ({inner})"


VALUE_PHRASES: dict[type, Callable[..., str]] = {
    ast.Constant: lambda _, node, __: constant(node),
    ast.RegexValue: lambda _, node, __: code(f"/{node.regex}/"),
    ast.Variable: lambda _, node, scope: scope.variable(node.name),
    ast.ListOf: lambda to, node, scope: f"the list [{to.listed(node.items, scope)}]",
    ast.SetOf: lambda to, node, scope: f"the set {{{to.listed(node.items, scope)}}}",
    ast.SetOperation: _set_operation,
    ast.Apply: _apply,
    ast.Arithmetic: _arithmetic,
    ast.Negative: lambda to, node, scope: f"minus ({to.value(node.body, scope)})",
    ast.Length: lambda to, node, scope: f"the length of {to.operand(node.body, scope)}",
    ast.Field: _field,
    ast.Item: _item,
    ast.OfCall: _of_call,
    ast.TimeOf: lambda to, node, scope: f"the time of {to.call(node.call, scope)}",
    ast.Now: lambda _, __, ___: "now",
    ast.Principal: lambda _, __, ___: "the principal",
    ast.Sources: lambda to, node, scope: f"the sources of {to.operand(node.body, scope)}",
    ast.CounterValue: lambda to, node, scope: f"the counter {code(node.name)}{arguments_phrase(to, node.keys, scope)}",
    ast.State: lambda _, __, ___: "the state",
    ast.StateOf: lambda to, node, scope: (
        f"the state's {code(node.function)}{arguments_phrase(to, node.arguments, scope)}"
    ),
    ast.Fact: lambda _, node, __: f"the fact {code('.'.join(node.path))}",
    ast.CountCalls: lambda to, node, scope: f"the number of {to.earlier(node, scope, 'calls')[0]}",
    ast.SumCalls: _sum,
    ast.OverItems: _count_items,
}
