"""The effects of a program: assignments, collections that change, and code that the source does not show.

A collection in a `Sequence` or `Table` never changes; a change creates its next content, which replaces it under all
names and in all objects. Its other holders, such as an outer collection or a closure, still have the old content, so
`current` looks up the present ones (`ChangingCollection`).

Code that the source does not show is code in strings, modules by computed names, plugins and callbacks. It can change
the objects of the program, which then can have any further values. A function that the script does not call may still
run later: as a handler, in a thread, as a special method. `changes_of` finds what its code changes besides its local
names, without following it.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from guardagent.workflow.python_source.evaluator import MOST_CONTENTS
from guardagent.workflow.python_source.modules import (
    FileScope,
    FlowScope,
    ModuleObject,
    Namespace,
    ProgramObject,
    file_of,
    file_scope,
)
from guardagent.workflow.python_source.scopes import enclosing
from guardagent.workflow.python_source.stubs import ObjectStub, Program, copy_of
from guardagent.workflow.python_source.values import (
    NOTHING,
    REST,
    UNKNOWN,
    Arguments,
    Attribute,
    ChangingCollection,
    Class,
    DeferredValues,
    Function,
    FunctionTree,
    ImportedName,
    NameScope,
    PartialFunction,
    Sequence,
    Table,
    Values,
    current,
    exactly,
    labelled,
    path_of,
)

_NAMES_AT_ONCE = 50  # in which a collection is replaced in one step
_ONE = {"append", "add", "insert", "appendleft"}
_SEVERAL = {"extend", "update", "extendleft"}
_SETS = {"setdefault", "__setitem__"}
CHANGES = _ONE | _SEVERAL | _SETS
"""The methods that add to a collection. What others take out counts as still in it."""

_FUNCTIONS = {"operator.iadd": "extend", "operator.ior": "update", "operator.setitem": "__setitem__",
              "heapq.heappush": "append", "bisect.insort": "append"}  # fmt: skip
Collection = Sequence | Table
_METHOD = type(list.append)
_CODE = {"builtins.exec", "builtins.eval", "code.InteractiveInterpreter", "ctypes.pythonapi"}
_BY_NAME = {"builtins.__import__", "importlib.import_module"}
_PLUGINS = {
    "importlib.metadata.entry_points", "importlib_metadata.entry_points", "pkg_resources.iter_entry_points",
    "pkg_resources.load_entry_point", "runpy.run_path", "runpy.run_module", "imp.load_source", "pluggy.PluginManager",
    "importlib.util.module_from_spec",
}  # fmt: skip
_NAMES = {"builtins.globals", "builtins.locals", "builtins.vars"}
_COPIES = {"dataclasses.replace", "copy.copy", "copy.deepcopy", "copy.replace"}
_HARMLESS = {*"guardagent langchain langchain_core langchain_community fastapi uvicorn streamlit rich pydantic".split()}


class Effects:
    """The effects of a program on its names, collections and objects, also by code that the source does not show.

    Attributes:
        changes: the number of changes so far.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self.changes = 0

    def assign(self, target: ast.AST, values: Values, scope: FlowScope) -> None:
        """Assigns values to a target."""
        match target:
            case ast.Name(id=name):
                where = scope_of(name, scope)
                self.changes += isinstance(where, FileScope) or where is not scope
                where.names[name] = labelled(values, name)
            case ast.Attribute():
                self._set_attribute(self._program.value(target.value, scope), target.attr, values)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                items = self._program.ordered_elements(values)
                fits = items is not None and len(items) == len(parts)
                for place, part in enumerate(parts):
                    item = items[place] if fits and items is not None else self._program.elements(values)
                    self.assign(part, item, scope)
            case ast.Starred(value=inner):
                self.assign(inner, UNKNOWN, scope)
            case ast.Subscript():
                self._set_item(target, values, scope)

    def _set_attribute(self, owners: Values, name: str, values: Values) -> None:
        self.changes += 1
        for owner in owners.known:
            if isinstance(owner, ModuleObject):
                self._set_in_module(owner, name, values)
            elif isinstance(owner, ProgramObject):
                self._set_one(owner.attributes, name, values, certain=len(owners.known) == 1)
            elif isinstance(owner, Class):
                self._set_one(self._program.names_of(owner), name, values, certain=len(owners.known) == 1)
            elif isinstance(owner, Function) and name == "__name__":
                before = self._program.renamed.get(id(owner), (owner, NOTHING))[1] if self._program.depth else NOTHING
                self._program.renamed[id(owner)] = owner, before | values

    def _set_one(self, held: dict[str, Values], name: str, values: Values, *, certain: bool) -> None:
        held[name] = (held.get(name, NOTHING) if self._program.depth or not certain else NOTHING) | values

    def set_by_name(self, arguments: Arguments) -> Values:
        """Evaluates `setattr(owner, name, value)`; an unknown name can be any attribute."""
        self.changes += 1
        owners, names, values = (arguments.values_of("", place) for place in range(3))
        if names.strings is None:
            self.open(owners.known)
        for name in names.strings or ():
            self._set_attribute(owners, name, values)
        return exactly(None)

    def _set_in_module(self, owner: ModuleObject, name: str, values: Values) -> None:
        if (module := owner.scope) is not None:
            before = module.get(name) or NOTHING
            module.names[name] = before | values

    def _set_item(self, target: ast.Subscript, values: Values, scope: FlowScope) -> None:
        """Executes `owner[key] = values`."""
        owners, key = self._program.value(target.value, scope), self._program.value(target.slice, scope)
        if isinstance(target.slice, ast.Slice):
            key, values = UNKNOWN, self._program.elements(values)
        for owner in owners.known:
            if isinstance(owner, Namespace):
                self._set_name(owner, key, values)
            elif (
                isinstance(owner, ProgramObject)
                and (method := self._program.member(owner.made_of, "__setitem__")) is not None
            ):
                self._program.call(method, Arguments((exactly(owner), key, values)))
        self.change(target.value, owners, lambda old: self._stored(old, key, values), scope)

    def _set_name(self, names: Namespace, key: Values, values: Values) -> None:
        if key.strings is None or len(key.strings) != 1 or not isinstance(names.of, FlowScope):
            names.open()
        else:
            self._set_one(names.of.names, next(iter(key.strings)), values, certain=True)

    # Collections.

    def change(self, held: ast.expr | None, owners: Values, change: Callable[[Collection], Any], scope: Any) -> None:
        """Changes the collections among some values, which an expression has in a scope."""
        changed = {id(owner): (owner, change(owner)) for owner in owners.known if isinstance(owner, Collection)}
        changed = {key: (old, self._next(old, new, len(changed))) for key, (old, new) in changed.items()}
        if not changed:
            return
        if isinstance(held, ast.Name) and isinstance(scope, FlowScope):
            where = scope if held.id in scope.names else None
            where = where or holder_of(held.id, scope, outermost=False) or scope_of(held.id, scope)
            new = (changed[id(owner)][1] if id(owner) in changed else owner for owner in owners.known)
            where.names[held.id] = Values(tuple(new), owners.complete)
        self._replace(changed, scope)

    def _next(self, old: Collection, new: Collection, count: int) -> Collection:
        """Returns the next content of a collection, and notes it for its other holders."""
        if new is old:
            return old
        origin = old.origin or ChangingCollection([old])
        if old.origin is None:
            object.__setattr__(old, "origin", origin)
        new = replace(new, origin=origin)
        certain = not self._program.depth and not self._program.rounds and count == 1
        contents = [new] if certain else [*origin.contents, new]
        if len(contents) > MOST_CONTENTS:
            contents = [replace(_merged(contents), origin=origin)]
        origin.contents = contents
        return new

    def _replace(self, changed: dict[int, tuple[Any, Any]], scope: object) -> None:
        """Replaces changed collections under their other names, in enclosing functions and in objects."""
        self.changes += 1
        self._program.budget.spend(
            sum(len(module.names) for module in self._program.modules) // _NAMES_AT_ONCE
            + len(self._program.objects) // _NAMES_AT_ONCE
        )
        own = scope.names if isinstance(scope, FlowScope) else {}
        for held in (
            own,
            *(scope.names for scope in self._program.scopes),
            *(module.names for module in self._program.modules),
        ):
            _replace_in(held, changed, both=bool(self._program.depth) and held is not own)
        for item in self._program.objects:
            _replace_in(item.attributes, changed, both=bool(self._program.depth))

    def open(self, known: Iterable[object], *, private: bool = True) -> None:
        """Allows for any changes of some objects and collections, or only of public attributes, by unseen code."""
        for value in known:
            if isinstance(value, Collection):
                self.change(None, exactly(value), lambda old: self._program.with_elements(old, [UNKNOWN]), None)
            elif isinstance(value, Namespace):
                value.open()
            elif isinstance(value, ProgramObject) and not isinstance(value, ModuleObject):
                value.leave_unfinished("", private=private)

    def _stored(self, old: Collection, key: Values, values: Values) -> Any:
        """Returns a collection with new values under a key."""
        pairs = self._program.pairs(old)
        if isinstance(old, Table) and pairs is not None:
            kept = [
                pair for pair in pairs if self._program.depth or key.strings is None or pair[0].strings != key.strings
            ]
            return Table((*kept, (key, values)))
        return self._program.with_elements(old, [values])

    def changed_by(self, target: object, arguments: Arguments) -> Values | None:
        """Evaluates a call that changes a collection, such as `add` after `add = names.append`; None for others."""
        path = getattr(target, "path", "")
        if isinstance(target, Attribute) and isinstance(target.owner, Collection) and target.name in CHANGES:
            return self.change_by_method(None, current(exactly(target.owner)), target.name, arguments, None)
        if path in _FUNCTIONS or (isinstance(target, _METHOD) and target.__name__ in CHANGES):
            name = _FUNCTIONS.get(path) or str(getattr(target, "__name__", ""))
            owners, rest = arguments.values_of("", 0), Arguments(arguments.positional[1:], arguments.keywords)
            self.change_by_method(None, owners, name, rest, None)
            return owners
        return None

    def change_by_method(
        self, held: ast.expr | None, owners: Values, method: str, arguments: Arguments, scope: NameScope | None
    ) -> Values:
        """Executes `names.append(x)` and the like."""
        if method in _SETS:
            return self._set_by_method(held, owners, method, arguments, scope)
        added = [*arguments.positional[-1:]] if method in _ONE else [*arguments.positional]
        first = method == "appendleft" or (len(arguments.positional) > 1 and arguments.positional[0].known == (0,))
        if arguments.open or REST in arguments.keywords:
            added.append(UNKNOWN)
        named = {name: keyword for name, keyword in arguments.keywords.items() if name != REST}
        if named and method == "update":
            added.append(exactly(Table(tuple((exactly(name), keyword) for name, keyword in named.items()))))
        elif named:
            added += named.values()
        for new in added:
            self.change(held, owners, lambda old, new=new: self._grown_by(old, method, new, first=first), scope)  # type: ignore[misc]
            owners = current(owners)
        return exactly(None)

    def _set_by_method(
        self, held: ast.expr | None, owners: Values, method: str, arguments: Arguments, scope: NameScope | None
    ) -> Values:
        key, values = arguments.values_of("", 0), arguments.get("", 1) or exactly(None)
        if method == "__setitem__":
            self.change(held, owners, lambda old: self._stored(old, key, values), scope)
            return exactly(None)
        existing = NOTHING
        for owner in owners.known:
            existing |= self._program.item(owner, key)
        if existing.known and key.strings and owners.complete:
            return existing
        self.change(
            held, owners, lambda old: Table((*old.items, (key, values))) if isinstance(old, Table) else old, scope
        )
        return existing | values

    def grows_from_unknown(self, held: ast.expr, values: Values, method: str, scope: FlowScope) -> None:
        """Adds an element to an unknown collection."""
        added = self._program.elements(values) if method in _SEVERAL else values
        created = Values((Sequence((added,), ordered=False),), complete=False)
        if isinstance(held, ast.Name) and held.id in scope.names:
            scope.names[held.id] = created
        elif isinstance(held, ast.Attribute):
            for owner in self._program.value(held.value, scope).known:
                if isinstance(owner, ObjectStub):
                    owner.attributes[held.attr] = created

    def _grown_by(self, old: Collection, method: str, values: Values, *, first: bool = False) -> Any:
        if isinstance(old, Table):
            pairs = [self._program.pairs(value) for value in values.known]
            if not values.complete or None in pairs:
                return Table((*old.items, (UNKNOWN, UNKNOWN)))
            added_pairs = [pair for some in pairs for pair in some or ()]
            return Table((*(self._kept(old, added_pairs) if len(pairs) == 1 else old.items), *added_pairs))
        is_single = method in _ONE
        added = [values] if is_single else self._program.ordered_elements(values)
        if added is None or self._program.rounds or (method == "insert" and not first):
            return self._program.with_elements(old, [values] if is_single else [self._program.elements(values)])
        return replace(old, items=(*added, *old.items) if first else (*old.items, *added))

    def _kept(self, old: Table, added: list[tuple[Values, Values]]) -> Iterator[tuple[Values, Values]]:
        """Yields the pairs of a dictionary that an update leaves."""
        keys = [key.strings for key, _ in added if key.strings and len(key.strings) == 1]
        return (pair for pair in old.items if self._program.depth or pair[0].strings not in keys)

    # Code that the source does not show.

    def of_unseen(self, target: object, arguments: Arguments, node: ast.Call, scope: NameScope) -> Values | None:
        """Evaluates a call that changes names or objects otherwise than by a statement; None for other calls."""
        path = path_of(target)
        if path in _NAMES:
            return self._namespace(path, arguments, scope)
        if target is setattr or path.endswith("object.__setattr__") or getattr(target, "__name__", "") == "__setattr__":
            return self.set_by_name(arguments)
        if path in _BY_NAME:
            return self._by_name(arguments, node, scope)
        if path == "importlib.reload":
            self.open(Namespace(value.scope) for value in arguments.values_of("", 0).known
                      if isinstance(value, ModuleObject) and value.scope is not None)  # fmt: skip
        if path in _CODE:
            self._run_code(arguments, node, scope)
        elif path in _PLUGINS:
            self._open_files(node, scope)
        if path in _COPIES:
            return self._copied(arguments)
        return self.changed_by(target, arguments)

    def _copied(self, arguments: Arguments) -> Values | None:
        first = arguments.values_of("", 0)
        if not first.known or not all(isinstance(value, ObjectStub) for value in first.known):
            return None
        return Values(tuple(copy_of(value, Arguments((), arguments.keywords)) for value in first.known), first.complete)

    def _namespace(self, path: str, arguments: Arguments, scope: NameScope) -> Values | None:
        owners = arguments.get("", 0) if path == "builtins.vars" else None
        if owners is not None:
            held = tuple(Namespace(value.scope if isinstance(value, ModuleObject) and value.scope else value)
                         for value in owners.known if isinstance(value, ProgramObject))  # fmt: skip
            return Values(held, complete=False)
        of = file_scope(scope) if path == "builtins.globals" else _flow(scope)
        return exactly(Namespace(of)) if of is not None else None

    def _by_name(self, arguments: Arguments, node: ast.Call, scope: NameScope) -> Values:
        """Evaluates an import by name; a computed one can be of any file of the program."""
        names = arguments.values_of("name", 0).strings
        if not names or any(name.startswith(".") for name in names):
            self._open_files(node, scope)
            return UNKNOWN
        modules = {name: self._program.modules.module(name, scope) for name in names}
        return Values(tuple(module or self._program.resolved_import(name).known[0] for name, module in modules.items()))

    def _open_files(self, node: ast.AST, scope: NameScope) -> None:
        """Allows for any changes of objects of imported files, and of collections, by plugins that are not known."""
        note = self._note_of("loads modules that the source does not determine", node, scope)
        self._program.modules.open()
        for item in (*self._program.objects, *self._program.graphs):
            if getattr(item, "file", str(self._program.file)) != str(self._program.file):
                item.leave_unfinished(note)
        for held in self._program.scopes:
            held.leave_unfinished()

    def open_all(self, node: ast.AST, scope: NameScope) -> None:
        """Allows for any changes of all names and objects."""
        note = self._note_of("runs code that is not in the source", node, scope)
        for item in (*self._program.objects, *self._program.graphs):
            item.leave_unfinished(note)
        for held in (*self._program.modules, *self._program.scopes):
            held.open_names()
            held.leave_unfinished()
        self.changes += 1

    def _run_code(self, arguments: Arguments, node: ast.AST, scope: NameScope) -> None:
        """Allows for the effects of code in a string: on the names that it is passed, or on all names."""
        own_names = [value for each in arguments.positional[1:] for value in each.known]
        if own_names and all(isinstance(name, Table) for name in own_names):
            held = (each for table in own_names for _, values in table.items for each in values.known)
            self.open([*own_names, *(value for value in held if not isinstance(value, Class))])
        else:
            self.open_all(node, scope)

    def _note_of(self, reason: str, node: ast.AST, scope: NameScope | None) -> str:
        where = os.path.relpath(
            self._program.current_file if scope is None else file_of(scope), self._program.file.parent
        )
        note = f"{where!r} line {getattr(node, 'lineno', 0)} {reason}"
        self._program.not_followed[note] = None
        return note

    # Callbacks, and objects that are passed to unknown code.

    def passed(self, callee: Values, arguments: Arguments, node: ast.Call) -> None:
        """Allows for the changes by a callee outside of the program: of its arguments, and by functions in them."""
        unknown = not callee.complete or any(isinstance(value, ImportedName) for value in callee.known)
        if not unknown and callee.known:
            return
        values = [value for each in (*arguments.positional, *arguments.keywords.values()) for value in each.known]
        for value in values:
            if isinstance(value, Function | PartialFunction):
                self.changes_later(value, Arguments(arguments.positional[:1], open=True))
            elif isinstance(value, Attribute):
                self.open([value.owner] if isinstance(value.owner, Sequence | Table) else [])
        named = bool(callee.known) or not isinstance(node.func, ast.Attribute)  # not a method of an unknown object
        if named and all(map(self._is_foreign_function, callee.known)):
            passed = [value for value in values if isinstance(value, Sequence | Table | ObjectStub | Namespace)]
            self.open(passed, private=False)
            graphs = {id(value) for value in values if getattr(value, "compiled_from", None) is None}
            for graph in [
                graph for graph in self._program.graphs if id(graph) in graphs
            ]:  # a compiled one cannot change
                graph.leave_unfinished(
                    self._note_of("passes a graph to code that the source does not show", node, None)
                )

    def _is_foreign_function(self, target: object) -> bool:
        """Whether a callee is a function of a package that is not known."""
        path = path_of(target)
        top, _, name = path.partition(".")[0], "", path.rpartition(".")[2]
        known = top in sys.stdlib_module_names or top in _HARMLESS or self._program.modules.is_framework(top)
        return bool(path) and not known and name[:1].islower()

    def changes_later(self, function: object, arguments: Arguments = Arguments(open=True)) -> None:  # noqa: B008 - frozen
        """Allows for the changes that a function makes whenever it may run, with some arguments that are known."""
        while isinstance(function, PartialFunction):
            known, function = function.arguments, function.function
            arguments = Arguments(known.positional, known.keywords, open=True)
        if not isinstance(function, Function):
            return
        changes = changes_of(function.tree)
        if not changes:
            return
        self.changes += 1
        scope = self._program.body_scope(function, arguments)
        with self._program.switched(executing=False):
            for change in changes.places:
                self._open_place(self._held(change.held, scope), change.name)
        file = file_scope(function.scope)
        for name in changes.names if file is not None else ():
            if file is not None and name in file.names:
                file.names[name] = Values(file.names[name].known, complete=False)

    def _held(self, node: ast.expr, scope: NameScope) -> Values:
        """Returns the values of an expression; of a name, those that it is bound to, before they change."""
        here: NameScope | None = scope if isinstance(node, ast.Name) else None
        while here is not None and isinstance(node, ast.Name):
            if bound := [binding for binding in here.find(node.id) if not binding.grows]:
                fresh = here is scope and all(
                    not binding.steps and self._makes_new(binding.source, scope) for binding in bound
                )
                return NOTHING if fresh else self._program.bound(bound, here)
            here = enclosing(here)
        return self._program.value(node, scope)

    def _makes_new(self, node: object, scope: NameScope) -> bool:
        """Whether an expression makes an object that nothing else holds: a display, or an object of a framework."""
        if not isinstance(node, ast.Call):
            return isinstance(node, ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp)
        called = self._program.value(node.func, scope) if isinstance(node.func, ast.Name) else UNKNOWN
        paths = [path_of(value) if isinstance(value, ImportedName) else "" for value in called.known]
        return called.complete and all(
            path.rpartition(".")[2][:1].isupper() and self._program.modules.is_framework(path.partition(".")[0])
            for path in paths
        )

    def _open_place(self, owners: Values, name: str) -> None:
        for owner in owners.known:
            if name and isinstance(owner, ProgramObject) and not isinstance(owner, ModuleObject):
                owner.attributes[name] = Values(owner.attributes.get(name, UNKNOWN).known, complete=False)
            elif name and isinstance(owner, ModuleObject) and owner.scope is not None and name in owner.scope.names:
                owner.scope.names[name] = Values(owner.scope.names[name].known, complete=False)
            elif isinstance(owner, Sequence | Table | Namespace):
                self.open([owner])


