"""Evaluates the objects of a program: names and attributes, collections that change, functions and classes.

A collection in a `Sequence` or `Table` never changes; a change creates its next content, which replaces it under all
names and in all objects. Its other holders, such as an outer collection or a closure, still have the old content, so
`current` looks up the present ones (`ChangingCollection`).

A function that the script does not call may still run later: as a handler, in a thread, as a special method.
`changes_of` finds what its code changes besides its local names, without following it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from guardagent.workflow.python_source import stubs
from guardagent.workflow.python_source.evaluator import underlying
from guardagent.workflow.python_source.modules import (
    FileScope,
    FlowScope,
    ModuleObject,
    ProgramFiles,
    ProgramObject,
    StepBudget,
)
from guardagent.workflow.python_source.scopes import CodeScope
from guardagent.workflow.python_source.stubs import ClassStub, ObjectStub, ProgramEvaluator
from guardagent.workflow.python_source.values import (
    NOTHING,
    REST,
    UNKNOWN,
    Arguments,
    Attribute,
    CallResult,
    ChangingCollection,
    Class,
    DeferredValues,
    Function,
    FunctionTree,
    ImportedName,
    NameScope,
    PartialFunction,
    Sequence,
    Stub,
    Table,
    Values,
    exactly,
    labelled,
    path_of,
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


# --- functions and classes


class ClassEvaluator(ChangingEvaluator):
    """Evaluates a program with its classes and functions."""

    executing: bool
    _functions: list[Function]  # that the program defines
    _classes: dict[int, Class]

    def call_function(self, function: Function, arguments: Arguments) -> Values:
        """Interprets the body of a function, and returns its values."""
        raise NotImplementedError

    def _of_framework(self, target: object, arguments: Arguments, line: int) -> Values | None:
        raise NotImplementedError

    def _file_of(self, scope: NameScope | None) -> Path:
        raise NotImplementedError

    def _of_super(self, node: ast.Call, scope: NameScope) -> Values | None:
        """Evaluates `super().method(...)`; returns None for other calls."""
        match node.func:
            case ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr=name):
                pass
            case _:
                return None
        where = _method_around(scope)
        if where is None or not isinstance(where.tree, ast.FunctionDef | ast.AsyncFunctionDef):
            return None
        spec = where.tree.args
        first = [*spec.posonlyargs, *spec.args][:1]
        owner = self.name(first[0].arg, where) if first else UNKNOWN
        return self._of_base(where.parent, owner, name, self.arguments(node, scope), node.lineno)

    def _of_base(self, around: Any, owner: Values, name: str, arguments: Arguments, line: int) -> Values | None:
        """Evaluates a call of an inherited method."""
        outside = around.parent or around
        bases = [one for base in around.tree.bases for one in self.value(base, outside).known]
        for base in bases:
            if isinstance(base, Class) and (method := self.member(base, name)) is not None:
                before = Arguments((owner, *arguments.positional), arguments.keywords, arguments.open)
                return self.call(method, before, line)
            own = isinstance(base, Class)
            kind = stubs.framework_kind(self, base) if own else stubs.kind_of(self, base)
            if kind is not None:
                return self._base_method(owner, kind, name, arguments, line)
        return exactly(None) if name == "__init__" else None

    def _base_method(self, owner: Values, kind: ClassStub, name: str, arguments: Arguments, line: int) -> Values:
        """Evaluates a call of a method of a framework's class by a class of the program."""
        result = exactly(None) if name == "__init__" else UNKNOWN
        for one in owner.known:
            if not isinstance(one, ObjectStub):
                continue
            if name == "__init__":
                stubs.construct(one, kind, arguments)
            elif (found := self._of_framework(Attribute(one, name), arguments, line)) is not None:
                result = found
        return result

    def _make(self, made_of: Class, arguments: Arguments, line: int = 0) -> ProgramObject:
        """Constructs an object of a class."""
        self._changes += 1
        framed = stubs.object_of(self, made_of, arguments, line)
        created = framed or ProgramObject(made_of)
        if framed is None and self.executing:
            self.objects.append(created)
        found = self.member(made_of, "__init__")
        if found is not None and isinstance(found, Function):
            self.call_function(found, _with_self(created, arguments))
        elif framed is not None:
            stubs.construct(framed, framed.kind, arguments)
        else:
            for place, name in enumerate(_fields(made_of)):
                if (argument := arguments.get(name, place)) is not None:
                    created.attributes[name] = argument
        for later in ("__post_init__", "model_post_init") if self.executing else ():
            if isinstance(method := self.member(made_of, later), Function):
                self.call_function(method, Arguments((exactly(created),), open=True))
        return created

    def call_target(self, target: object) -> object | None:
        if not isinstance(target, ProgramObject):
            return super().call_target(target)
        method = self.member(target.made_of, "__call__")
        return PartialFunction(method, Arguments((exactly(target),))) if isinstance(method, Function) else None

    def _call_object(self, target: ProgramObject, arguments: Arguments, line: int) -> Values:
        method = self.member(target.made_of, "__call__")
        return self.call(method, _with_self(target, arguments), line) if method is not None else UNKNOWN

    def attribute(self, owner: object, name: str) -> Values:
        if isinstance(owner, ModuleObject):
            return self._modules.attribute(owner.path, name) or UNKNOWN
        if name == "__name__" and isinstance(owner, Function | PartialFunction | Class):
            return self._name_of(owner)
        if isinstance(owner, Class):
            return self._of_class(owner, name)
        if name == "__dict__" and isinstance(owner, ProgramObject) and self.executing:
            return exactly(Namespace(owner))
        if not isinstance(owner, ProgramObject):
            return super().attribute(owner, name)
        if self.member(owner.made_of, "__getattribute__") is not None:
            return UNKNOWN
        if name in owner.attributes:
            return owner.attributes[name]
        found = self.declared_by_class(owner, name)
        if found is None:
            return exactly(Attribute(owner, name)) if isinstance(owner, ObjectStub) else UNKNOWN
        return found

    def _name_of(self, owner: object) -> Values:
        """Evaluates `function.__name__`, also of a method, a class or a wrapper."""
        inner = underlying(owner)[0]
        if id(inner) in self.renamed:
            return self.renamed[id(inner)][1]
        if isinstance(inner, Function) and (wrapped := self.wrapped.get(id(inner.tree))) is not None:
            return self._name_of(wrapped[0]) if len(wrapped) == 1 else UNKNOWN
        tree = inner.tree if isinstance(inner, Function | Class) else None
        return UNKNOWN if tree is None or isinstance(tree, ast.Lambda) else exactly(tree.name)

    def _of_class(self, owner: Class, name: str) -> Values:
        """Returns the values of a name of a class; its collections are one for all who read it."""
        held = self._class_names.get(id(owner.tree), {})
        if name in held:
            return self.current(held[name], inner=False)
        if not CodeScope(owner.tree, owner.scope).find(name):
            for base in stubs.bases_of(self, owner):
                if (
                    isinstance(base, Class)
                    and base.tree is not owner.tree
                    and (found := self._of_class(base, name)).known
                ):
                    return found
        found = super().attribute(owner, name)
        if self.executing and any(isinstance(one, Sequence | Table) for one in found.known):
            self._names_of(owner)[name] = found
        return found

    def declared_by_class(self, owner: ProgramObject, name: str) -> Values | None:
        """Returns the value of an attribute by the class of an object; None if the class does not define it."""
        found = self.member(owner.made_of, name)
        if found is None:
            return None
        if isinstance(found, CallResult):
            return self._of_decorated(owner, found)
        return exactly(PartialFunction(found, Arguments((exactly(owner),))) if isinstance(found, Function) else found)

    def _of_decorated(self, owner: ProgramObject, found: CallResult) -> Values:
        """Evaluates a member that is a property, a static method or the like."""
        how = path_of(found.callee).rpartition(".")[2]
        inner = found.arguments.get("", 0) or UNKNOWN
        if how in {"property", "cached_property"}:
            results = [self.call(one, _with_self(owner, Arguments())) for one in inner.known]
            return results[0] if len(results) == 1 else UNKNOWN
        if how == "classmethod":
            first = Arguments((exactly(owner.made_of),))
            return Values(tuple(PartialFunction(one, first) for one in inner.known), inner.complete)
        return inner if how == "staticmethod" else exactly(found)

    def member(self, made_of: object, name: str) -> object | None:
        """Returns the member of a class or its base classes; None if it is not unique."""
        if not isinstance(made_of, Class):
            return None
        found = self._of_class(made_of, name)
        return found.known[0] if len(found.known) == 1 else None

    def _subscript(self, node: ast.Subscript, scope: NameScope) -> Values:
        owner = self.value(node.value, scope)
        if owner.known and all(isinstance(one, Class) or stubs.kind_of(self, one) for one in owner.known):
            return owner  # a class with its parameters, as in `Agent[Context]`
        return super()._subscript(node, scope)

    def _functiondef(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: NameScope) -> Values:
        function = Function(node, scope, self._defaults(node.args, scope), str(self._file_of(scope)))
        if self.executing:
            self._functions.append(function)
        return self._decorate(function, node)

    _asyncfunctiondef = _functiondef

    def _decorate(self, function: Function, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Values:
        result = exactly(function)
        for decorator in reversed(node.decorator_list):
            where = _scope_of_decorator(decorator, function, node)
            decorated = self._decorated(self.value(decorator, where), result, node)
            result = result if self._is_foreign(decorated) else decorated
        return result

    def _is_foreign(self, decorated: Values) -> bool:
        """Whether a decorator is not from a known framework, so it counts as leaving the function unchanged."""
        return any(
            isinstance(one, CallResult)
            and isinstance(one.callee, ImportedName)
            and not self._modules.is_framework(one.callee.path.partition(".")[0])
            for one in decorated.known
        )

    def _namedexpr(self, node: ast.NamedExpr, scope: NameScope) -> Values:
        values = self.value(node.value, scope)
        if self.executing and isinstance(scope, FlowScope):
            self.assign(node.target, values, scope)
        return values

    def _lambda(self, node: ast.Lambda, scope: NameScope) -> Values:
        function = Function(node, scope, self._defaults(node.args, scope), str(self._file_of(scope)))
        if self.executing:
            self._functions.append(function)
        return exactly(function)

    def _classdef(self, node: ast.ClassDef, scope: NameScope) -> Values:
        made = Class(node, scope)
        if self.executing:
            self._classes[id(node)] = made
        return exactly(made)

    def _defaults(self, spec: ast.arguments, scope: NameScope) -> dict[str, Values]:
        """Evaluates the defaults of a function at its definition."""
        ordered = [*spec.posonlyargs, *spec.args]
        pairs = [
            *zip(ordered[len(ordered) - len(spec.defaults) :], spec.defaults, strict=True),
            *zip(spec.kwonlyargs, spec.kw_defaults, strict=True),
        ]
        return {parameter.arg: self.value(one, scope) for parameter, one in pairs if one is not None}


def _scope_of_decorator(decorator: ast.expr, function: Function, node: ast.AST) -> NameScope:
    """Returns the scope for a decorator; a decorator with the name of its method is not that method."""
    callee = decorator.func if isinstance(decorator, ast.Call) else decorator
    itself = isinstance(callee, ast.Name) and callee.id == getattr(node, "name", "")
    in_class = isinstance(getattr(function.scope, "tree", None), ast.ClassDef)
    return function.scope.parent or function.scope if itself and in_class else function.scope


def unseen_arguments(function: object) -> Arguments:
    """Returns the arguments of a call that is not seen: a parameter that is empty by default can be anything."""
    while isinstance(function, PartialFunction):
        function = function.function
    if not isinstance(function, Function):
        return Arguments()
    spec = function.tree.args
    empty = {name: one | UNKNOWN for name, one in (function.defaults or {}).items() if _is_empty(one)}
    return Arguments((), empty, open=spec.vararg is not None or spec.kwarg is not None)


def _is_empty(default: Values) -> bool:
    return any(one is None or (isinstance(one, Sequence | Table) and not one.items) for one in default.known)


def _with_self(first: object, arguments: Arguments) -> Arguments:
    """Returns arguments with an object before them."""
    return Arguments((exactly(first), *arguments.positional), arguments.keywords, arguments.open)


def _method_around(scope: NameScope) -> Any:
    """Returns the scope of the method around a scope."""
    here: Any = scope
    while here is not None and not isinstance(getattr(here.parent, "tree", None), ast.ClassDef):
        here = here.parent
    return here


def _fields(made_of: Class) -> list[str]:
    declared = [node.target for node in made_of.tree.body if isinstance(node, ast.AnnAssign)]
    return [target.id for target in declared if isinstance(target, ast.Name)]


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
