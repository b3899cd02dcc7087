"""Interprets a program abstractly, statement by statement, to find the calls of its framework.

Nothing is run. The interpreter takes every branch, and unrolls loops over known values. The reader of each framework
evaluates the calls of that framework: see `source_graph.py`.
"""

from __future__ import annotations

import ast
import contextlib
import os
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from guardagent.workflow.python_source.evaluation.scope import LiveScope
from guardagent.workflow.python_source.evaluation.values import (
    NOTHING,
    UNKNOWN,
    Arguments,
    Attribute,
    Binding,
    CallResult,
    Class,
    Function,
    ImportedName,
    NameScope,
    PartialFunction,
    Sequence,
    Table,
    Values,
    exactly,
    is_true,
    path_of,
)
from guardagent.workflow.python_source.programs import stubs
from guardagent.workflow.python_source.programs.scopes import FlowScope, ProgramObject
from guardagent.workflow.python_source.programs.stubs import ClassStub, ObjectStub, ProgramEvaluator

MOST_STEPS = 400_000
MOST_IN_ALL = 3_000_000  # including the steps of function summaries
MOST_DEEP = 15
MOST_ROUNDS = 200
_GROWS = {"append", "add", "extend", "update", "insert"}
MOST_LISTS = 4  # alternatives of a collection, before it counts as unordered
MOST_ABOVE = 6  # parent folders that are searched for packages of the program


class FrameworkReader(Protocol):
    """Evaluates the calls of one framework."""

    CONSTANTS: dict[str, object]
    PACKAGES: tuple[str, ...]

    def called(self, interpreter: Interpreter, target: object, arguments: Arguments, line: int) -> Values | None:
        """Applies a call and returns its value; None if it is not a call of the framework."""


class _BlockExit(Exception):  # noqa: N818 - no error
    """The rest of a block is unreachable."""


class _LoopContinue(_BlockExit):
    """The rest of a round of a loop is unreachable."""


class _LoopBreak(_BlockExit):
    """The rest of a loop is unreachable."""