def scope_of(name: str, scope: FlowScope) -> FlowScope:
    """Returns the scope of an assignment: a global or nonlocal name belongs to another scope."""
    if name not in scope.outer:
        return scope
    return holder_of(name, scope, outermost=scope.outer[name]) or scope


def holder_of(name: str, scope: FlowScope, *, outermost: bool) -> FlowScope | None:
    """Returns the enclosing scope that has a name, or the outermost one."""
    flow_scope, here = None, scope.parent
    while isinstance(here, FlowScope):
        if outermost or name in here.names:
            flow_scope = here
            if not outermost:
                break
        here = here.parent
    return flow_scope


def _replace_in(held: dict[str, Values], changed: dict[int, tuple[Any, Any]], *, both: bool) -> None:
    """Replaces changed collections; with `both`, keeps the old ones as alternatives."""
    for name, values in list(held.items()):
        if isinstance(values, DeferredValues) and values.computed is None:
            continue
        if any(id(value) in changed for value in values.known):
            new = Values(tuple(changed[id(value)][1] if id(value) in changed else value for value in values.known))
            again = values | new if both else new
            held[name] = unordered(Values(again.known, values.complete, values.cyclic))


def unordered(values: Values) -> Values:
    """Returns one unordered collection for too many alternatives."""
    if len(values.known) <= MOST_CONTENTS or not all(isinstance(value, Sequence) for value in values.known):
        return values
    origins = {id(value.origin): value.origin for value in values.known}
    merged = replace(_merged(values.known), origin=next(iter(origins.values())) if len(origins) == 1 else None)
    return Values((merged,), values.complete, values.cyclic)


