"""The possible values of an expression, the values that stand for code, and the code that can change a collection.

A collection can be changed through its name or through another reference, so `escapes` finds where a name is passed on.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, Protocol, TypeGuard

_NAMED = (type, FunctionType, BuiltinFunctionType, MethodType)

MOST_VALUES = 500

FunctionTree = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True)
class Values:
    """The possible values of an expression.

    Attributes:
        known: live objects, and the stubs of this module for objects that exist only at run time.
        complete: there are no other values.
        cyclic: the value depends on itself, so values computed from it can grow without end.
        label: the name of the variable or parameter, if its value is unknown or the result of unknown code.
    """

    known: tuple[Any, ...] = ()
    complete: bool = True
    cyclic: bool = False
    label: str = field(default="", compare=False)

    def __or__(self, other: Values) -> Values:
        """Returns the union; beyond MOST_VALUES alternatives, the others count as unknown."""
        if self is other or (self._includes_flags(other) and (not other.known or self._is_full)):
            return self
        if not self.known and other._includes_flags(self):
            return other
        keys = set(self._keys)
        fresh = [value for value in other.known if (key := _key(value)) not in keys and not keys.add(key)]  # type: ignore[func-returns-value]
        room = max(MOST_VALUES - len(self.known), 0)
        complete = self.complete and other.complete and len(fresh) <= room
        label = self.label or other.label
        created = Values((*self.known, *fresh[:room]), complete, self.cyclic or other.cyclic, label)
        if len(fresh) <= room:
            created.__dict__["_keys"] = keys
        return created

    @cached_property
    def _keys(self) -> set[object]:
        return set(map(_key, self.known))

    @property
    def _is_full(self) -> bool:
        return not self.complete and len(self.known) >= MOST_VALUES

    def _includes_flags(self, other: Values) -> bool:
        return self.complete <= other.complete and self.cyclic >= other.cyclic

    @property
    def identity(self) -> object:
        """A key that distinguishes values: strings by content, other objects by identity."""
        return tuple(value if isinstance(value, str) else id(value) for value in self.known), self.complete

    @property
    def strings(self) -> frozenset[str] | None:
        """All values, if each is a string; else None."""
        if self.complete and all(isinstance(value, str) for value in self.known):
            return frozenset(str(plain_string(value)) for value in self.known)
        return None

    @property
    def number(self) -> int | None:
        """The only value, if it is an integer; else None."""
        certain = self.complete and not self.cyclic and len(self.known) == 1 and type(self.known[0]) is int
        return self.known[0] if certain else None


class DeferredValues(Values):
    """Values that are computed when they are first read; within their own computation, they are unknown.

    Attributes:
        computed: the values, once they are read.
    """

    computed: Values | None
    compute_now: Callable[[], Values] | None

    def __init__(self, compute: Callable[[], Values]) -> None:
        self.__dict__.update(compute_now=compute, computed=None)

    def _read(self) -> Values:
        chain: list[DeferredValues] = []
        values: Values = self
        while isinstance(values, DeferredValues) and values.compute_now is not None:
            compute = values.compute_now
            values.__dict__.update(compute_now=None, computed=UNKNOWN)
            chain.append(values)
            values = compute()
        plain = values.computed if isinstance(values, DeferredValues) else values
        for deferred_values in chain:
            deferred_values.__dict__["computed"] = plain
        assert self.computed is not None
        return self.computed

    known = property(lambda self: self._read().known)
    complete = property(lambda self: self._read().complete)
    cyclic = property(lambda self: self._read().cyclic)


def _plain(values: Values) -> Values:
    """Returns the values that deferred ones stand for."""
    return Values(values.known, values.complete, values.cyclic) if isinstance(values, DeferredValues) else values


NOTHING = Values()
UNKNOWN = Values(complete=False)
CYCLE = Values(cyclic=True)


def is_true(value: object) -> bool | None:
    """The truth of a value; None if only its own code decides it."""
    if isinstance(value, Sequence | Table):
        return bool(value.items) if not value.items or isinstance(value, Table) or value.ordered else None
    if value is None or type(value) in {str, int, bool, list, tuple, dict, set, frozenset}:
        return bool(value)
    return True if isinstance(value, Function | Class | PartialFunction | Stub | FunctionType | type) else None


def exactly(*known: object) -> Values:
    return Values(known)


def small(number: int) -> Values:
    """Returns a computed number; unknown if it is large, since only small ones are kept apart by identity."""
    return exactly(number) if -5 <= number <= MOST_NUMBER else UNKNOWN


def union(several: Iterable[Values], base: Values | None = None) -> Values:
    """Returns the union of some values; incomplete if `base` is incomplete."""
    result = Values((), base.complete, base.cyclic) if base is not None else NOTHING
    for values in several:
        result |= values
    return result


def labelled(values: Values, name: str) -> Values:
    """Returns an unknown value, or the result of unknown code, with the name of its variable; others unchanged."""
    if type(values) is Values and not (values.known or values.complete or values.cyclic or values.label):
        return Values((), complete=False, label=name)
    if type(values) is Values and len(values.known) == 1 and isinstance(values.known[0], CallResult):
        return values if values.label else Values(values.known, values.complete, values.cyclic, name)
    return values


def _key(value: object) -> object:
    """Returns what tells alternatives apart: the type and content of a plain value, the identity of an object."""
    return (type(value), value) if isinstance(value, str | int | None) else id(value)


def plain_string(value: str) -> str:
    """Returns a plain string; of a member of a string enumeration, its value."""
    return str.__str__(value)


@dataclass(frozen=True, eq=False)
class Arguments:
    """The arguments of a call; `open` if it can pass further unknown arguments.

    The keyword `REST` holds other positional arguments: the elements of a list of unknown length.
    """

    positional: tuple[Values, ...] = ()
    keywords: Mapping[str, Values] = field(default_factory=dict)
    open: bool = False

    def get(self, keyword: str, position: int | None = None) -> Values | None:
        """Returns an argument by its name or position; None if the call does not pass it."""
        if keyword in self.keywords:
            return self.keywords[keyword]
        if position is not None and position < len(self.positional):
            return self.positional[position]
        return UNKNOWN if self.open or (position is not None and REST in self.keywords) else None

    def values_of(self, keyword: str, position: int | None = None) -> Values:
        """Returns an argument by its name or position; unknown if the call does not pass it."""
        return self.get(keyword, position) or UNKNOWN

    @property
    def signature(self) -> object:
        """A key that distinguishes calls with different arguments."""
        keywords = tuple((name, keyword.identity) for name, keyword in sorted(self.keywords.items()))
        return tuple(argument.identity for argument in self.positional), keywords, self.open

    def then(self, more: Arguments) -> Arguments:
        """Returns these arguments, followed by further ones."""
        return Arguments(self.positional + more.positional, {**self.keywords, **more.keywords}, self.open or more.open)


MOST_NUMBER = 200
REST = "*"


@dataclass(frozen=True)
class Binding:
    """One binding of a name.

    Attributes:
        source: an expression, a definition or an import; the possible values, if they are known; None if unknown.
        steps: how to get from it to the value: a place, EACH or ADDED of `scopes.py`; of an import, the name.
        grows: the value is an element that is added to a collection.
    """

    source: ast.AST | Values | None
    steps: tuple[int | str, ...] = ()
    grows: bool = False


class NameScope(Protocol):
    """Returns the bindings of a name; if there are none, `parent` is searched."""

    @property
    def parent(self) -> NameScope | None: ...

    def find(self, name: str) -> list[Binding]: ...


class LiveValue:
    """A value that a reader provides and the extractor sees unchanged."""


class Stub:
    """A stub for an object of the program that exists only at run time, and for its attributes."""

    def attribute(self, name: str) -> Values | None:  # noqa: ARG002 - for subclasses
        """Returns the possible values of an attribute; None if they are unknown."""
        return None


@dataclass(frozen=True, eq=False)
class ImportedName:
    """A name from a module that is not loaded, known only by its path."""

    path: str


@dataclass(frozen=True, eq=False)
class CallResult:
    """The result of a call whose code is not read, mostly an object of a class."""

    callee: object
    arguments: Arguments
    line: int = 0


@dataclass(frozen=True, eq=False)
class Function:
    """A function with source code, and the scope of its definition."""

    tree: FunctionTree
    scope: NameScope
    defaults: Mapping[str, Values] | None = None
    file: str = ""


@dataclass(frozen=True, eq=False)
class Class:
    """A class that exists only as code."""

    tree: ast.ClassDef
    scope: NameScope


@dataclass(frozen=True, eq=False)
class PartialFunction:
    """A function with some of its arguments: a partial function or a bound method."""

    function: object
    arguments: Arguments


def function_in(value: object) -> object:
    """Returns the function of a partial function or a bound method; another value itself."""
    while isinstance(value, PartialFunction):
        value = value.function
    return value


@dataclass(frozen=True, eq=False)
class Attribute:
    """An attribute whose value is unknown, such as a method of a literal."""

    owner: object
    name: str


@dataclass(eq=False)
class ChangingCollection:
    """One collection of a program that changes, with its present contents: alternatives, if it may have changed."""

    contents: list[Any]


@dataclass(frozen=True, eq=False)
class Sequence:
    """A list, a tuple or a set in code: its possible elements, in order if `ordered`; `origin` if it changes."""

    items: tuple[Values, ...]
    ordered: bool = True
    origin: ChangingCollection | None = None


@dataclass(frozen=True, eq=False)
class Table:
    """A dictionary in code: its possible keys and their values; `origin` if it changes."""

    items: tuple[tuple[Values, Values], ...]
    origin: ChangingCollection | None = None


@dataclass(frozen=True, eq=False)
class Instance:
    """An unknown object of a class, with the declared types of its fields."""

    of: object


@dataclass(frozen=True, eq=False)
class Alias(Stub):
    """An annotation with a name, such as `Literal["a", "b"]`."""

    node: ast.AST
    scope: NameScope


def path_of(value: object) -> str:
    """Returns the dotted path of a class or function; empty for other values."""
    if isinstance(value, ImportedName):
        return value.path
    if isinstance(value, Attribute):
        owner = path_of(value.owner)
        return f"{owner}.{value.name}" if owner else ""
    if not isinstance(value, _NAMED):  # attribute access on another object may run its code
        return ""
    return f"{value.__module__}.{value.__qualname__}"


def is_member_of(value: object, package: str, name: str) -> bool:
    """Whether a class or function of that name is from a package, in any of its modules."""
    path = path_of(value).split(".")
    return path[0] == package and path[-1] == name


def is_result_of(value: object, package: str, name: str) -> bool:
    """Whether a value is the result of a call of that class or function of a package."""
    return isinstance(value, CallResult) and is_member_of(value.callee, package, name)


# --- code that can change a collection

ADDS = {"append", "add", "insert", "appendleft", "setdefault", "__setitem__"}
ADDS_ALL = {"extend", "update", "extendleft"}
SHUFFLES = {"reverse", "sort", "remove", "pop", "popleft", "clear", "rotate", "discard"}
_MUTATIONS = ADDS | ADDS_ALL | SHUFFLES

# The positions where a name does not escape: the node around it, and the field of the node.
_HARMLESS: dict[type[ast.AST], str] = {
    ast.Attribute: "value",
    ast.Subscript: "value slice",
    ast.For: "iter",
    ast.AsyncFor: "iter",
    ast.comprehension: "iter ifs",
    ast.Return: "value",
    ast.Yield: "value",
    ast.Compare: "left comparators",
    ast.UnaryOp: "operand",
    ast.BinOp: "left right",
    ast.AugAssign: "value",
    ast.If: "test",
    ast.IfExp: "test",
    ast.While: "test",
    ast.Assert: "test",
    ast.Starred: "value",
    ast.FormattedValue: "value",
    ast.Match: "subject",
}


def escapes(tree: ast.AST, name: str, is_harmless: Callable[[ast.Call], bool]) -> bool:
    """Whether a collection escapes, so that code can change it without its name.

    Args:
        tree: the function.
        name: the name.
        is_harmless: whether a call leaves its arguments unchanged.
    """
    return any(
        not (field in _HARMLESS.get(type(parent), "").split() or _is_kept(tree, parent))
        and not (isinstance(parent, ast.Call) and is_harmless(parent))
        for parent, field in _uses(tree, name)
    )


def _is_kept(tree: ast.AST, parent: ast.AST) -> bool:
    """Whether a constructor stores it in its object: attributes, like globals, count as unchanged."""
    targets = parent.targets if isinstance(parent, ast.Assign) else []
    is_constructor = isinstance(tree, ast.FunctionDef) and tree.name == "__init__"
    return is_constructor and bool(targets) and all(isinstance(target, ast.Attribute) for target in targets)


def _uses(tree: ast.AST, name: str) -> list[tuple[ast.AST, str]]:
    """Returns the uses of a name: the node around it (for a keyword, the call), and the field of the node."""
    return _all_uses(tree).get(name, [])


@lru_cache(maxsize=512)
def _all_uses(tree: ast.AST) -> dict[str, list[tuple[ast.AST, str]]]:
    uses: dict[str, list[tuple[ast.AST, str]]] = {}
    for parent in ast.walk(tree):
        for field_name, value in () if isinstance(parent, ast.keyword) else ast.iter_fields(parent):
            several = value if isinstance(value, list) else [value]
            children = [_unnamed(child) for child in several if not _is_copied(child, parent)]
            for name in dict.fromkeys(child.id for child in children if _is_read(child)):
                if field_name != "elt" or name not in _loop_names(parent):
                    uses.setdefault(name, []).append((parent, field_name))
    return uses


def _loop_names(node: ast.AST) -> set[str]:
    """Returns the loop variables of a comprehension."""
    targets = [part.target for part in getattr(node, "generators", ())]
    return {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}


def _unnamed(child: object) -> object:
    return child.value if isinstance(child, ast.keyword) else child


def _is_copied(child: object, parent: ast.AST) -> bool:
    """Whether it is `**child`, which a call or a dictionary copies."""
    if isinstance(parent, ast.Dict):
        return any(key is None and value is child for key, value in zip(parent.keys, parent.values, strict=True))
    return isinstance(child, ast.keyword) and child.arg is None


def _is_read(node: object) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)


def mutates_nothing(tree: ast.AST) -> bool:
    """Whether the code of a function changes no collection and passes none to other code."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in _MUTATIONS:
            return False
        if isinstance(node, ast.Subscript | ast.Attribute) and not isinstance(node.ctx, ast.Load):
            return False
        if isinstance(node, ast.AugAssign):
            return False
        if isinstance(node, ast.Call) and not _passes_no_name(node):
            return False
    return True


