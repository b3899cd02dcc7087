"""The names that policy files declare for their rules: functions, definitions, constants, labels and counters.

The names of all included files are in one table each: a name of an included file begins with the prefix of the file. A
call of a definition is expanded: arguments replace parameters, without capture of names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from itertools import count
from typing import TYPE_CHECKING, Any

from guardagent.policy.language import ast

if TYPE_CHECKING:
    from guardagent.policy.file.source_tree import SourceText

# --- declarations

Constant = str | int | Fraction | bool


@dataclass(frozen=True, slots=True)
class Definition:
    """A named condition or value.

    Attributes:
        body: the expression.
        scopes: as for `Declarations`.
    """

    name: str
    parameters: tuple[str, ...]
    body: SourceText
    scopes: tuple[str, ...] = ("",)

    @property
    def meaning(self) -> object:
        return self.parameters, self.body.text, self.scopes

    def under(self, prefix: str) -> Definition:
        """This definition in an included file with a prefix."""
        return replace(self, name=prefix + self.name, scopes=tuple(prefix + scope for scope in self.scopes))


@dataclass(frozen=True)
class Declarations:
    """The declared names.

    Attributes:
        functions: the names of the toolbox functions.
        constants: the value of each constant.
        labels: the labels of sources.
        counters: the counters, each with the number of its keys.
        tags: the names of the sets of tools.
        definitions: the named conditions.
        scopes: the prefixes of the names that an expression can use without a prefix; the first one wins.
        bodies: the definitions that have been parsed, by name; None while one is being parsed.
        keeps_names: whether constants and definitions stay names, for readers; such a rule cannot be compiled.
    """

    functions: frozenset[str] = frozenset()
    constants: Mapping[str, Constant | tuple[Constant, ...]] = field(default_factory=dict)
    labels: frozenset[str] = frozenset()
    counters: Mapping[str, int] = field(default_factory=dict)
    tags: frozenset[str] = frozenset()
    definitions: Mapping[str, Definition] = field(default_factory=dict)
    scopes: tuple[str, ...] = ("",)
    bodies: dict[str, ast.Term | None] = field(default_factory=dict, compare=False, repr=False)
    keeps_names: bool = False

    def find(self, name: str, table: Container[str]) -> str | None:
        """The full name in a table for a name as written; None if it is not declared."""
        return next((scope + name for scope in self.scopes if scope + name in table), None)

    def full(self, name: str, table: Container[str]) -> str:
        """The full name in a table for a name as written; if undeclared, the name that its own file could declare."""
        return self.find(name, table) or self.scopes[0] + name


NO_DECLARATIONS = Declarations()


def token_at(token: Any, text: str) -> Any:
    """A part of a token, at its place."""
    return token.of(token.type, text, token.text, token.at)


def place_of(where: Any) -> ast.Place:
    return ast.Place(getattr(where, "line", 1), getattr(where, "column", 1))


# --- calls of definitions

MAX_TERMS = 10_000


@dataclass(frozen=True, slots=True)
class Call:
    """The call of a definition.

    Attributes:
        arguments: the argument of each parameter.
        names: the variables and labels in scope at the call. Those that the body binds are others, and are renamed.
        place: the place of all nodes of the body; None keeps theirs, of the same text.
        fail: raises the error for a problem at the call.
        shared: the variables and labels that the body does not bind, but uses from around it.
    """

    arguments: Mapping[str, ast.Term]
    names: Iterable[str]
    place: ast.Place | None
    fail: Callable[[str], Any]
    shared: Iterable[str] = ()


def expanded(body: ast.Term, call: Call) -> ast.Term:
    """The body of a definition with arguments in place of parameters.

    Every node is new, since the compiler tells nodes apart by identity.
    """
    uses = Counter(
        node.name for node in ast.walk(body) if isinstance(node, ast.Variable) and node.name in call.arguments
    )
    size = _size(body) + sum(number * _size(call.arguments[name]) for name, number in uses.items())
    if size > MAX_TERMS:
        call.fail(f"the definition expands to {size:,} terms; expected at most {MAX_TERMS:,}")
    used = {*call.names, *(name for argument in call.arguments.values() for name in _names(argument))}
    bound = _bound(body) - call.arguments.keys() - {*call.shared}
    taken = used | bound | {*call.shared}
    renamed = {name: _fresh(name, taken) for name in sorted(bound & used)}
    term: ast.Term = _Expansion(call, renamed, taken).node(body)
    return term


def _size(term: ast.Term) -> int:
    return sum(1 for _ in ast.walk(term))


def _names(term: ast.Term) -> set[str]:
    named = (node for node in ast.walk(term) if isinstance(node, ast.Variable | ast.Label))
    return {node.name for node in named} | _bound(term)


def _bound(term: ast.Term) -> set[str]:
    """The names that patterns and quantifiers in a term bind."""
    names: set[str] = set()
    for node in ast.walk(term):
        if isinstance(node, ast.OverItems):
            names.add(node.variable)
        elif isinstance(node, ast.Pattern):
            names |= {node.label} if node.label else set()
            names |= {part.value.name for part in node.arguments if isinstance(part.value, ast.Variable)}
    return names


def _fresh(name: str, taken: set[str]) -> str:
    fresh_name = next(candidate for at in count(2) if (candidate := f"{name}_{at}") not in taken)
    taken.add(fresh_name)
    return fresh_name


def with_equations(equations: Sequence[ast.Term], condition: ast.Term) -> ast.Term:
    """A condition on a call whose arguments must also equal some values."""
    if not equations:
        return condition
    parts = condition.parts if isinstance(condition, ast.And) else () if condition == ast.TRUE else (condition,)
    return ast.And((*equations, *parts)) if len(equations) + len(parts) > 1 else equations[0]


class _Expansion:
    def __init__(self, call: Call, renamed: Mapping[str, str], taken: set[str]) -> None:
        self._call, self._renamed, self._taken = call, renamed, taken
        self._equations: list[ast.Term] = []  # of the arguments of the pattern at hand

    def node(self, node: Any) -> Any:
        """A copy of a node of the body. Its place is that of the call: other text has other lines."""
        if isinstance(node, ast.Variable) and node.name in self._call.arguments:
            return _copied(self._call.arguments[node.name])
        if isinstance(node, ast.Argument):
            return ast.Argument(node.name, self._argument(node.value))
        outer, self._equations = self._equations, []
        values = {field.name: self._value(getattr(node, field.name)) for field in fields(node)}
        if isinstance(node, ast.OF_HISTORY):
            values["condition"] = with_equations(self._equations, values["condition"])
            self._equations = []
        self._equations += outer
        if (name := _NAMES.get(type(node))) is not None:
            values[name] = self._renamed.get(values[name], values[name])
        return type(node)(**values)

    def _value(self, value: Any) -> Any:
        if isinstance(value, ast.Place):
            return self._call.place or value
        if isinstance(value, tuple):
            return tuple(map(self._value, value))
        return self.node(value) if hasattr(value, "__dataclass_fields__") else value

    def _argument(self, value: Any) -> Any:
        """The value of a pattern's argument: a variable or a literal, or a new variable that equals another term."""
        if not isinstance(value, ast.Variable) or value.name not in self._call.arguments:
            return self.node(value)
        argument = self._call.arguments[value.name]
        if isinstance(argument, ast.Constant):
            return ast.ExactValue(argument.value)
        if not isinstance(argument, ast.Variable):
            variable = ast.Variable(_fresh(value.name, self._taken), self._call.place or value.place)
            self._equations.append(ast.Compare(variable, "==", _copied(argument)))
            return variable
        return argument


_NAMES = {ast.Variable: "name", ast.Label: "name", ast.OverItems: "variable", ast.Pattern: "label"}
"""The field with the name that a node binds or uses."""


def _copied(node: Any) -> Any:
    if isinstance(node, tuple):
        return tuple(map(_copied, node))
    if isinstance(node, ast.Place) or not hasattr(node, "__dataclass_fields__"):
        return node
    return type(node)(**{field.name: _copied(getattr(node, field.name)) for field in fields(node)})