def _merged(contents: Iterable[Any]) -> Any:
    """Returns a collection with the elements of several."""
    several = list(contents)
    if isinstance(several[0], Table):
        pairs = {id(pair[1]): pair for table in several for pair in table.items}
        return Table(tuple(pairs.values()))
    items = {id(value): value for held in several for item in held.items for value in item.known}
    complete = all(item.complete for held in several for item in held.items)
    return Sequence((Values(tuple(items.values()), complete),), ordered=False)


def can_change(value: object) -> bool:
    """Whether a value is a collection, which a program can change."""
    return isinstance(value, Sequence | Table | list | dict | set)


def _flow(scope: NameScope | None) -> FlowScope | None:
    while scope is not None and not isinstance(scope, FlowScope):
        scope = scope.parent
    return scope


# --- changes by functions that are not followed


@dataclass(frozen=True)
class ChangedPlace:
    """A place that is changed.

    Attributes:
        held: the expression of the collection or object.
        name: the attribute of the object that is assigned; empty if the collection itself changes.
    """

    held: ast.expr
    name: str = ""


@dataclass(frozen=True)
class FunctionChanges:
    """The changes that a function makes.

    Attributes:
        places: collections and attributes.
        names: names of the file that it binds.
    """

    places: tuple[ChangedPlace, ...] = ()
    names: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.places or self.names)


@lru_cache(maxsize=4096)
def changes_of(tree: FunctionTree) -> FunctionChanges:
    """Returns what the code of a function changes, with the functions in it."""
    places: list[ChangedPlace] = []
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=held, attr=method)) if method in CHANGES:
                places.append(ChangedPlace(held))
            case ast.Call(func=ast.Name(id="setattr"), args=[held, ast.Constant(value=str(name)), _]):
                places.append(ChangedPlace(held, name))
            case ast.Attribute(value=held, attr=name, ctx=ast.Store()):
                places.append(ChangedPlace(held, name))
            case ast.Subscript(value=held, ctx=ast.Store()):
                places.append(ChangedPlace(held))
            case ast.AugAssign(target=ast.Name() | ast.Attribute() as target):
                places.append(ChangedPlace(_read(target)))
            case ast.Global(names=bound):
                names.update(bound)
    return FunctionChanges(tuple(places), frozenset(names))


def _read(target: ast.Name | ast.Attribute) -> ast.expr:
    if isinstance(target, ast.Name):
        return ast.copy_location(ast.Name(target.id, ast.Load()), target)
    return ast.copy_location(ast.Attribute(target.value, target.attr, ast.Load()), target)