def _passes_no_name(call: ast.Call) -> bool:
    if isinstance(call.func, ast.Name) and call.func.id in HARMLESS_NAMES:
        return True
    arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
    return not any(isinstance(argument, ast.Name | ast.Starred) for argument in arguments)


HARMLESS_NAMES = frozenset(
    """
    len list tuple set frozenset dict sorted reversed min max sum any all next iter enumerate zip map filter str repr
    print bool isinstance range type id choice deepcopy copy dumps
    Command Send ToolMessage AIMessage HumanMessage SystemMessage
    """.split()
)


def current(values: Values, *, inner: bool = True) -> Values:
    """Returns values with the present contents of collections.

    Args:
        values: the values.
        inner: they come from another collection or object; a content that a name still has can be the present one.
    """
    if isinstance(values, DeferredValues) and values.computed is None:
        return values
    if not any(isinstance(value, Sequence | Table) and value.origin is not None for value in values.known):
        return values
    contents: list[Any] = []
    for value in values.known:
        origin = value.origin if isinstance(value, Sequence | Table) else None
        known = origin is None or (not inner and any(each is value for each in origin.contents))
        contents += [value] if known or origin is None else origin.contents
    return (
        values if contents == list(values.known) else NOTHING | Values(tuple(contents), values.complete, values.cyclic)
    )
