"""The names in the source text of a rule, and their replacement. The grammar decides which words are names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from guardagent.policy.language.grammar import Node, TemporalError, tree_of

Role = Literal["value", "bound", "tag", "counter", "label"]
Start = Literal["start", "condition"]


@dataclass(frozen=True, slots=True)
class NameUse:
    """A name at a place of a text.

    Attributes:
        role: `value` is a constant, a definition or a variable; `bound` is a variable or the label of a call where it
            is bound. Every string is also a `label`, since rules name the sources of values in strings.
        start: the offset in the text.
    """

    role: Role
    name: str
    start: int


def names_in(text: str, start: Start = "start") -> tuple[NameUse, ...]:
    """Returns the names in a rule, or in a condition.

    Raises:
        TemporalError: the text does not parse.
    """
    tree = tree_of(text, start)
    lines = [0, *(found.end() for found in re.finditer("\n", text))]
    try:
        return tuple(NameUse(role, str(one), lines[one.line - 1] + one.column - 1) for role, one in _uses(tree))
    except RecursionError:
        raise TemporalError("the rule is nested too deeply; simplify it", text[:80], 1, 1) from None


def with_name(text: str, start: Start, roles: frozenset[Role], old: str, new: str) -> str:
    """Returns a text with another name at each place that has one of the roles."""
    for one in sorted(names_in(text, start), key=lambda one: -one.start):
        if one.role in roles and one.name == old:
            text = text[: one.start] + new + text[one.start + len(old) :]
    return text


def _uses(node: Node) -> Iterator[tuple[Role, Any]]:  # noqa: C901 - a case for each kind
    inner = node.children
    match node.data:
        case "group" | "tagged":
            yield "tag", inner[0]
        case "variable":
            yield "value", inner[0]
        case "label" | "count_items":
            yield "bound", inner[0]
        case "quantified":
            yield "bound", inner[1]
        case "pattern" if inner[0] is not None:
            yield "bound", inner[0]
        case "argument" if inner[1].data == "variable":
            yield "bound", inner[1].children[0]
            return
        case "flow_labels":
            yield from (("label", one) for one in inner)
        case "text":
            yield "label", _inside(inner[0])
        case "apply":
            inner = yield from _applied(*inner)
    for child in inner:
        if isinstance(child, Node):
            yield from _uses(child)


def _applied(name: Any, *operands: Any) -> Any:
    """Yields the names of `name(...)`; returns the operands that are values."""
    words = {"counter": operands[:1], "seen": operands}.get(str(name), ())
    if not all(isinstance(one, Node) and one.data == "variable" for one in words):
        words = ()
    if not words:
        yield "value", name
    yield from (("counter" if name == "counter" else "label", one.children[0]) for one in words)
    return operands[len(words) :]


def _inside(token: Any) -> Any:
    """A string without its quotes."""
    inside = type(token)(token[1:-1])
    inside.line, inside.column = token.line, token.column + 1
    return inside