class Interpreter(ProgramEvaluator):
    """Interprets one file, and the files of the same program that it imports.

    Attributes:
        executing: it executes statements; if not, it only evaluates expressions.
    """

    most_steps = MOST_STEPS

    def __init__(self, file: Path, readers: Iterable[FrameworkReader]) -> None:
        self.readers = tuple(readers)
        constants = {path: value for reader in self.readers for path, value in reader.CONSTANTS.items()}
        super().__init__(live=False, follow=lambda _function: False, constants=constants)
        self.file = Path(os.path.abspath(file))  # noqa: PTH100 - links stay as they are, as importing the file leaves them
        self.kinds = stubs.ClassStubs(kind for reader in self.readers for kind in getattr(reader, "KINDS", ()))
        self.converter = None
        self.current_file = self.file
        self.started = []
        self.objects = []
        self._scopes: list[FlowScope] = []
        self._star_imports: list[str] = []
        self._spent = 0
        self.rounds = []
        self.depth = 0
        self.executing = False
        self.wrapped = {}
        self._modules: dict[Path, FlowScope] = {}
        self._returns: list[Values] = []
        self._stack: list[ast.AST] = []
        self._certain = -1  # the depth at which a `break` certainly leaves the loop

    def run(self, tree: ast.Module) -> FlowScope:
        """Interprets a file, and returns its scope."""
        scope = FlowScope(tree, LiveScope({}), {"__name__": exactly("__main__")}, _package_of(self.file))
        self._modules[self.file] = scope
        self._execute(tree.body, scope)
        return scope

    def reset(self) -> None:
        self._spent += self._steps
        if self._spent < MOST_IN_ALL:  # beyond the limit, all evaluation stops
            super().reset()

    def _execute(self, body: list[ast.stmt], scope: FlowScope) -> None:
        before, self.executing = self.executing, True
        try:
            self._block(body, scope)
        except _BlockExit:
            pass
        finally:
            self.executing = before

    def run_function(self, function: object) -> Values:
        """Interprets a function of the file, and returns its values."""
        before, self.executing = self.executing, True
        try:
            return self.call(function, Arguments())
        finally:
            self.executing = before

    def make(self, made_of: Class) -> ProgramObject:
        """Constructs an object of a class of the file, with default arguments."""
        before, self.executing = self.executing, True
        try:
            return self._make(made_of, Arguments())
        finally:
            self.executing = before

    def call_function(self, function: Function, arguments: Arguments) -> Values:
        """Interprets the body of a function, and returns its values."""
        if self._stack.count(function.tree) > 1 or len(self._stack) > MOST_DEEP:
            return UNKNOWN
        if isinstance(function.tree, ast.Lambda):
            return self.value(function.tree.body, self.inside_flow(function, arguments))
        self._returns.append(NOTHING)
        self._stack.append(function.tree)
        certain, self._certain = self._certain, -1
        scope = self.inside_flow(function, arguments)
        self._scopes.append(scope)
        try:
            self._execute(function.tree.body, scope)
        finally:
            self._scopes.pop()
            self._stack.pop()
            self._certain = certain
        result = self._returns.pop()
        return result if result.known or not result.complete else exactly(None)

    def inside_flow(self, function: Function, arguments: Arguments) -> FlowScope:
        return FlowScope(function.tree, function.scope, dict(self.body_scope(function, arguments).parameters))

    def shown(self, value: object) -> object:
        """Returns a value as an extractor sees it."""
        return stubs.converter_of(self).convert(value)

    # Statements.

    def _block(self, body: Iterable[ast.stmt], scope: FlowScope) -> None:
        for statement in body:
            run = getattr(self, f"do_{type(statement).__name__.lower()}", None)
            if run is not None:
                run(statement, scope)

    def do_expr(self, node: ast.Expr, scope: FlowScope) -> None:
        if not self._changes_collection(node.value, scope):
            self.value(node.value, scope)

    def do_assign(self, node: ast.Assign, scope: FlowScope) -> None:
        values = self.value(node.value, scope)
        for target in node.targets:
            self.assign(target, values, scope)

    def do_annassign(self, node: ast.AnnAssign, scope: FlowScope) -> None:
        if node.value is not None:
            self.assign(node.target, self.value(node.value, scope), scope)

    def do_augassign(self, node: ast.AugAssign, scope: FlowScope) -> None:
        read = ast.copy_location(_loaded(node.target), node)
        result = self.value(ast.copy_location(ast.BinOp(read, node.op, node.value), node), scope)
        self.assign(node.target, result, scope)

    def do_functiondef(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: FlowScope) -> None:
        scope.names[node.name] = self.value(node, scope)

    do_asyncfunctiondef = do_functiondef

    def do_classdef(self, node: ast.ClassDef, scope: FlowScope) -> None:
        scope.names[node.name] = self.value(node, scope)

    def do_import(self, node: ast.Import, scope: FlowScope) -> None:
        for alias in node.names:
            path = alias.name if alias.asname else alias.name.partition(".")[0]
            own = self._own_module(path, scope)
            if own is not None and not alias.asname:
                self._submodules(own, alias.name.split(".")[1:], scope, path)
            scope.names[alias.asname or path] = exactly(own) if own is not None else self.resolved_import(path)

    def _own_module(self, path: str, scope: NameScope) -> ProgramObject | None:
        """Returns a module of the program as an object with its names."""
        top = path.partition(".")[0]
        if top in sys.stdlib_module_names or any(top in reader.PACKAGES for reader in self.readers):
            return None
        for file in self._files(path.split("."), 0, scope):
            if (module := self._module(file)) is not None:
                return _of_names(module)
        return None

    def _submodules(self, module: ProgramObject, parts: list[str], scope: NameScope, path: str) -> None:
        """Binds the submodule in `import a.b` as an attribute of `a`."""
        for part in parts:
            path = f"{path}.{part}"
            inner = self._own_module(path, scope)
            if inner is None:
                return
            module.attributes[part] = exactly(inner)
            module = inner

    def do_importfrom(self, node: ast.ImportFrom, scope: FlowScope) -> None:
        for alias in node.names:
            if alias.name == "*":
                self._import_all(node, scope)
                continue
            own = self._from_program(node, alias.name, scope)
            found = own if own is not None else self._importfrom(node, alias.asname or alias.name, _package(scope))
            scope.names[alias.asname or alias.name] = found

    def _import_all(self, node: ast.ImportFrom, scope: FlowScope) -> None:
        """Executes `from module import *`: binds the names of a file, or records a framework for unknown names."""
        for file in self._files((node.module or "").split(".") if node.module else [], node.level, scope):
            if (module := self._module(file)) is not None:
                scope.names |= {name: one for name, one in module.names.items() if not name.startswith("_")}
                return
        if node.module and any(node.module.partition(".")[0] in reader.PACKAGES for reader in self.readers):
            self._star_imports.append(node.module)

    def name(self, name: str, scope: NameScope | None) -> Values:
        found = super().name(name, scope)
        if found is UNKNOWN and self._star_imports and not _is_bound(name, scope):
            return self.resolved_import(f"{self._star_imports[-1]}.{name}")
        return found

    def do_return(self, node: ast.Return, scope: FlowScope) -> None:
        values = self.value(node.value, scope) if node.value is not None else exactly(None)
        if self._returns:
            self._returns[-1] |= values
        raise _BlockExit

    def do_raise(self, _node: ast.Raise, _scope: FlowScope) -> None:
        raise _BlockExit

    def do_if(self, node: ast.If, scope: FlowScope) -> None:
        test = self.value(node.test, scope)
        if _is_main(node.test):
            self._block(node.body, scope)
        elif test.complete and len(test.known) == 1 and not test.cyclic and is_true(test.known[0]) is not None:
            self._block(node.body if is_true(test.known[0]) else node.orelse, scope)
        else:
            self._branches([node.body, node.orelse], scope)

    def do_match(self, node: ast.Match, scope: FlowScope) -> None:
        self.value(node.subject, scope)
        self._branches([*(case.body for case in node.cases), []], scope)

    def _branches(self, bodies: list[list[ast.stmt]], scope: FlowScope) -> None:
        """Executes all branches from the same point, and joins them."""
        before = dict(scope.names)
        ends: list[dict[str, Values]] = []
        self.depth += 1
        for body in bodies:
            scope.names = dict(before)
            try:
                self._block(body, scope)
            except _BlockExit:
                continue
            ends.append(scope.names)
        self.depth -= 1
        scope.names = dict(before)
        if not ends:
            raise _BlockExit
        scope.names = dict(ends[0])
        for end in ends[1:]:
            scope.join(end)
        scope.names = {name: _unordered(values) for name, values in scope.names.items()}

    def do_for(self, node: ast.For | ast.AsyncFor, scope: FlowScope) -> None:
        values = self.value(node.iter, scope)
        items = self.ordered_elements(values)
        if items is not None and len(items) <= MOST_ROUNDS:
            self._each_round(node, items, scope)
            return
        self.assign(node.target, self.elements(values), scope)
        self._repeat([*node.body], scope)
        self._block(node.orelse, scope)

    do_asyncfor = do_for

    def _each_round(self, node: ast.For | ast.AsyncFor, items: list[Values], scope: FlowScope) -> None:
        """Executes a loop over known values round by round."""
        before, self._certain = self._certain, self.depth
        try:
            for item in items:
                self.assign(node.target, item, scope)
                with contextlib.suppress(_LoopContinue):
                    self._block(node.body, scope)
            self._block(node.orelse, scope)
        except _LoopBreak:
            pass
        finally:
            self._certain = before

    def do_while(self, node: ast.While, scope: FlowScope) -> None:
        self.value(node.test, scope)
        self._repeat(node.body, scope)

    def _repeat(self, body: list[ast.stmt], scope: FlowScope) -> None:
        """Executes a loop with an unknown number of rounds: zero, one or more."""
        before, self._certain = self._certain, -1
        self.rounds.append({})
        try:
            for _ in range(2):
                self._branches([body, []], scope)
        finally:
            self.rounds.pop()
            self._certain = before

    def do_break(self, _node: ast.Break, _scope: FlowScope) -> None:
        """Leaves a loop if that is certain; otherwise also executes the following code."""
        if self.depth == self._certain:
            raise _LoopBreak

    def do_continue(self, _node: ast.Continue, _scope: FlowScope) -> None:
        if self.depth == self._certain:
            raise _LoopContinue

    def do_try(self, node: ast.Try, scope: FlowScope) -> None:
        before = dict(scope.names)
        try:
            self._block([*node.body, *node.orelse], scope)
        except _BlockExit:
            self._block(node.finalbody, scope)
            raise
        after = dict(scope.names)
        self.depth += 1
        for handler in node.handlers:
            scope.names = {**before, **({handler.name: UNKNOWN} if handler.name else {})}
            try:
                self._block(handler.body, scope)
            except _BlockExit:
                continue
            scope.join(after)
            after = dict(scope.names)
        self.depth -= 1
        scope.names = after
        self._block(node.finalbody, scope)

    do_trystar = do_try

    def do_with(self, node: ast.With | ast.AsyncWith, scope: FlowScope) -> None:
        for item in node.items:
            values = self.value(item.context_expr, scope)
            if item.optional_vars is not None:
                same = all(isinstance(one, ObjectStub) and one.made_of is one.kind for one in values.known)
                self.assign(item.optional_vars, Values(values.known, values.complete and same), scope)
        self._block(node.body, scope)

    do_asyncwith = do_with

    # Names, attributes and collections.

    def assign(self, target: ast.AST, values: Values, scope: FlowScope) -> None:
        """Assigns values to a target."""
        match target:
            case ast.Name(id=name):
                _scope_of(name, scope).names[name] = values
            case ast.Attribute():
                self._set_attribute(target, values, scope)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                items = self.ordered_elements(values)
                fits = items is not None and len(items) == len(parts)
                for place, part in enumerate(parts):
                    one = items[place] if fits and items is not None else self.elements(values)
                    self.assign(part, one, scope)
            case ast.Starred(value=inner):
                self.assign(inner, UNKNOWN, scope)
            case ast.Subscript(value=ast.Name(id=name)):
                key = self.value(target.slice, scope)
                self._put(name, lambda old: self._stored(old, key, values), scope)

    def _set_attribute(self, target: ast.Attribute, values: Values, scope: FlowScope) -> None:
        for owner in self.value(target.value, scope).known:
            if isinstance(owner, ProgramObject):
                before = owner.attributes.get(target.attr, NOTHING) if self.depth else NOTHING
                owner.attributes[target.attr] = before | values

    def _put(self, name: str, change: Any, scope: FlowScope) -> None:
        where = scope if name in scope.names else _holder(name, scope, outermost=False) or _scope_of(name, scope)
        old = self.name(name, scope)
        changed = {id(one): (one, change(one)) for one in old.known}
        where.names[name] = Values(tuple(new for _, new in changed.values()), old.complete)
        self._replace(changed, scope)

    def _replace(self, changed: dict[int, tuple[object, object]], scope: FlowScope) -> None:
        """Replaces a changed collection under its other names, in enclosing functions and in objects."""
        for held in (scope.names, *(one.names for one in self._scopes), *(one.names for one in self._modules.values())):
            _replace_in(held, changed, both=bool(self.depth) and held is not scope.names)
        for one in self.objects:
            _replace_in(one.attributes, changed, both=bool(self.depth))

    def _stored(self, old: object, key: Values, values: Values) -> object:
        """Returns a collection with new values under a key."""
        pairs = self.pairs(old)
        if isinstance(old, Table) and pairs is not None:
            kept = [pair for pair in pairs if self.depth or key.strings is None or pair[0].strings != key.strings]
            return Table((*kept, (key, values)))
        return self._with(old, [values]) if isinstance(old, Sequence) else old

    def _changes_collection(self, node: ast.expr, scope: FlowScope) -> bool:
        """Executes `names.append(x)` and the like, for a collection in a name or an attribute."""
        match node:
            case ast.Call(func=ast.Attribute(value=held, attr=method), args=[*_, argument]) if method in _GROWS:
                pass
            case _:
                return False
        before = self.value(held, scope)
        if not before.known and not before.complete:
            return self._grows_from_unknown(held, self.value(argument, scope), method, scope)
        if not before.known or not all(isinstance(one, Sequence | Table) for one in before.known):
            return False
        values = self.value(argument, scope)
        first = len(node.args) > 1 and self.value(node.args[0], scope).known == (0,)
        if isinstance(held, ast.Name):
            self._put(held.id, lambda old: self._grown_by(old, method, values, first=first), scope)
        elif isinstance(held, ast.Attribute):
            for owner in self.value(held.value, scope).known:
                if isinstance(owner, ProgramObject):
                    old = self.attribute(owner, held.attr)
                    changed = {id(one): (one, self._grown_by(one, method, values, first=first)) for one in old.known}
                    owner.attributes.setdefault(held.attr, old)
                    self._replace(changed, scope)
        return True

    def _grows_from_unknown(self, held: ast.expr, values: Values, method: str, scope: FlowScope) -> bool:
        """Adds an element to an unknown collection."""
        added = self.elements(values) if method in {"extend", "update"} else values
        created = Values((Sequence((added,), ordered=False),), complete=False)
        if isinstance(held, ast.Name) and held.id in scope.names:
            scope.names[held.id] = created
        elif isinstance(held, ast.Attribute):
            for owner in self.value(held.value, scope).known:
                if isinstance(owner, ObjectStub):
                    owner.attributes[held.attr] = created
        return True

    def _grown_by(self, old: object, method: str, values: Values, *, first: bool = False) -> object:
        if isinstance(old, Table):
            pairs = [self.pairs(one) for one in values.known]
            if not values.complete or None in pairs:
                return Table((*old.items, (UNKNOWN, UNKNOWN)))
            return Table((*old.items, *(pair for some in pairs for pair in some or ())))
        assert isinstance(old, Sequence)
        one = method in {"append", "add", "insert"}
        added = [values] if one else self.ordered_elements(values)
        if added is None or self.rounds or (method == "insert" and not first):
            return self._with(old, [values] if one else [self.elements(values)])
        return replace(old, items=(*added, *old.items) if first else (*old.items, *added))

    # Expressions whose evaluation differs from that of the evaluator.

    def call(self, target: object, arguments: Arguments, line: int = 0) -> Values:
        for reader in self.readers:
            if (found := reader.called(self, target, arguments, line)) is not None:
                return found
        if self.executing and (found := self._of_framework(target, arguments, line)) is not None:
            return found
        if isinstance(target, ProgramObject):
            return self._call_object(target, arguments, line)
        if isinstance(target, Class) and not _is_declaration(target):
            return exactly(self._make(target, arguments, line))
        return super().call(target, arguments, line)

    def call_at(self, target: object, arguments: Arguments, node: ast.Call, scope: NameScope) -> Values:
        if self.executing:
            self.current_file = self._file_of(scope)
        return super().call_at(target, arguments, node, scope)

    def _of_framework(self, target: object, arguments: Arguments, line: int) -> Values | None:
        """Evaluates a call of a class of a framework, or of a method of its objects."""
        try:
            return self._call_framework(target, arguments, line)
        except (AttributeError, TypeError, ValueError, LookupError):  # the arguments do not fit the framework
            return UNKNOWN

    def _call_framework(self, target: object, arguments: Arguments, line: int) -> Values | None:
        if isinstance(target, Attribute) and isinstance(target.owner, ObjectStub):
            methods = [kind.methods[target.name] for kind in target.owner.kind.lineage if target.name in kind.methods]
            return methods[0](target.owner, arguments, line) if methods else None
        kind = stubs.kind_of(self, target)
        return exactly(stubs.make(self, kind, arguments, line)) if kind is not None else None

    def _call(self, node: ast.Call, scope: NameScope) -> Values:
        if self.executing and (found := self._of_super(node, scope)) is not None:
            return found
        return super()._call(node, scope)

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

    def return_values(self, function: Function, arguments: Arguments) -> Values:
        if self.executing:
            return self.call_function(function, arguments)
        return super().return_values(function, arguments)

    def _functiondef(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: NameScope) -> Values:
        return self._decorate(Function(node, scope, self._defaults(node.args, scope), str(self._file_of(scope))), node)

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
            and not any(one.callee.path.partition(".")[0] in reader.PACKAGES for reader in self.readers)
            for one in decorated.known
        )

    def _lambda(self, node: ast.Lambda, scope: NameScope) -> Values:
        return exactly(Function(node, scope, self._defaults(node.args, scope), str(self._file_of(scope))))

    def _defaults(self, spec: ast.arguments, scope: NameScope) -> dict[str, Values]:
        """Evaluates the defaults of a function at its definition."""
        ordered = [*spec.posonlyargs, *spec.args]
        pairs = [
            *zip(ordered[len(ordered) - len(spec.defaults) :], spec.defaults, strict=True),
            *zip(spec.kwonlyargs, spec.kw_defaults, strict=True),
        ]
        return {parameter.arg: self.value(one, scope) for parameter, one in pairs if one is not None}

    def _make(self, made_of: Class, arguments: Arguments, line: int = 0) -> ProgramObject:
        """Constructs an object of a class."""
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

    def _call_object(self, target: ProgramObject, arguments: Arguments, line: int) -> Values:
        method = self.member(target.made_of, "__call__")
        return self.call(method, _with_self(target, arguments), line) if method is not None else UNKNOWN

    def attribute(self, owner: object, name: str) -> Values:
        if not isinstance(owner, ProgramObject):
            return super().attribute(owner, name)
        if name in owner.attributes:
            return owner.attributes[name]
        found = self.declared_by_class(owner, name)
        if found is None:
            return exactly(Attribute(owner, name)) if isinstance(owner, ObjectStub) else UNKNOWN
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
        found = super().attribute(made_of, name)
        return found.known[0] if len(found.known) == 1 else None

    def _binop(self, node: ast.BinOp, scope: NameScope) -> Values:
        if isinstance(node.op, ast.BitOr | ast.BitAnd):
            left, right = self.value(node.left, scope), self.value(node.right, scope)
            for reader in self.readers:
                combined = getattr(reader, "piped" if isinstance(node.op, ast.BitOr) else "anded", None)
                if combined is not None and (found := combined(self, left, right)) is not None:
                    return found  # type: ignore[no-any-return]
        return super()._binop(node, scope)

    def _subscript(self, node: ast.Subscript, scope: NameScope) -> Values:
        owner = self.value(node.value, scope)
        if owner.known and all(isinstance(one, Class) or stubs.kind_of(self, one) for one in owner.known):
            return owner  # a class with its parameters, as in `Agent[Context]`
        return super()._subscript(node, scope)

    def _import_any(self, source: ast.Import | ast.ImportFrom, binding: Binding, scope: NameScope) -> Values:
        if isinstance(source, ast.ImportFrom):
            bound = str(binding.steps[0])
            name = next(alias.name for alias in source.names if (alias.asname or alias.name) == bound)
            if (own := self._from_program(source, name, scope)) is not None:
                return own
        return super()._import_any(source, binding, scope)

    # Other files of the same program.

    def _from_program(self, node: ast.ImportFrom, name: str, scope: NameScope) -> Values | None:
        """Returns the value of an import from another file of the program; None if there is no such file."""
        parts = (node.module or "").split(".") if node.module else []
        is_there = False
        for path in self._files(parts, node.level, scope):
            if (module := self._module(path)) is not None:
                is_there = True
                if (found := module.names.get(name) or self._submodule(path, name)) is not None:
                    return found
        is_framework = bool(parts) and not node.level and any(parts[0] in reader.PACKAGES for reader in self.readers)
        return UNKNOWN if is_there and not is_framework else None

    def _files(self, parts: list[str], level: int, scope: NameScope) -> Iterable[Path]:
        """Yields the files of the program that can be a module."""
        base = self._file_of(scope).parent
        for _ in range(max(level - 1, 0)):
            base = base.parent
        roots = [base] if level else [base, *list(base.parents)[:MOST_ABOVE]]
        for root in dict.fromkeys(roots):
            for path in (
                root.joinpath(*parts).with_suffix(".py") if parts else None,
                root.joinpath(*parts, "__init__.py"),
            ):
                if path is not None and path.is_file():
                    yield path

    def _submodule(self, path: Path, name: str) -> Values | None:
        """Returns a module of a package of the program; None if there is none."""
        if path.name != "__init__.py":
            return None
        inner = self._module(path.parent / f"{name}.py") or self._module(path.parent / name / "__init__.py")
        return None if inner is None else exactly(_of_names(inner))

    def _module(self, path: Path) -> FlowScope | None:
        """Returns the names of another file, which is interpreted once; None if it cannot be read."""
        if path in self._modules:
            return self._modules[path]
        try:
            tree = ast.parse(path.read_bytes())
        except (OSError, SyntaxError, ValueError, RecursionError):
            return None
        scope = self._modules[path] = FlowScope(
            tree, LiveScope({}), {"__name__": exactly(path.stem)}, _package_of(path)
        )
        returns, self._returns = self._returns, []
        self._execute(tree.body, scope)
        self._returns = returns
        return scope

    def _file_of(self, scope: NameScope | None) -> Path:
        """Returns the file of a scope."""
        while scope is not None and scope.parent is not None and not isinstance(scope.parent, LiveScope):
            scope = scope.parent
        return next((path for path, module in self._modules.items() if module is scope), self.file)


