"""Expands calls of definitions: replaces parameters by arguments, without capture of names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from itertools import count
from typing import Any

from guardagent.policy.language import ast

MAX_TERMS = 10_000


@dataclass(frozen=True, slots=True)
class Call:
    """The call of a definition.

    Attributes:
        arguments: the argument of each parameter.
        names: the variables and labels in scope at the call.
        fail: raises the error for a problem at the call.
    """

    arguments: Mapping[str, ast.Term]
    names: Iterable[str]
    place: ast.Place
    fail: Callable[[str], Any]


def expanded(body: ast.Term, call: Call) -> ast.Term:
    """The body of a definition with arguments in place of parameters.

    Every node is new, since the compiler tells nodes apart by identity.
    """
    uses = Counter(one.name for one in ast.walk(body) if isinstance(one, ast.Variable) and one.name in call.arguments)
    size = _size(body) + sum(number * _size(call.arguments[name]) for name, number in uses.items())
    if size > MAX_TERMS:
        call.fail(f"the definition expands to {size:,} terms; expected at most {MAX_TERMS:,}")
    used = {*call.names, *(name for argument in call.arguments.values() for name in _names(argument))}
    bound = _bound(body) - call.arguments.keys()
    taken = used | bound
    renamed = {name: _fresh(name, taken) for name in sorted(bound & used)}
    found: ast.Term = _Expansion(call, renamed).node(body)
    return found


def _size(term: ast.Term) -> int:
    return sum(1 for _ in ast.walk(term))


def _names(term: ast.Term) -> set[str]:
    named = (one for one in ast.walk(term) if isinstance(one, ast.Variable | ast.Label))
    return {one.name for one in named} | _bound(term)


def _bound(term: ast.Term) -> set[str]:
    """The names that patterns and quantifiers in a term bind."""
    found: set[str] = set()
    for one in ast.walk(term):
        if isinstance(one, ast.OverItems):
            found.add(one.variable)
        elif isinstance(one, ast.Pattern):
            found |= {one.label} if one.label else set()
            found |= {part.value.name for part in one.arguments if isinstance(part.value, ast.Variable)}
    return found


def _fresh(name: str, taken: set[str]) -> str:
    found = next(one for at in count(2) if (one := f"{name}_{at}") not in taken)
    taken.add(found)
    return found


class _Expansion:
    def __init__(self, call: Call, renamed: Mapping[str, str]) -> None:
        self._call, self._renamed = call, renamed

    def node(self, node: Any) -> Any:
        """A copy of a node of the body. Its place is that of the call: other text has other lines."""
        if isinstance(node, ast.Variable) and node.name in self._call.arguments:
            return _copied(self._call.arguments[node.name])
        if isinstance(node, ast.Argument):
            return ast.Argument(node.name, self._argument(node.value))
        values = {one.name: self._value(getattr(node, one.name)) for one in fields(node)}
        if (name := _NAMES.get(type(node))) is not None:
            values[name] = self._renamed.get(values[name], values[name])
        return type(node)(**values)

    def _value(self, value: Any) -> Any:
        if isinstance(value, ast.Place):
            return self._call.place
        if isinstance(value, tuple):
            return tuple(map(self._value, value))
        return self.node(value) if hasattr(value, "__dataclass_fields__") else value

    def _argument(self, value: Any) -> Any:
        """The value of a pattern's argument, which can be a variable or a literal only."""
        if not isinstance(value, ast.Variable) or value.name not in self._call.arguments:
            return self.node(value)
        argument = self._call.arguments[value.name]
        if isinstance(argument, ast.Constant):
            return ast.ExactValue(argument.value)
        if not isinstance(argument, ast.Variable):
            self._call.fail(
                f"the definition matches an argument of a call with its parameter {value.name!r}; "
                "expected a variable of a pattern, or a literal"
            )
        return argument


_NAMES = {ast.Variable: "name", ast.Label: "name", ast.OverItems: "variable", ast.Pattern: "label"}
"""The field with the name that a node binds or uses."""


def _copied(node: Any) -> Any:
    if isinstance(node, tuple):
        return tuple(map(_copied, node))
    if isinstance(node, ast.Place) or not hasattr(node, "__dataclass_fields__"):
        return node
    return type(node)(**{one.name: _copied(getattr(node, one.name)) for one in fields(node)})
