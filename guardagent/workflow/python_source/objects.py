"""Assigns names and attributes, and changes collections in place.

A collection in a `Sequence` or `Table` never changes; a change creates its next content, which replaces it under all
names and in all objects. Its other holders, such as an outer collection or a closure, still have the old content, so
`current` looks up the present ones (`ChangingCollection`).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from guardagent.workflow.python_source.modules import ProgramFiles
from guardagent.workflow.python_source.programs.budget import StepBudget
from guardagent.workflow.python_source.programs.scopes import FileScope, FlowScope, ModuleObject, ProgramObject
from guardagent.workflow.python_source.stubs import ObjectStub, ProgramEvaluator
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
    NameScope,
    Sequence,
    Stub,
    Table,
    Values,
    exactly,
    labelled,
)

_NAMES = 50  # in which a collection is replaced in one step
MOST_CONTENTS = 4  # alternatives of a collection, before it counts as unordered
_ONE = {"append", "add", "insert", "appendleft"}
_SEVERAL = {"extend", "update", "extendleft"}
_SETS = {"setdefault", "__setitem__"}
CHANGES = _ONE | _SEVERAL | _SETS
"""The methods that add to a collection. What others take out counts as still in it."""

_FUNCTIONS = {"operator.iadd": "extend", "operator.ior": "update", "operator.setitem": "__setitem__",
              "heapq.heappush": "append", "bisect.insort": "append"}  # fmt: skip
Collection = Sequence | Table
_METHOD = type(list.append)


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


class ChangingEvaluator(ProgramEvaluator):
    """Evaluates a program with its assignments and changes."""

    _budget: StepBudget
    _scopes: list[FlowScope]
    _modules: ProgramFiles
    _class_names: dict[int, dict[str, Values]]
    _changes: int

    def assign(self, target: ast.AST, values: Values, scope: FlowScope) -> None:
        """Assigns values to a target."""
        match target:
            case ast.Name(id=name):
                where = scope_of(name, scope)
                self._changes += isinstance(where, FileScope) or where is not scope
                where.names[name] = labelled(values, name)
            case ast.Attribute():
                self._set_attribute(self.value(target.value, scope), target.attr, values)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                items = self.ordered_elements(values)
                fits = items is not None and len(items) == len(parts)
                for place, part in enumerate(parts):
                    one = items[place] if fits and items is not None else self.elements(values)
                    self.assign(part, one, scope)
            case ast.Starred(value=inner):
                self.assign(inner, UNKNOWN, scope)
            case ast.Subscript():
                self._set_item(target, values, scope)

    def _set_attribute(self, owners: Values, name: str, values: Values) -> None:
        self._changes += 1
        for owner in owners.known:
            if isinstance(owner, ModuleObject):
                self._set_in_module(owner, name, values)
            elif isinstance(owner, ProgramObject):
                self._set_one(owner.attributes, name, values, certain=len(owners.known) == 1)
            elif isinstance(owner, Class):
                self._set_one(self._names_of(owner), name, values, certain=len(owners.known) == 1)
            elif isinstance(owner, Function) and name == "__name__":
                before = self.renamed.get(id(owner), (owner, NOTHING))[1] if self.depth else NOTHING
                self.renamed[id(owner)] = owner, before | values

    def _set_one(self, held: dict[str, Values], name: str, values: Values, *, certain: bool) -> None:
        held[name] = (held.get(name, NOTHING) if self.depth or not certain else NOTHING) | values

    def _names_of(self, made_of: Class) -> dict[str, Values]:
        """Returns the names of a class that the program changes."""
        return self._class_names.setdefault(id(made_of.tree), {})

    def set_by_name(self, arguments: Arguments) -> Values:
        """Evaluates `setattr(owner, name, value)`; an unknown name can be any attribute."""
        self._changes += 1
        owners, names, values = (arguments.get("", place) or UNKNOWN for place in range(3))
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
        owners, key = self.value(target.value, scope), self.value(target.slice, scope)
        if isinstance(target.slice, ast.Slice):
            key, values = UNKNOWN, self.elements(values)
        for one in owners.known:
            if isinstance(one, Namespace):
                self._set_name(one, key, values)
            elif isinstance(one, ProgramObject) and (method := self.member(one.made_of, "__setitem__")) is not None:
                self.call(method, Arguments((exactly(one), key, values)))
        self.change(target.value, owners, lambda old: self._stored(old, key, values), scope)

    def _set_name(self, names: Namespace, key: Values, values: Values) -> None:
        if key.strings is None or len(key.strings) != 1 or not isinstance(names.of, FlowScope):
            names.open()
        else:
            self._set_one(names.of.names, next(iter(key.strings)), values, certain=True)

    # Collections.

    def change(self, held: ast.expr | None, owners: Values, change: Callable[[Collection], Any], scope: Any) -> None:
        """Changes the collections among some values, which an expression has in a scope."""
        changed = {id(one): (one, change(one)) for one in owners.known if isinstance(one, Collection)}
        changed = {key: (old, self._next(old, new, len(changed))) for key, (old, new) in changed.items()}
        if not changed:
            return
        if isinstance(held, ast.Name) and isinstance(scope, FlowScope):
            where = scope if held.id in scope.names else None
            where = where or holder_of(held.id, scope, outermost=False) or scope_of(held.id, scope)
            new = (changed[id(one)][1] if id(one) in changed else one for one in owners.known)
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
        certain = not self.depth and not self.rounds and count == 1
        contents = [new] if certain else [*origin.contents, new]
        if len(contents) > MOST_CONTENTS:
            contents = [replace(_merged(contents), origin=origin)]
        origin.contents = contents
        return new

    def _replace(self, changed: dict[int, tuple[Any, Any]], scope: object) -> None:
        """Replaces changed collections under their other names, in enclosing functions and in objects."""
        self._changes += 1
        self._budget.spend(sum(len(one.names) for one in self._modules) // _NAMES + len(self.objects) // _NAMES)
        own = scope.names if isinstance(scope, FlowScope) else {}
        for held in (own, *(one.names for one in self._scopes), *(one.names for one in self._modules)):
            _replace_in(held, changed, both=bool(self.depth) and held is not own)
        for one in self.objects:
            _replace_in(one.attributes, changed, both=bool(self.depth))

    def current(self, values: Values, *, inner: bool = True) -> Values:
        """Returns values with the present contents of collections.

        Args:
            values: the values.
            inner: they come from another collection or object; a content that a name still has can be the present one.
        """
        if isinstance(values, DeferredValues) and values.computed is None:
            return values
        if not any(isinstance(one, Collection) and one.origin is not None for one in values.known):
            return values
        found: list[Any] = []
        for one in values.known:
            origin = one.origin if isinstance(one, Collection) else None
            known = origin is None or (not inner and any(each is one for each in origin.contents))
            found += [one] if known or origin is None else origin.contents
        return values if found == list(values.known) else NOTHING | Values(tuple(found), values.complete, values.cyclic)

    def open(self, known: Iterable[object]) -> None:
        """Allows for any changes of some objects and collections by code that is not followed."""
        for one in known:
            if isinstance(one, Collection):
                self.change(None, exactly(one), lambda old: self._with(old, [UNKNOWN]), None)
            elif isinstance(one, Namespace):
                one.open()
            elif isinstance(one, ProgramObject) and not isinstance(one, ModuleObject):
                one.leave_unfinished("")

    def _stored(self, old: Collection, key: Values, values: Values) -> Any:
        """Returns a collection with new values under a key."""
        pairs = self.pairs(old)
        if isinstance(old, Table) and pairs is not None:
            kept = [pair for pair in pairs if self.depth or key.strings is None or pair[0].strings != key.strings]
            return Table((*kept, (key, values)))
        return self._with(old, [values])

    def changed_by(self, target: object, arguments: Arguments) -> Values | None:
        """Evaluates a call that changes a collection, such as `add` after `add = names.append`; None for others."""
        path = getattr(target, "path", "")
        if isinstance(target, Attribute) and isinstance(target.owner, Collection) and target.name in CHANGES:
            return self.change_by_method(None, self.current(exactly(target.owner)), target.name, arguments, None)
        if path in _FUNCTIONS or (isinstance(target, _METHOD) and target.__name__ in CHANGES):
            name = _FUNCTIONS.get(path) or str(getattr(target, "__name__", ""))
            owners, rest = arguments.get("", 0) or UNKNOWN, Arguments(arguments.positional[1:], arguments.keywords)
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
        named = {name: one for name, one in arguments.keywords.items() if name != REST}
        if named and method == "update":
            added.append(exactly(Table(tuple((exactly(name), one) for name, one in named.items()))))
        elif named:
            added += named.values()
        for one in added:
            self.change(held, owners, lambda old, one=one: self._grown_by(old, method, one, first=first), scope)  # type: ignore[misc]
            owners = self.current(owners)
        return exactly(None)

    def _set_by_method(
        self, held: ast.expr | None, owners: Values, method: str, arguments: Arguments, scope: NameScope | None
    ) -> Values:
        key, values = arguments.get("", 0) or UNKNOWN, arguments.get("", 1) or exactly(None)
        if method == "__setitem__":
            self.change(held, owners, lambda old: self._stored(old, key, values), scope)
            return exactly(None)
        found = NOTHING
        for one in owners.known:
            found |= self.item(one, key)
        if found.known and key.strings and owners.complete:
            return found
        self.change(
            held, owners, lambda old: Table((*old.items, (key, values))) if isinstance(old, Table) else old, scope
        )
        return found | values

    def grows_from_unknown(self, held: ast.expr, values: Values, method: str, scope: FlowScope) -> None:
        """Adds an element to an unknown collection."""
        added = self.elements(values) if method in _SEVERAL else values
        created = Values((Sequence((added,), ordered=False),), complete=False)
        if isinstance(held, ast.Name) and held.id in scope.names:
            scope.names[held.id] = created
        elif isinstance(held, ast.Attribute):
            for owner in self.value(held.value, scope).known:
                if isinstance(owner, ObjectStub):
                    owner.attributes[held.attr] = created

    def _grown_by(self, old: Collection, method: str, values: Values, *, first: bool = False) -> Any:
        if isinstance(old, Table):
            pairs = [self.pairs(one) for one in values.known]
            if not values.complete or None in pairs:
                return Table((*old.items, (UNKNOWN, UNKNOWN)))
            added_pairs = [pair for some in pairs for pair in some or ()]
            return Table((*(self._kept(old, added_pairs) if len(pairs) == 1 else old.items), *added_pairs))
        one = method in _ONE
        added = [values] if one else self.ordered_elements(values)
        if added is None or self.rounds or (method == "insert" and not first):
            return self._with(old, [values] if one else [self.elements(values)])
        return replace(old, items=(*added, *old.items) if first else (*old.items, *added))

    def _kept(self, old: Table, added: list[tuple[Values, Values]]) -> Iterator[tuple[Values, Values]]:
        """Yields the pairs of a dictionary that an update leaves."""
        keys = [key.strings for key, _ in added if key.strings and len(key.strings) == 1]
        return (pair for pair in old.items if self.depth or pair[0].strings not in keys)


def scope_of(name: str, scope: FlowScope) -> FlowScope:
    """Returns the scope of an assignment: a global or nonlocal name belongs to another scope."""
    if name not in scope.outer:
        return scope
    return holder_of(name, scope, outermost=scope.outer[name]) or scope


def holder_of(name: str, scope: FlowScope, *, outermost: bool) -> FlowScope | None:
    """Returns the enclosing scope that has a name, or the outermost one."""
    found, here = None, scope.parent
    while isinstance(here, FlowScope):
        if outermost or name in here.names:
            found = here
            if not outermost:
                break
        here = here.parent
    return found


def _replace_in(held: dict[str, Values], changed: dict[int, tuple[Any, Any]], *, both: bool) -> None:
    """Replaces changed collections; with `both`, keeps the old ones as alternatives."""
    for name, values in list(held.items()):
        if isinstance(values, DeferredValues) and values.computed is None:
            continue
        if any(id(one) in changed for one in values.known):
            new = Values(tuple(changed[id(one)][1] if id(one) in changed else one for one in values.known))
            again = values | new if both else new
            held[name] = unordered(Values(again.known, values.complete, values.cyclic))


def unordered(values: Values) -> Values:
    """Returns one unordered collection for too many alternatives."""
    if len(values.known) <= MOST_CONTENTS or not all(isinstance(one, Sequence) for one in values.known):
        return values
    origins = {id(one.origin): one.origin for one in values.known}
    merged = replace(_merged(values.known), origin=next(iter(origins.values())) if len(origins) == 1 else None)
    return Values((merged,), values.complete, values.cyclic)


def _merged(contents: Iterable[Any]) -> Any:
    """Returns a collection with the elements of several."""
    several = list(contents)
    if isinstance(several[0], Table):
        pairs = {id(pair[1]): pair for one in several for pair in one.items}
        return Table(tuple(pairs.values()))
    items = {id(one): one for held in several for item in held.items for one in item.known}
    complete = all(item.complete for held in several for item in held.items)
    return Sequence((Values(tuple(items.values()), complete),), ordered=False)


def can_change(value: object) -> bool:
    """Whether a value is a collection, which a program can change."""
    return isinstance(value, Sequence | Table | list | dict | set)