def _scope_of_decorator(decorator: ast.expr, function: Function, node: ast.AST) -> NameScope:
    """Returns the scope for a decorator; a decorator with the name of its method is not that method."""
    callee = decorator.func if isinstance(decorator, ast.Call) else decorator
    itself = isinstance(callee, ast.Name) and callee.id == getattr(node, "name", "")
    in_class = isinstance(getattr(function.scope, "tree", None), ast.ClassDef)
    return function.scope.parent or function.scope if itself and in_class else function.scope


def _with_self(first: object, arguments: Arguments) -> Arguments:
    """Returns arguments with an object before them."""
    return Arguments((exactly(first), *arguments.positional), arguments.keywords, arguments.open)


def _scope_of(name: str, scope: FlowScope) -> FlowScope:
    """Returns the scope of an assignment: a global or nonlocal name belongs to another scope."""
    for node in ast.walk(scope.tree):
        if isinstance(node, ast.Global | ast.Nonlocal) and name in node.names:
            return _holder(name, scope, outermost=isinstance(node, ast.Global)) or scope
    return scope


def _holder(name: str, scope: FlowScope, *, outermost: bool) -> FlowScope | None:
    found, here = None, scope.parent
    while isinstance(here, FlowScope):
        if outermost or name in here.names:
            found = here
            if not outermost:
                break
        here = here.parent
    return found


