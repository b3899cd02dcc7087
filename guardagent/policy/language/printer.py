"""Prints terms and patterns for evidence, remedies and messages."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from guardagent.policy.language import ast
from guardagent.policy.language.values import shown

_UNITS = {"w": 604800, "d": 86400, "h": 3600, "m": 60, "s": 1}


def text_of(node: Any) -> str:
    """The source text of a term, a pattern or an argument."""
    return _AS_WRITTEN.text(node)


def key_of(node: Any) -> str:
    """The source text of a term or a pattern with all of its constants, which `text_of` shortens."""
    return _WHOLE.text(node)


class Printer:
    """Prints terms.

    Args:
        named: gives the replacement for the name of a variable or call.
        own: the label of the call that is printed; it becomes "it".
        printers: prints each type of node, in place of `PRINTERS`.
    """

    def __init__(
        self, named: Callable[[str], str], own: str | None = None, printers: Mapping[type, Any] | None = None
    ) -> None:
        self.named, self.own, self._printers = named, own, printers or PRINTERS

    def text(self, node: Any) -> str:
        return str(self._printers[type(node)](self, node))

    def joined(self, parts: Iterable[Any], between: str) -> str:
        return between.join(map(self.text, parts))

    def inside(self, node: Any) -> str:
        """The text of an operand, in parentheses if needed."""
        loose = (ast.And, ast.Or, ast.Implies, ast.Compare, ast.Matches, ast.Arithmetic, ast.SetOperation)
        return f"({self.text(node)})" if isinstance(node, loose) else self.text(node)


def _constant(_: Printer, node: ast.Constant | ast.ExactValue) -> str:
    return json.dumps(node.value, ensure_ascii=False) if isinstance(node.value, str | bool) else shown(node.value)


def _pattern(to: Printer, node: ast.Pattern) -> str:
    arguments = ", ".join(f"{argument.name}={to.text(argument.value)}" for argument in node.arguments)
    label = f"{node.label}:" if node.label and node.label != to.own else ""
    return f"{label}{'|'.join(node.tools)}({arguments})"


def _over_calls(
    to: Printer, name: str, pattern: ast.Pattern, condition: ast.Term, *term: ast.Term, within: ast.Term | None = None
) -> str:
    terms = [*term] if condition in (ast.TRUE, ast.And(())) and not term else [condition, *term]
    window = [] if within is None else [window_text(within, to)]
    return f"{name}({', '.join([to.text(pattern), *map(to.text, terms), *window])})"


def window_text(within: ast.Term, to: Printer | None = None) -> str:
    """The text of a time window; a number of seconds is shown in the largest unit that fits."""
    seconds = within.value if isinstance(within, ast.Constant) else None
    if not isinstance(seconds, int) or isinstance(seconds, bool) or seconds <= 0:
        return f"within {(to or _AS_WRITTEN).text(within)}"
    length, unit = next((length, unit) for unit, length in _UNITS.items() if seconds % length == 0)
    return f"within {seconds // length}{unit}"


def _apply(to: Printer, node: ast.Apply) -> str:
    arguments = [argument for argument in node.arguments if argument != ast.Zone()]
    if node.function == "[:]":
        start, *end = map(to.inside, arguments[1:])
        return f"{to.inside(arguments[0])}[{start}:{''.join(end)}]"
    if node.function == "[=]":
        rows, key, value = arguments
        return f"{to.inside(rows)}[{getattr(key, 'value', key)} = {to.text(value)}]"
    return f"{node.function}({to.joined(arguments, ', ')})"


def _of_call(to: Printer, node: ast.OfCall) -> str:
    if isinstance(node.call, ast.Label) and node.call.name == to.own:
        return "it failed" if node.what == "failed" else f"its {node.what}"
    return f"{node.what}({to.text(node.call)})"


def _fact(name: str) -> str:
    return name if name.partition(".")[0] == ast.USAGE else f"fact({name})"


def _compared(to: Printer, node: ast.Compare) -> str:
    if (folds := ast.folds_of(node)) is not None:
        left, right = folds
        if node.operator == "==":
            return _over_calls(to, "previous", left.pattern, left.condition)
        condition = "" if left.condition in (ast.TRUE, ast.And(())) else f", {to.text(left.condition)}"
        window = "" if left.within is None else f", {window_text(left.within, to)}"
        return f"since({to.text(left.pattern)}, !{to.text(right.pattern)}{condition}{window})"
    return f"{to.inside(node.left)} {node.operator} {to.inside(node.right)}"


PRINTERS: dict[type, Any] = {
    ast.Constant: _constant,
    ast.ExactValue: _constant,
    ast.RegexValue: lambda _, node: f"/{node.regex}/",
    ast.AnyValue: lambda _, __: ".*",
    ast.Variable: lambda to, node: to.named(node.name),
    ast.Label: lambda to, node: to.named(node.name),
    ast.Pattern: _pattern,
    ast.ListOf: lambda to, node: f"[{to.joined(node.items, ', ')}]",
    ast.SetOf: lambda to, node: f"{{{to.joined(node.items, ', ')}}}",
    ast.SetOperation: lambda to, node: f"{to.inside(node.left)} {node.operator} {to.inside(node.right)}",
    ast.Apply: _apply,
    ast.And: lambda to, node: " && ".join(map(to.inside, node.parts)),
    ast.Or: lambda to, node: " || ".join(map(to.inside, node.parts)),
    ast.Negation: lambda to, node: f"!{to.inside(node.body)}",
    ast.Implies: lambda to, node: f"{to.inside(node.first)} -> {to.inside(node.second)}",
    ast.Compare: _compared,
    ast.Matches: lambda to, node: f"{to.inside(node.body)} matches /{node.regex}/",
    ast.Arithmetic: lambda to, node: f"{to.inside(node.left)} {node.operator} {to.inside(node.right)}",
    ast.Negative: lambda to, node: f"-{to.inside(node.body)}",
    ast.Length: lambda to, node: f"len({to.text(node.body)})",
    ast.Known: lambda to, node: f"known({to.text(node.body)})",
    ast.Field: lambda to, node: f"{to.inside(node.body)}.{node.name}",
    ast.Item: lambda to, node: f"{to.inside(node.body)}[{to.text(node.index)}]",
    ast.OfCall: _of_call,
    ast.Selected: lambda to, node: _over_calls(to, node.which, node.pattern, node.condition),
    ast.TimeOf: lambda to, node: f"time({to.text(node.call)})",
    ast.Now: lambda _, __: "now",
    ast.Elapsed: lambda _, __: "elapsed",
    ast.Zone: lambda _, __: "zone",
    ast.Principal: lambda _, __: "principal",
    ast.Sources: lambda to, node: f"sources({to.text(node.body)})",
    ast.Seen: lambda _, node: f"seen({', '.join(node.labels)})",
    ast.MessagesText: lambda _, node: f"text({node.role})",
    ast.CounterValue: lambda to, node: f"counter({', '.join([node.name, *map(to.text, node.keys)])})",
    ast.State: lambda _, __: "state",
    ast.StateOf: lambda to, node: f"state({node.function}({to.joined(node.arguments, ', ')}))",
    ast.Fact: lambda _, node: _fact(".".join(node.path)),
    ast.CountCalls: lambda to, node: _over_calls(to, "count", node.pattern, node.condition, within=node.within),
    ast.SumCalls: lambda to, node: _over_calls(to, "sum", node.pattern, node.condition, node.term, within=node.within),
    ast.CallFold: lambda to, node: _over_calls(
        to, node.which, node.pattern, node.condition, *filter(None, (node.term,)), within=node.within
    ),
    ast.SomeCall: lambda to, node: _over_calls(to, "some", node.pattern, node.condition, within=node.within),
    ast.CallInFlight: lambda to, node: _over_calls(to, "pending", node.pattern, node.condition),
    ast.OverItems: lambda to, node: (
        f"{node.which}({node.variable} in {to.text(node.items)}, {to.text(node.condition)})"
    ),
}

_AS_WRITTEN = Printer(str)
_WHOLE = Printer(str, printers={**PRINTERS, ast.Constant: lambda _, node: repr(node.value)})
