"""Scopes of interpreted code: each name has its values at the current point."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from guardagent.workflow.python_source.scopes import changed_inside
from guardagent.workflow.python_source.unseen_code import TopLevel
from guardagent.workflow.python_source.values import (
    NOTHING,
    Binding,
    Class,
    DeferredValues,
    ImportedName,
    NameScope,
    Sequence,
    Stub,
    Table,
    Values,
)


@dataclass(eq=False)
class FlowScope:
    """The current names of one function or file.

    Attributes:
        tree: the function or file.
        parent: the enclosing scope.
        names: the current values of each name.
    """

    tree: ast.AST
    parent: NameScope | None
    names: dict[str, Values] = field(default_factory=dict)

    def find(self, name: str) -> list[Binding]:
        return [Binding(self.names[name])] if name in self.names else []

    def join(self, other: dict[str, Values]) -> None:
        """Joins the names of another path to the same point."""
        for name, values in other.items():
            if (own := self.names.get(name, NOTHING)) is not values:
                self.names[name] = own | values

    def leave_unfinished(self) -> None:
        """Allows for changes of collections, and of names that inner functions bind, by code that is not followed."""
        for name, values in self.names.items():
            if name in self.bound_inside or any(map(_is_collection, _computed(values))):
                self.names[name] = Values(values.known, complete=False, cyclic=values.cyclic)

    def open_names(self) -> None:
        """Allows for any further values of each name, but what it imports."""
        for name, values in self.names.items():
            if not all(isinstance(one, ImportedName) for one in _computed(values)):
                self.names[name] = Values(values.known, complete=False, cyclic=values.cyclic)

    @cached_property
    def bound_inside(self) -> set[str]:
        """The names that functions in its code declare global or nonlocal."""
        nodes = [node for node in ast.walk(self.tree) if isinstance(node, ast.Global | ast.Nonlocal)]
        return {name for node in nodes for name in node.names}

    @cached_property
    def outer(self) -> dict[str, bool]:
        """The names that its code declares global (True) or nonlocal (False)."""
        if isinstance(self.tree, ast.Module):
            return {}
        nodes = [node for node in ast.walk(self.tree) if isinstance(node, ast.Global | ast.Nonlocal)]
        return {name: isinstance(node, ast.Global) for node in nodes for name in node.names}


@dataclass(eq=False)
class FileScope(FlowScope):
    """The names of a file. An imported file is interpreted on demand, as far as a requested name depends on it.

    Attributes:
        file: the file.
        package: its package, for relative imports.
        run: interprets some of its statements.
        on_demand: it is interpreted on demand.
        found: is told each value that is first demanded.
        is_open: code that is not followed can have changed its objects.
    """

    file: Path = Path()
    package: str = ""
    run: Callable[[FileScope, list[ast.stmt]], None] = lambda _scope, _statements: None
    on_demand: bool = False
    found: Callable[[Values], None] = lambda _values: None
    is_open: bool = False
    _demanded: set[str] = field(default_factory=set)
    _done: set[int] = field(default_factory=set)

    def find(self, name: str) -> list[Binding]:
        self.demand(name)
        return super().find(name)

    def get(self, name: str) -> Values | None:
        """Returns the values of a name; None if the file does not bind it."""
        self.demand(name)
        return self.names.get(name)

    def all_names(self) -> dict[str, Values]:
        """Interprets the whole file, and returns its names."""
        if self.on_demand:
            self._run([place for name in self.top_level.names for place in self.top_level.deciding(name)])
        return self.names

    @cached_property
    def top_level(self) -> TopLevel:
        assert isinstance(self.tree, ast.Module)
        return TopLevel(self.tree)

    def demand(self, name: str) -> None:
        """Interprets the statements that decide a name, unless they already were."""
        if not self.on_demand or name in self._demanded:
            return
        self._demanded.add(name)
        self._run(self.top_level.deciding(name) or self.top_level.deciding("*"))
        values = self.names.get(name)
        if values is None:
            return
        if (self.is_open or name in self._registries) and any(map(_is_collection, _computed(values))):
            self.names[name] = Values(values.known, complete=False, cyclic=values.cyclic)
        self.found(values)

    def run_effects(self, names: Iterable[str]) -> None:
        """Interprets the statements that use some names, such as those that it imports."""
        self._run(self.top_level.acting(set(names)))

    @cached_property
    def _registries(self) -> set[str]:
        """The collections that its functions change: files that are not interpreted may call them, too."""
        assert isinstance(self.tree, ast.Module)
        inner = [node for node in self.tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
        return {name for node in inner for name in changed_inside(node)}

    def _run(self, places: list[int]) -> None:
        assert isinstance(self.tree, ast.Module)
        fresh = sorted(set(places) - self._done)
        self._done.update(fresh)
        if fresh:
            self.run(self, [self.tree.body[place] for place in fresh])


@dataclass(eq=False)
class ProgramObject(Stub):
    """An object of a class in code, with its current attributes."""

    made_of: object
    attributes: dict[str, Values] = field(default_factory=dict)

    def leave_unfinished(self, why: str) -> None:
        """Allows for further values of each attribute, since the rest of the program is not followed."""
        for name, values in self.attributes.items():
            graphs = [one for one in values.known if hasattr(one, "unclear")]  # they say themselves what is unknown
            for one in graphs:
                one.leave_unfinished(why)
            if not graphs:
                self.attributes[name] = Values(values.known, complete=False, cyclic=values.cyclic)


class ModuleObject(ProgramObject):
    """A file or a package of the program as an object, whose attributes are its names."""

    def __init__(self, path: Path, load: Callable[[Path], FileScope | None]) -> None:
        self.made_of, self.path, self._load = None, path, load

    @property
    def scope(self) -> FileScope | None:
        """Its names; None if it cannot be read, or is a folder without code of its own."""
        return self._load(self.path) if self.path.suffix == ".py" else None

    @property
    def attributes(self) -> dict[str, Values]:  # type: ignore[override]
        """All its names."""
        return self.scope.all_names() if self.scope is not None else {}


def _computed(values: Values) -> tuple[object, ...]:
    """Returns the known values, unless they were never read."""
    return () if isinstance(values, DeferredValues) and values.computed is None else values.known


def can_change(values: Values) -> bool:
    """Whether another file can change a value: a collection, an object, a workflow, or a class with these."""
    return any(_is_collection(one) or _is_object(one) for one in _computed(values))


def _is_object(value: object) -> bool:
    if isinstance(value, Class):
        held = [one.value for one in value.tree.body if isinstance(one, ast.Assign | ast.AnnAssign)]
        return any(isinstance(one, ast.List | ast.Dict | ast.Set | ast.Call) for one in held)
    return hasattr(type(value), "leave_unfinished") and not isinstance(value, ModuleObject)


def _is_collection(value: object) -> bool:
    return isinstance(value, Sequence | Table)