def _replace_in(held: dict[str, Values], changed: dict[int, tuple[object, object]], *, both: bool) -> None:
    """Replaces changed collections; with `both`, keeps the old ones as alternatives."""
    for name, values in list(held.items()):
        if any(id(one) in changed for one in values.known):
            new = Values(tuple(changed[id(one)][1] if id(one) in changed else one for one in values.known))
            again = values | new if both else new
            held[name] = _unordered(Values(again.known, values.complete, values.cyclic))


def _unordered(values: Values) -> Values:
    """Returns one unordered collection for too many alternatives."""
    if len(values.known) <= MOST_LISTS or not all(isinstance(one, Sequence) for one in values.known):
        return values
    items = {id(one): one for held in values.known for item in held.items for one in item.known}
    complete = all(item.complete for held in values.known for item in held.items)
    whole = Values(tuple(items.values()), complete)
    return Values((Sequence((whole,), ordered=False),), values.complete, values.cyclic)


def _of_names(module: FlowScope) -> ProgramObject:
    """Returns a module as an object that shares its names."""
    created = ProgramObject(None)
    created.attributes = module.names
    return created


def _is_bound(name: str, scope: NameScope | None) -> bool:
    while scope is not None:
        if scope.find(name):
            return True
        scope = scope.parent
    return False


