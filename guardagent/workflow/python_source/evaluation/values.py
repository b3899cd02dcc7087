"""What an expression can be: the values that are known, and whether there can be others."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, Protocol

_NAMED = (type, FunctionType, BuiltinFunctionType, MethodType)

FunctionTree = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True)
class Values:
    """The values that an expression can have.

    Attributes:
        known: live objects, and the stand-ins of this module for what exists only when the program runs.
        complete: there are no others.
        cyclic: it was asked for while it was being worked out, so that what is computed from it may go on growing.
    """

    known: tuple[Any, ...] = ()
    complete: bool = True
    cyclic: bool = False

    def __or__(self, other: Values) -> Values:
        fresh = tuple(one for one in other.known if not any(one is old or _same(one, old) for old in self.known))
        return Values(self.known + fresh, self.complete and other.complete, self.cyclic or other.cyclic)

    @property
    def identity(self) -> object:
        """By what values can be told apart: texts by themselves, others by which object they are."""
        return tuple(one if isinstance(one, str) else id(one) for one in self.known), self.complete

    @property
    def strings(self) -> frozenset[str] | None:
        """All values, where each is a text."""
        if self.complete and all(isinstance(one, str) for one in self.known):
            return frozenset(str(plain_string(one)) for one in self.known)
        return None


NOTHING = Values()
UNKNOWN = Values(complete=False)
CYCLE = Values(cyclic=True)


def is_true(value: object) -> bool | None:
    """Whether a value counts as true; None where its own code would have to say."""
    if isinstance(value, Sequence | Table):
        return bool(value.items) if not value.items or isinstance(value, Table) or value.ordered else None
    if value is None or type(value) in {str, int, bool, list, tuple, dict, set, frozenset}:
        return bool(value)
    return True if isinstance(value, Function | Class | PartialFunction | Stub | FunctionType | type) else None


def exactly(*known: object) -> Values:
    return Values(known)


def _same(one: object, other: object) -> bool:
    return type(one) is type(other) and isinstance(one, str | int | bool | None) and one == other


def plain_string(value: str) -> str:
    """A text as such: a member of an enumeration of texts is its value."""
    return str.__str__(value)


@dataclass(frozen=True, eq=False)
class Arguments:
    """What a call passes; `open` where it passes more than can be told.

    Under the keyword `REST` stands what else it can pass by place: the elements of a list of which the length is open.
    """

    positional: tuple[Values, ...] = ()
    keywords: Mapping[str, Values] = field(default_factory=dict)
    open: bool = False

    def get(self, keyword: str, position: int | None = None) -> Values | None:
        """An argument by its name or its place; None where it is not given."""
        if keyword in self.keywords:
            return self.keywords[keyword]
        if position is not None and position < len(self.positional):
            return self.positional[position]
        return UNKNOWN if self.open or (position is not None and REST in self.keywords) else None

    @property
    def signature(self) -> object:
        """By what calls can be told apart that pass different values."""
        keywords = tuple((name, one.identity) for name, one in sorted(self.keywords.items()))
        return tuple(one.identity for one in self.positional), keywords, self.open

    def then(self, more: Arguments) -> Arguments:
        """These, and after them those of the call."""
        return Arguments(self.positional + more.positional, {**self.keywords, **more.keywords}, self.open or more.open)


REST = "*"


@dataclass(frozen=True)
class Binding:
    """One way in which a name gets a value.

    Attributes:
        source: an expression, a definition or an import; what it can be, where that is known; None where it is not.
        steps: how to get from it to the value: a place, EACH or ADDED of `scope.py`; of an import, the name.
        grows: the value is one more element of a collection.
    """

    source: ast.AST | Values | None
    steps: tuple[int | str, ...] = ()
    grows: bool = False


class NameScope(Protocol):
    """Gives a name its values, if it is known here; else `parent` has to be asked."""

    @property
    def parent(self) -> NameScope | None: ...

    def find(self, name: str) -> list[Binding]: ...


class LiveValue:
    """Marks an object that a reader puts among the values of code, for the extractor to see as it is."""


class Stub:
    """What stands for an object of the program that only exists when it runs; so do its attributes."""

    def attribute(self, name: str) -> Values | None:  # noqa: ARG002 - for those that know one
        """What an attribute is, where it is known."""
        return None


@dataclass(frozen=True, eq=False)
class ImportedName:
    """Something from a module that is not loaded, or not to be loaded: known by its path only."""

    path: str


@dataclass(frozen=True, eq=False)
class CallResult:
    """What calling something gives that is not looked into: an object of a class, mostly."""

    callee: object
    arguments: Arguments
    line: int = 0


@dataclass(frozen=True, eq=False)
class Function:
    """A function whose code can be read, with the scope in which it was defined."""

    tree: FunctionTree
    scope: NameScope
    defaults: Mapping[str, Values] | None = None
    file: str = ""


@dataclass(frozen=True, eq=False)
class Class:
    """A class of which only the code is there."""

    tree: ast.ClassDef
    scope: NameScope


@dataclass(frozen=True, eq=False)
class PartialFunction:
    """A function with some of its arguments: a partial function, or a method of an object."""

    function: object
    arguments: Arguments


@dataclass(frozen=True, eq=False)
class Attribute:
    """An attribute of a value that tells nothing of it, such as the method of a literal."""

    owner: object
    name: str


@dataclass(frozen=True, eq=False)
class Sequence:
    """A list, a tuple or a set in code: what it can have as elements, in order where `ordered`."""

    items: tuple[Values, ...]
    ordered: bool = True


@dataclass(frozen=True, eq=False)
class Table:
    """A dictionary in code: what its keys can be, and what belongs to each."""

    items: tuple[tuple[Values, Values], ...]


@dataclass(frozen=True, eq=False)
class Instance:
    """Some object of a class; what is declared of its fields is known."""

    of: object


@dataclass(frozen=True, eq=False)
class Alias(Stub):
    """An annotation that is given a name, such as `Literal["a", "b"]`."""

    node: ast.AST
    scope: NameScope


def path_of(value: object) -> str:
    """The dotted path by which a class or function is known; empty for anything else."""
    if isinstance(value, ImportedName):
        return value.path
    if isinstance(value, Attribute):
        owner = path_of(value.owner)
        return f"{owner}.{value.name}" if owner else ""
    if not isinstance(value, _NAMED):  # any other object may run code of its own when it is asked for its name
        return ""
    return f"{value.__module__}.{value.__qualname__}"


def is_member_of(value: object, package: str, name: str) -> bool:
    """Whether a class or function is that of a package, wherever in it it lies."""
    path = path_of(value).split(".")
    return path[0] == package and path[-1] == name


def is_result_of(value: object, package: str, name: str) -> bool:
    """Whether a value was made by that class or function of a package."""
    return isinstance(value, CallResult) and is_member_of(value.callee, package, name)
