"""Changes of conditions, values and call patterns. Each variant is the kind of the change, and the changed node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from fractions import Fraction
from typing import Any

from guardagent.policy.language import ast

TermVariants = Iterator[tuple[str, Any]]

_BOUNDARY = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
_OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_FEW = 8  # items of a list or a set of tools that are left out, one at a time


class ConditionVariants:
    """Changes one place of a condition at a time.

    Args:
        tags: the sets of tools.
    """

    def __init__(self, tags: Mapping[str, frozenset[str]]) -> None:
        self._tags = tags

    def condition(self, node: Any) -> TermVariants:
        """The variants of a condition, without the one that drops it as a whole."""
        match node:
            case ast.And(parts) | ast.Or(parts):
                yield from self._joined(node, parts)
            case ast.Negation(body):
                yield "condition negated", body
                for kind, changed in self.condition(body):
                    if kind != "condition negated":
                        yield kind, ast.Negation(changed)
            case ast.Implies(first, second):
                yield "premise dropped", second
                yield from ((kind, ast.Implies(one, second)) for kind, one in self.condition(first))
                yield from ((kind, ast.Implies(first, one)) for kind, one in self.condition(second))
            case ast.Constant():
                return
            case _:
                yield "condition negated", _negated(node)
                yield from self.value(node)

    def _joined(self, node: ast.And | ast.Or, parts: tuple[Any, ...]) -> TermVariants:
        join, other = (ast.And, ast.Or) if isinstance(node, ast.And) else (ast.Or, ast.And)
        for at in range(len(parts)):
            rest = parts[:at] + parts[at + 1 :]
            yield "condition dropped", rest[0] if len(rest) == 1 else join(rest)
        yield ("or in place of and" if join is ast.And else "and in place of or"), other(parts)
        for at, part in enumerate(parts):
            yield from ((kind, join(_put(parts, at, one))) for kind, one in self.condition(part))

    def dropped(self, node: Any) -> TermVariants:
        """The variants of a condition, and `true` in its place."""
        if node in (ast.TRUE, ast.And(())):
            return
        if not isinstance(node, ast.And):
            yield "condition dropped", ast.TRUE
        yield from self.condition(node)

    # --- values

    def value(self, node: Any) -> TermVariants:
        """The variants of a value: of itself, then of its parts."""
        yield from self._own(node)
        for one in fields(node):
            if isinstance(node, ast.Item) and one.name == "index":
                continue
            yield from self._part(node, one.name, getattr(node, one.name))

    def _part(self, node: Any, name: str, value: Any) -> TermVariants:
        for at, child in enumerate(value if isinstance(value, tuple) else (value,)):
            if not hasattr(child, "__dataclass_fields__") or isinstance(child, ast.Place):
                continue
            for kind, changed in self._child(name, child):
                yield kind, replace(node, **{name: _put(value, at, changed) if isinstance(value, tuple) else changed})

    def _child(self, name: str, child: Any) -> TermVariants:
        if name == "condition":
            return self.dropped(child)
        if isinstance(child, ast.Pattern):
            return self.pattern(child)
        return self.condition(child) if isinstance(child, ast.And | ast.Or | ast.Implies) else self.value(child)

    def _own(self, node: Any) -> TermVariants:  # noqa: C901 - a case for each kind
        match node:
            case ast.Compare(left, operator, right):
                if operator in _BOUNDARY:
                    yield "limit moved", ast.Compare(left, _BOUNDARY[operator], right)  # type: ignore[arg-type]
            case ast.Constant(value) if not isinstance(value, str | bool):
                yield from (("limit moved", ast.Constant(one)) for one in _near(value))
            case ast.ListOf(items) | ast.SetOf(items) if len(items) > 1:
                for at in range(min(len(items), _FEW)):
                    yield "item left out", type(node)(items[:at] + items[at + 1 :])
            case ast.OverItems(which) if which != "count":
                yield "quantifier changed", replace(node, which="any" if which == "all" else "all")
            case ast.Selected(which):
                yield "another call", replace(node, which="last" if which == "first" else "first")
            case ast.CountCalls() | ast.SumCalls() | ast.SomeCall() if node.within is not None:
                yield "window dropped", replace(node, within=None)
            case ast.Seen(labels) if len(labels) > 1:
                for at in range(len(labels)):
                    yield "label left out", ast.Seen(labels[:at] + labels[at + 1 :])

    # --- patterns

    def pattern(self, node: ast.Pattern) -> TermVariants:
        """The variants of a pattern of calls."""
        for tool, tools in self._fewer(node.tools):
            yield f"tool left out ({tool})", replace(node, tools=tools)
        for at, argument in enumerate(node.arguments):
            rest = node.arguments[:at] + node.arguments[at + 1 :]
            yield f"argument dropped ({argument.name})", replace(node, arguments=rest)
            value = argument.value
            if isinstance(value, ast.ExactValue) and not isinstance(value.value, str | bool):
                for one in _near(value.value):
                    changed = ast.Argument(argument.name, ast.ExactValue(one))
                    yield "limit moved", replace(node, arguments=_put(node.arguments, at, changed))

    def _fewer(self, tools: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Each tool, and the tools without it; a set is replaced by its other members."""
        for at, tool in enumerate(tools):
            others = tools[:at] + tools[at + 1 :]
            members = sorted(self._tags.get(tool[1:], ())) if tool.startswith("@") else []
            if others:
                yield tool, others
            for member in members[:_FEW] if len(members) > 1 else ():
                yield member, (*others, *(one for one in members if one != member))


def _negated(node: Any) -> Any:
    if isinstance(node, ast.Compare) and node.operator in _OPPOSITE:
        return ast.Compare(node.left, _OPPOSITE[node.operator], node.right)  # type: ignore[arg-type]
    return ast.Negation(node)


def _near(value: int | Fraction) -> tuple[int | Fraction, int | Fraction]:
    """The numbers one unit of the last decimal above and below."""
    places = 0
    while Fraction(value).denominator > 1 and (value * 10**places).denominator > 1 and places < 18:
        places += 1
    unit = Fraction(1, 10**places)
    return _plain(value + unit), _plain(value - unit)


def _plain(value: int | Fraction) -> int | Fraction:
    return int(value) if Fraction(value).denominator == 1 else value


def _put(items: tuple[Any, ...], at: int, item: Any) -> tuple[Any, ...]:
    return (*items[:at], item, *items[at + 1 :])