def _method_around(scope: NameScope) -> Any:
    """Returns the scope of the method around a scope."""
    here: Any = scope
    while here is not None and not isinstance(getattr(here.parent, "tree", None), ast.ClassDef):
        here = here.parent
    return here


def _loaded(target: ast.expr) -> ast.expr:
    return ast.Name(target.id, ast.Load()) if isinstance(target, ast.Name) else target


def _is_main(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == "__name__"


def _is_declaration(made_of: Class) -> bool:
    """Whether a class only declares the fields of a dictionary or a tuple, or is an enumeration."""
    names = {getattr(base, "id", getattr(base, "attr", "")) for base in made_of.tree.bases}
    return bool(names & {"TypedDict", "Enum", "StrEnum", "NamedTuple", "MessagesState", "AgentState"})


def _fields(made_of: Class) -> list[str]:
    declared = [node.target for node in made_of.tree.body if isinstance(node, ast.AnnAssign)]
    return [target.id for target in declared if isinstance(target, ast.Name)]


def _package_of(path: Path) -> str:
    parts: list[str] = []
    folder = path.parent
    while (folder / "__init__.py").is_file() and folder.parent != folder:
        parts.insert(0, folder.name)
        folder = folder.parent
    return ".".join(parts)


def _package(scope: NameScope | None) -> str:
    while scope is not None and not (isinstance(scope, FlowScope) and isinstance(scope.tree, ast.Module)):
        scope = scope.parent
    return scope.package if isinstance(scope, FlowScope) else ""


__all__ = ["Attribute", "FrameworkReader", "ImportedName", "Interpreter"]
