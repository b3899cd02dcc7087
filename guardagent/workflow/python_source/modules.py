"""The files of a program: the scopes of their names, their imports, and the budget for reading them.

A scope gives each name of interpreted code its values at the current point. Imports lead to other files, which are
parsed and interpreted on demand. The budget counts steps, which are the same on each machine, and at last CPU time.
"""

from __future__ import annotations

import ast
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from guardagent.workflow.python_source.scopes import LiveScope, changed_inside
from guardagent.workflow.python_source.unseen_code import ActingFile, TopLevel, acting_files
from guardagent.workflow.python_source.values import (
    NOTHING,
    UNKNOWN,
    Binding,
    Class,
    DeferredValues,
    ImportedName,
    NameScope,
    Sequence,
    Stub,
    Table,
    Values,
    exactly,
)

__all__ = ["FlowScope", "ProgramFiles", "file_of", "file_scope"]


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
            if not all(isinstance(value, ImportedName) for value in _computed(values)):
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
        on_value: called with each value that is first demanded.
        is_open: code that is not followed can have changed its objects.
    """

    file: Path = Path()
    package: str = ""
    run: Callable[[FileScope, list[ast.stmt]], None] = lambda _scope, _statements: None
    on_demand: bool = False
    on_value: Callable[[Values], None] = lambda _values: None
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
        self.on_value(values)

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

    def leave_unfinished(self, why: str, *, private: bool = True) -> None:
        """Allows for further values of each attribute, as code that is not followed may change it."""
        for name, values in self.attributes.items():
            graphs = [
                value for value in values.known if hasattr(value, "unclear")
            ]  # they say themselves what is unknown
            for graph in graphs:
                graph.leave_unfinished(why)
            if not graphs and (private or not name.startswith("_")):
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


@dataclass(frozen=True, eq=False)
class Namespace(Stub):
    """The dictionary of the names of a file or an object, as `globals()` and `vars(x)` return it."""

    of: FlowScope | ProgramObject

    def open(self) -> None:
        """Allows for any further values of each name."""
        if isinstance(self.of, FlowScope):
            self.of.open_names()
        else:
            self.of.leave_unfinished("")


def _computed(values: Values) -> tuple[object, ...]:
    """Returns the known values, unless they were never read."""
    return () if isinstance(values, DeferredValues) and values.computed is None else values.known


def can_change(values: Values) -> bool:
    """Whether another file can change a value: a collection, an object, a workflow, or a class with these."""
    return any(_is_collection(value) or _is_object(value) for value in _computed(values))


def _is_object(value: object) -> bool:
    if isinstance(value, Class):
        held = [statement.value for statement in value.tree.body if isinstance(statement, ast.Assign | ast.AnnAssign)]
        return any(isinstance(expression, ast.List | ast.Dict | ast.Set | ast.Call) for expression in held)
    return hasattr(type(value), "leave_unfinished") and not isinstance(value, ModuleObject)


def _is_collection(value: object) -> bool:
    return isinstance(value, Sequence | Table)


# --- the files that a program imports

MOST_ABOVE = 6  # parent folders that are searched for packages of the program


Read = Callable[[Path], ast.Module | None]
Run = Callable[[FileScope, list[ast.stmt]], None]


class ProgramFiles:
    """The files of a program.

    Args:
        read: returns the syntax tree of a file; None if it cannot be read, or not any more.
        run: interprets some statements of a file.
        packages: the top packages of known frameworks; names that a file of the program lacks are theirs.
        shared: the modules of frameworks in a top package that others share, as `google.adk` in `google`; files with
            these names are the framework's own source.
    """

    def __init__(self, read: Read, run: Run, packages: Iterable[str], shared: Iterable[str]) -> None:
        self._read, self._run_statements = read, run
        self.packages = frozenset(packages)
        self._shared = [module_name.split(".") for module_name in shared]
        self._loaded: dict[Path, FileScope | None] = {}
        self._objects: dict[Path, ModuleObject] = {}
        self._found_files: dict[tuple[Path, tuple[str, ...], int], list[Path]] = {}
        self._added: dict[Path, None] = {}
        self._acting: list[ActingFile] | None = None
        self._main: FileScope | None = None
        self._is_open = self._is_wanted = False
        self._running = 0

    def __iter__(self) -> Iterator[FileScope]:
        return (scope for scope in self._loaded.values() if scope is not None)

    def main(self, path: Path, tree: ast.Module) -> FileScope:
        """Returns the scope of the file that is read, whose statements are all interpreted in order."""
        scope = FileScope(tree, LiveScope({}), {"__name__": exactly("__main__")}, path, package_of(path))
        self._loaded[path] = self._main = scope
        return scope

    def open(self) -> None:
        """Allows for any changes of objects of imported files, by code that is not followed."""
        self._is_open = True
        for scope in self:
            scope.is_open = True
            scope.leave_unfinished()

    def _check_value(self, values: Values) -> None:
        """Interprets what imported files do to others, before one of the objects that can change is used."""
        if self._acting is None:
            self._acting = []
            if self._main is not None:
                self._acting, whole = acting_files(self._main.file, _text(self._main.file), self._imported_files)
                if not whole:
                    self.open()
        self._is_wanted = self._is_wanted or can_change(values) or any(file.patches for file in self._acting)
        if self._acting and self._is_wanted and not self._running:  # no assignment is left half done
            acting, self._acting = self._acting, []
            for acting_module in acting:
                if (scope := self.load(acting_module.path)) is not None:
                    scope.run_effects(acting_module.names)

    def _run(self, scope: FileScope, statements: list[ast.stmt]) -> None:
        self._running += 1
        try:
            self._run_statements(scope, statements)
        finally:
            self._running -= 1

    def _imported_files(self, path: Path, parts: list[str], level: int) -> list[Path]:
        if not level and (parts[0] in sys.stdlib_module_names or self.is_framework(parts[0])):
            return []
        return self._files(parts, level, path)

    def add_folder(self, parts: Iterable[str], scope: NameScope) -> None:
        """Searches folders with these names, too, as for `sys.path.insert(0, "lib")`."""
        base = file_of(scope).parent
        for folder in (base, *list(base.parents)[:MOST_ABOVE]):
            for part in parts:
                if part.strip("./") and (sub_folder := folder / part).is_dir():
                    self._added[sub_folder] = None
        self._found_files.clear()

    def is_framework(self, name: str) -> bool:
        return name in self.packages

    def module(self, path: str, scope: NameScope) -> ModuleObject | None:
        """Returns the module of `import path`; None if it is not of the program."""
        top = path.partition(".")[0]
        if top in sys.stdlib_module_names or self.is_framework(top):
            return None
        return self._object(next(iter(self._files(path.split("."), 0, file_of(scope))), None))

    def imported(self, node: ast.ImportFrom, name: str, scope: NameScope) -> Values | None:
        """Returns the value of a name in `from ... import`, read on demand; None if no file can have it."""
        parts = (node.module or "").split(".") if node.module else []
        if not node.level and parts[0] in sys.stdlib_module_names:
            return None
        files = list(self._files(parts, node.level, file_of(scope)))
        if not files:
            return None
        is_framework = not node.level and self.is_framework(parts[0])
        if is_framework:  # a file of the program may have the name of a framework
            return self._named(files, name)
        own = file_of(scope)
        return DeferredValues(lambda: self._named(files, name, own) or UNKNOWN)

    def _named(self, files: list[Path], name: str, own: Path | None = None) -> Values | None:
        """Returns the value of a name of one of some files; a package that imports from itself means its modules."""
        for path in files:
            if (module := self._module_in(path, name) if path == own else self.attribute(path, name)) is not None:
                return module
        return None

    def all_imported(self, node: ast.ImportFrom, scope: NameScope) -> dict[str, Values] | None:
        """Returns the names of `from module import *`; None if it is not of the program."""
        parts = (node.module or "").split(".") if node.module else []
        for path in self._files(parts, node.level, file_of(scope)):
            if path.suffix == ".py" and (module := self.load(path)) is not None:
                return {name: DeferredValues(lambda name=name: module.get(name) or UNKNOWN) for name in _public(module)}  # type: ignore[misc]
        return None

    def attribute(self, path: Path, name: str) -> Values | None:
        """Returns the value of a name of a file or package: of its code, or a module in it; None if there is none."""
        module = self.load(path) if path.suffix == ".py" else None
        if path.suffix == ".py" and module is None:
            return UNKNOWN
        if module is not None and (values := module.get(name)) is not None:
            return values
        if path.suffix == ".py" and path.name != "__init__.py":
            return None
        return self._module_in(path, name)

    def _module_in(self, path: Path, name: str) -> Values | None:
        """Returns a module of a package; None if there is none."""
        inner = self._object(_file_in(path.parent if path.suffix == ".py" else path, [name]))
        return None if inner is None else exactly(inner)

    def load(self, path: Path) -> FileScope | None:
        """Returns the scope of a file; None if it cannot be read, or not any more."""
        if path not in self._loaded:
            self._loaded[path] = None
            if (tree := self._read(path)) is not None:
                self._loaded[path] = FileScope(
                    tree, LiveScope({}), {"__name__": exactly(path.stem)}, path, package_of(path), run=self._run,
                    on_demand=True, on_value=self._check_value, is_open=self._is_open,
                )  # fmt: skip
        return self._loaded[path]

    def _object(self, path: Path | None) -> ModuleObject | None:
        if path is None:
            return None
        if path not in self._objects:
            self._objects[path] = ModuleObject(path, self.load)
        return self._objects[path]

    def _files(self, parts: list[str], level: int, importing: Path) -> list[Path]:
        """Returns the files and folders of the program that can be a module."""
        key = (importing, tuple(parts), level)
        if key not in self._found_files:
            own_layout = not parts or not self.is_framework(parts[0])  # else it is the framework's own source
            known = not level and any(parts[: len(prefix)] == prefix for prefix in self._shared)
            roots = [] if known else self._roots(key[0].parent, level, own_layout=own_layout)
            files = (_file_in(root, parts) for root in roots)
            own = None if level else importing
            self._found_files[key] = [path for path in dict.fromkeys(files) if path is not None and path != own]
        return self._found_files[key]

    def _roots(self, base: Path, level: int, *, own_layout: bool) -> Iterable[Path]:
        if level:
            return [base if level == 1 else base.parents[min(level - 2, len(base.parents) - 1)]]
        above = [base, *list(base.parents)[:MOST_ABOVE]]
        return dict.fromkeys((*above, *self._added, *(folder / "src" for folder in above if own_layout)))


def _file_in(root: Path, parts: list[str]) -> Path | None:
    """Returns the file of a module in a folder, or the folder of a package without code; None if there is none."""
    folder = root.joinpath(*parts)
    for path in (folder / "__init__.py", folder.parent / f"{folder.name}.py"):
        if path.is_file() and (parts or path.name == "__init__.py"):
            return path
    return folder if folder.is_dir() and _has_code(folder) else None


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def _has_code(folder: Path) -> bool:
    return any(folder.glob("*.py")) or any(folder.glob("*/*.py"))


def _public(module: FileScope) -> list[str]:
    """Returns the names that `import *` binds."""
    listed = module.get("__all__")
    items = [
        member for values in (listed.known if listed is not None else ()) for member in getattr(values, "items", ())
    ]
    names = [name for item in items for name in item.strings or ()]
    starred = [name for name in module.top_level.names if name == "*"]
    if starred:
        module.demand("*")
    return names or [name for name in {**module.names, **dict.fromkeys(module.top_level.names)} if name[0] not in "_*"]


def file_of(scope: NameScope | None) -> Path:
    """Returns the file of the code of a scope."""
    scope_of_file = file_scope(scope)
    return scope_of_file.file if scope_of_file is not None else Path()


def file_scope(scope: NameScope | None) -> FileScope | None:
    """Returns the scope of the file around a scope."""
    while scope is not None and not isinstance(scope, FileScope):
        scope = scope.parent
    return scope


def package_of(path: Path) -> str:
    """Returns the dotted name of the package of a file."""
    parts: list[str] = []
    folder = path.parent
    while (folder / "__init__.py").is_file() and folder.parent != folder:
        parts.insert(0, folder.name)
        folder = folder.parent
    return ".".join(parts)


# --- the budget


@dataclass(frozen=True)
class Share:
    """A share of the budget for one part of a program.

    Attributes:
        steps: the steps of this part.
        most: the steps of the program until the end of this part.
        seconds: the CPU time of this part; the last resort.
        until: the CPU time of the program until the end of this part.
    """

    steps: int
    most: int
    seconds: float
    until: float


@dataclass(eq=False)
class StepBudget:
    """Counts the steps of reading a program, and the CPU time of its thread."""

    _spent: int = 0
    _limit: int = 0
    _until: float = 0.0
    _began: float = field(default_factory=time.thread_time)

    def allow(self, share: Share) -> bool:
        """Allows a share for the next part; returns whether there is any left."""
        self._limit = min(self._spent + share.steps, share.most)
        self._until = min(time.thread_time() + share.seconds, self._began + share.until)
        return self._spent < self._limit and time.thread_time() < self._until

    def spend(self, steps: int) -> bool:
        """Spends steps; returns whether any are left."""
        if not self.left:
            return False  # what is refused is not spent
        self._spent += steps
        if self._spent <= self._limit and time.thread_time() > self._until:
            self._limit = 0
        return self.left

    @property
    def left(self) -> bool:
        """Whether any steps are left."""
        return self._spent <= self._limit
