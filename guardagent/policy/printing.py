"""Terms, patterns and rules as text again: for evidence, remedies and messages."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from guardagent.policy import ast
from guardagent.policy.values import shown


def text_of(node: Any) -> str:
    """The text of a term, a pattern or an argument, as an author would write it."""
    return str(_PRINTERS[type(node)](node))


def _joined(parts: Iterable[Any], between: str) -> str:
    return between.join(map(text_of, parts))


def _inside(node: Any) -> str:
    """In parentheses where it could be read otherwise."""
    loose = (ast.And, ast.Or, ast.Implies, ast.Compared, ast.Matches, ast.Arithmetic)
    return f"({text_of(node)})" if isinstance(node, loose) else text_of(node)


def _constant(node: ast.Constant | ast.Exactly) -> str:
    return json.dumps(node.value, ensure_ascii=False) if isinstance(node.value, str | bool) else shown(node.value)


def _pattern(node: ast.Pattern) -> str:
    arguments = ", ".join(f"{argument.name}={text_of(argument.value)}" for argument in node.arguments)
    return f"{node.label + ':' if node.label else ''}{'|'.join(node.tools)}({arguments})"


def _over_calls(name: str, pattern: ast.Pattern, *terms: Any) -> str:
    return f"{name}({', '.join([text_of(pattern), *map(text_of, terms)])})"


_PRINTERS: dict[type, Any] = {
    ast.Constant: _constant,
    ast.Exactly: _constant,
    ast.Matching: lambda node: f"/{node.regex}/",
    ast.Anything: lambda _: ".*",
    ast.Variable: lambda node: node.name,
    ast.Label: lambda node: node.name,
    ast.Pattern: _pattern,
    ast.ListOf: lambda node: f"[{_joined(node.items, ', ')}]",
    ast.And: lambda node: " && ".join(map(_inside, node.parts)),
    ast.Or: lambda node: " || ".join(map(_inside, node.parts)),
    ast.Inverted: lambda node: f"!{_inside(node.body)}",
    ast.Implies: lambda node: f"{_inside(node.first)} -> {_inside(node.second)}",
    ast.Compared: lambda node: f"{_inside(node.left)} {node.operator} {_inside(node.right)}",
    ast.Matches: lambda node: f"{_inside(node.body)} matches /{node.regex}/",
    ast.Arithmetic: lambda node: f"{_inside(node.left)} {node.operator} {_inside(node.right)}",
    ast.Negative: lambda node: f"-{_inside(node.body)}",
    ast.Length: lambda node: f"len({text_of(node.body)})",
    ast.Known: lambda node: f"known({text_of(node.body)})",
    ast.Field: lambda node: f"{_inside(node.body)}.{node.name}",
    ast.Item: lambda node: f"{_inside(node.body)}[{text_of(node.index)}]",
    ast.OfCall: lambda node: f"{node.what}({text_of(node.call)})",
    ast.Selected: lambda node: _over_calls(node.which, node.pattern, node.condition),
    ast.State: lambda _: "state",
    ast.StateOf: lambda node: f"state({node.function}({_joined(node.arguments, ', ')}))",
    ast.Fact: lambda node: f"fact({'.'.join(node.path)})",
    ast.CountCalls: lambda node: _over_calls("count", node.pattern, node.condition),
    ast.SumCalls: lambda node: _over_calls("sum", node.pattern, node.condition, node.term),
    ast.SomeCall: lambda node: _over_calls("earlier", node.pattern, node.condition),
    ast.OverItems: lambda node: f"{node.which}({node.variable} in {text_of(node.items)}, {text_of(node.condition)})",
}
