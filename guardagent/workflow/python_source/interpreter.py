"""Interprets a program abstractly, statement by statement, to find the calls of its framework.

Nothing is run. The interpreter takes every branch, and unrolls loops over known values (`statements.py`). It evaluates
the objects, classes and functions of the program; their changes are in `effects.py`. The reader of each framework
evaluates the calls of that framework: see `source_graphs.py`.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Set as AbstractSet
from pathlib import Path
from types import ModuleType
from typing import Any

from guardagent.workflow.extraction import FRAMEWORKS, SOURCES
from guardagent.workflow.python_source import modules, stubs
from guardagent.workflow.python_source.effects import CHANGES, Effects, can_change
from guardagent.workflow.python_source.evaluator import defaults_of, underlying
from guardagent.workflow.python_source.scopes import CodeScope, alias_of, imported_packages
from guardagent.workflow.python_source.statements import BlockExit, Statements
from guardagent.workflow.python_source.stubs import ClassStub, ObjectStub, Program
from guardagent.workflow.python_source.types import bases_of, fields_of
from guardagent.workflow.python_source.values import (
    NOTHING,
    UNKNOWN,
    Arguments,
    Attribute,
    Binding,
    CallResult,
    Class,
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
    function_in,
    labelled,
    path_of,
)

_CHARACTERS = 40  # of source that cost one step to parse
_FOR_OPENING = 20  # steps for finding a file
_AT_ONCE = 256  # steps that are taken from the budget at a time
_FOR_STATEMENT = modules.Share(50_000, most=150_000, seconds=1.0, until=2.0)  # one at the top of the file
_FOR_OTHERS = modules.Share(10_000, most=180_000, seconds=0.3, until=2.3)  # what a function changes that may run later
_FOR_FUNCTION = modules.Share(30_000, most=200_000, seconds=0.5, until=2.5)  # one that may return a workflow
_FOR_SUMMARY = modules.Share(20_000, most=400_000, seconds=0.5, until=3.0)
_FOR_ORDER = modules.Share(5_000, most=500_000, seconds=0.3, until=4.0)  # a statement of an agent's own code
MOST_REMEMBERED = 2_000  # results of functions
MOST_DEEP = 15
_ATTACHES = re.compile(r"guardagent\.frameworks\.(?!python\b)(.+\.)?guarded")  # each returns the guarded agent
_NOT_COMBINED = (type, Table, dict, set, int)  # whose operators are not of a framework


class Interpreter(Program):
    """Interprets one file, and the files of the same program that it imports."""

    most_steps = _AT_ONCE

    def __init__(self, file: Path) -> None:
        super().__init__(file)
        self._frameworks = {name: framework for name, framework in FRAMEWORKS.load_all() if framework.PACKAGES}
        self._unread = {package for framework in self._frameworks.values() for package in framework.PACKAGES}
        self._loaded: dict[str, ModuleType] = {}
        shared = (module for framework in self._frameworks.values() for module in framework.OBJECTS if "." in module)
        self.modules = modules.ProgramFiles(self._read, self._run_file, self._unread, shared)
        self.effects = Effects(self)
        self._statements = Statements(self, self.effects, self._end)
        self._stack: list[ast.AST] = []
        self._since = 0, 0  # the objects and graphs before the part of the program that is being followed
        self._ended = False
        self._results: dict[object, tuple[Values, object]] = {}
        self._functions: list[Function] = []  # that the program defines
        self._classes: dict[int, Class] = {}
        self._called: set[int] = set()

    def load_readers(self, packages: AbstractSet[str]) -> None:
        """Loads the readers of the frameworks that have one of some top packages."""
        fresh = self._unread & packages
        if not fresh:
            return
        self._unread -= fresh
        for name, framework in self._frameworks.items():
            if name not in self._loaded and not fresh.isdisjoint(framework.PACKAGES):
                reader = self._loaded[name] = SOURCES.load(name)
                self.constants.update(getattr(reader, "CONSTANTS", {}))
                self.kinds.add(getattr(reader, "KINDS", ()))
        self.readers = tuple(self._loaded[name] for name in self._frameworks if name in self._loaded)

    def reader_of(self, value: object) -> ModuleType | None:
        """Returns the reader for a workflow; None for other values."""
        return next((reader for reader in self.readers if reader.is_workflow(value)), None)

    def workflow_of(self, value: object) -> object | None:
        """Returns a workflow, or the one that a value only runs; None for other values."""
        reader = self.reader_of(value)
        if reader is None:
            return None
        return reader.unwrapped(value) if hasattr(reader, "unwrapped") else value

    def run(self, tree: ast.Module) -> modules.FileScope:
        """Interprets a file, and returns its scope."""
        self.load_readers(set(imported_packages(tree)))
        scope = self.modules.main(self.file, tree)
        for statement in tree.body:
            self._allow(_FOR_STATEMENT)
            self._since = 0, 0
            self._execute([statement], scope)
        self._allow_for_others()
        return scope

    def _allow_for_others(self) -> None:
        """Allows for the changes by functions that the script has not called: they may run later."""
        for function in [function for function in self._functions if id(function.tree) not in self._called]:
            self._allow_for(function)
        for made_of in list(self._classes.values()):
            objects = Values(tuple(item for item in self.objects if item.made_of is made_of))
            for node in made_of.tree.body:
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and id(node) not in self._called:
                    owner = exactly(made_of) if _is_of_class(node) else objects
                    method = Function(node, CodeScope(made_of.tree, made_of.scope))
                    self._allow_for(method, Arguments((owner,), open=True))

    def _allow_for(self, function: Function, arguments: Arguments = Arguments(open=True)) -> None:  # noqa: B008 - frozen
        self._allow(_FOR_OTHERS)
        self._since = 0, 0
        self.effects.changes_later(function, arguments)

    def _allow(self, share: modules.Share) -> None:
        """Allows a share of the budget for the next part of the program."""
        if self.budget.allow(share):
            self._since, self._ended = (len(self.objects), len(self.graphs)), False

    def reset(self) -> None:
        self.is_cut_short = False
        self.evaluated.clear()
        self._allow(_FOR_SUMMARY)

    @property
    def exhausted(self) -> bool:
        return not self.budget.left

    @property
    def keeps_values(self) -> bool:
        return not self.executing  # a statement can change them

    def resume(self) -> None:
        self._allow(_FOR_ORDER)

    def more_steps(self, node: ast.AST | None, scope: NameScope) -> bool:
        if self.budget.spend(_AT_ONCE):
            self.most_steps = self._steps + _AT_ONCE
            return True
        self._end(modules.file_of(scope), getattr(node, "lineno", 0))
        return False

    def _read(self, path: Path) -> ast.Module | None:
        """Parses a file, if the budget allows that; returns None if it cannot be read."""
        try:
            source = path.read_bytes()
            if not self.budget.spend(_FOR_OPENING + len(source) // _CHARACTERS):
                self._end(path, 1)
                return None
            tree = ast.parse(source)
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            return None
        self.load_readers(set(imported_packages(tree)))
        return tree

    def _end(self, file: Path, line: int) -> None:
        """Notes where the budget ended; the objects of this part of the program may have any further values."""
        if self._ended or not line:
            return
        self._ended = True
        where = os.path.relpath(file, self.file.parent)
        note = f"not followed further: the budget ended in {where!r} line {line}"
        self.not_followed[note] = None
        for item in (*self.objects[self._since[0] :], *self.graphs[self._since[1] :]):
            item.leave_unfinished(note)
        for scope in (*self.modules, *self.scopes):
            scope.leave_unfinished()

    def _run_file(self, scope: modules.FileScope, statements: list[ast.stmt]) -> None:
        """Interprets statements of an imported file, independent of the place of its import."""
        kept = self.depth, self.rounds, self._stack, self._statements, self.current_file
        self.depth, self.rounds, self._stack, self._statements = 0, [], [], Statements(self, self.effects, self._end)
        try:
            self._execute(statements, scope)
        finally:
            self.depth, self.rounds, self._stack, self._statements, self.current_file = kept

    def _execute(self, body: list[ast.stmt], scope: modules.FlowScope) -> None:
        self.evaluated.clear()
        try:
            with self.switched(executing=True):
                self._statements.run(body, scope)
        except BlockExit:
            pass
        finally:
            self.evaluated.clear()

    def run_function(self, function: object) -> Values:
        """Interprets a function of the file, and returns its values."""
        self._allow(_FOR_FUNCTION)
        with self.switched(executing=True):
            return self.call(function, unseen_arguments(function))

    def read_attribute(self, owner: object, name: str) -> Values:
        """Returns the values of an attribute of an object; interprets a property."""
        self._allow(_FOR_FUNCTION)
        with self.switched(executing=True):
            return self.attribute(owner, name)

    def make(self, made_of: Class) -> modules.ProgramObject:
        """Constructs an object of a class of the file, by a call that is not seen."""
        self._allow(_FOR_FUNCTION)
        with self.switched(executing=True):
            return self._make(made_of, unseen_arguments(self.member(made_of, "__init__")))

    def call_function(self, function: Function, arguments: Arguments) -> Values:
        """Interprets the body of a function, and returns its values."""
        if self._stack.count(function.tree) > 1 or len(self._stack) > MOST_DEEP:
            self.left_aside += 1
            self.effects.changes_later(function, arguments)
            return UNKNOWN
        if isinstance(function.tree, ast.Lambda):
            self._called.add(id(function.tree))
            return self.value(function.tree.body, self.inside_flow(function, arguments))
        key = id(function.tree), id(function.scope), arguments.signature, self.effects.changes
        if key in self._results:
            return self._results[key][0]
        before = self.effects.changes, self.left_aside
        result = self._run_body(function, arguments)
        if (self.effects.changes, self.left_aside) == before and not any(map(can_change, result.known)):
            if len(self._results) >= MOST_REMEMBERED:
                self._results.clear()
            self._results[key] = result, (function, arguments)  # which keeps the objects alive that the key identifies
        return result

    def _run_body(self, function: Function, arguments: Arguments) -> Values:
        assert not isinstance(function.tree, ast.Lambda)
        self._called.add(id(function.tree))
        self._statements.returns.append(NOTHING)
        self._stack.append(function.tree)
        certain, self._statements.certain = self._statements.certain, -1
        scope = self.inside_flow(function, arguments)
        self.scopes.append(scope)
        try:
            self._execute(function.tree.body, scope)
        finally:
            self.scopes.pop()
            self._stack.pop()
            self._statements.certain = certain
        result = self._statements.returns.pop()
        return result if result.known or not result.complete else exactly(None)

    def inside_flow(self, function: Function, arguments: Arguments) -> modules.FlowScope:
        parameters = self.body_scope(function, arguments).parameters.items()
        return modules.FlowScope(
            function.tree, function.scope, {name: labelled(parameter, name) for name, parameter in parameters}
        )

    def value(self, node: ast.AST | None, scope: NameScope) -> Values:
        values = super().value(node, scope)
        if not self.effects.changes:
            return values
        return current(values, inner=not isinstance(node, ast.Name | ast.Attribute))

    def name(self, name: str, scope: NameScope | None) -> Values:
        resolved = super().name(name, scope)
        if resolved is UNKNOWN and self.starred and not _is_bound(name, scope):
            return self.resolved_import(f"{self.starred[-1]}.{name}")
        return resolved

    def call(self, target: object, arguments: Arguments, line: int = 0) -> Values:
        if (made := self._called_by_reader(target, arguments, line)) is not None:
            self.effects.changes += 1
            return made
        if self.executing and (values := self._of_framework(target, arguments, line)) is not None:
            return values
        if self.executing and (values := self.effects.changed_by(target, arguments)) is not None:
            return values
        if isinstance(target, modules.ProgramObject):
            return self._call_object(target, arguments, line)
        if isinstance(target, Class) and not _is_declaration(target):
            return exactly(self._make(target, arguments, line))
        return super().call(target, arguments, line)

    def _called_by_reader(self, target: object, arguments: Arguments, line: int) -> Values | None:
        """Evaluates a call of a framework, or of a decorator that its functions can have; None for other calls."""
        for reader in self.readers:
            made: Values | None = reader.called(self, target, arguments, line)
            if made is not None:
                return made
        first = arguments.get("", 0) or NOTHING
        if isinstance(target, ImportedName) and _ATTACHES.fullmatch(target.path) and first.known:
            return first
        if target is staticmethod and any(isinstance(value, ObjectStub) for value in first.known):
            return first
        if isinstance(target, CallResult) and path_of(target.callee) == "functools.wraps" and first.known:
            if isinstance(inner := underlying(first.known[0])[0], Function):
                self.wrapped[id(inner.tree)] = target.arguments.values_of("", 0).known
            return first if isinstance(first.known[0], Function | PartialFunction) else None
        return None

    def call_at(self, target: object, arguments: Arguments, node: ast.Call, scope: NameScope) -> Values:
        if self.executing:
            self.current_file, self.current_call = self._file_of(scope), node
            if (values := self.effects.of_unseen(target, arguments, node, scope)) is not None:
                return values
            if isinstance(target, ImportedName):
                self.effects.passed(exactly(target), arguments, node)
        return super().call_at(target, arguments, node, scope)

    def _of_framework(self, target: object, arguments: Arguments, line: int) -> Values | None:
        """Evaluates a call of a class of a framework, or of a method of its objects."""
        try:
            return self._call_framework(target, arguments, line)
        except (AttributeError, TypeError, ValueError, LookupError):  # the arguments do not fit the framework
            return UNKNOWN

    def _call_framework(self, target: object, arguments: Arguments, line: int) -> Values | None:
        self.effects.changes += isinstance(target, Attribute | ClassStub)
        if isinstance(target, Attribute) and isinstance(target.owner, ObjectStub):
            methods = [kind.methods[target.name] for kind in target.owner.kind.lineage if target.name in kind.methods]
            return methods[0](target.owner, arguments, line) if methods else None
        kind = stubs.kind_of(self, target)
        if kind is None:
            return None
        self.effects.changes += 1
        return exactly(stubs.make(self, kind, arguments, line))

    def called(self, callee: Values, node: ast.Call, scope: NameScope) -> Values:
        if self.executing and not callee.known:
            self.effects.passed(callee, self.arguments(node, scope), node)
        return super().called(callee, node, scope)

    def _call(self, node: ast.Call, scope: NameScope) -> Values:
        if self.executing and (values := self._of_super(node, scope)) is not None:
            return values
        if self.executing and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES:
            return self._call_change(node.func, node, scope)
        return super()._call(node, scope)

    def _call_change(self, called: ast.Attribute, node: ast.Call, scope: NameScope) -> Values:
        """Evaluates `names.append(x)` and the like, of a collection or of another object."""
        owners = self.value(called.value, scope)
        if not owners.known and not owners.complete and node.args and isinstance(scope, modules.FlowScope):
            self.effects.grows_from_unknown(called.value, self.value(node.args[-1], scope), called.attr, scope)
        self.effects.open(owner for owner in owners.known if isinstance(owner, modules.Namespace))
        kept = [owner for owner in owners.known if not isinstance(owner, Sequence | Table)]
        result = NOTHING
        if len(kept) < len(owners.known):
            result = self.effects.change_by_method(
                called.value, owners, called.attr, self.arguments(node, scope), scope
            )
        if not kept and owners.known:
            return Values(result.known, result.complete and owners.complete)
        others = Values(tuple(kept), owners.complete, owners.cyclic)
        return result | self.called(self.attributes_of(others, called.attr), node, scope)

    def return_values(self, function: Function, arguments: Arguments) -> Values:
        if self.executing:
            return self.call_function(function, arguments)
        return super().return_values(function, arguments)

    def _binop(self, node: ast.BinOp, scope: NameScope) -> Values:
        if isinstance(node.op, ast.BitOr | ast.BitAnd):
            left, right = self.value(node.left, scope), self.value(node.right, scope)
            both = (*left.known, *right.known)
            if both and not any(isinstance(value, _NOT_COMBINED) for value in both):
                name = "piped" if isinstance(node.op, ast.BitOr) else "anded"
                if (combined := self._combined(name, left, right)) is not None:
                    return combined
        return super()._binop(node, scope)

    def _combined(self, name: str, left: Values, right: Values) -> Values | None:
        """Evaluates `a | b` or `a & b` of objects of a framework; of other objects, by any reader."""
        for packages in (frozenset[str](), self.modules.packages):
            self.load_readers(packages)
            for combine in (getattr(reader, name) for reader in self.readers if hasattr(reader, name)):
                combined: Values | None = combine(self, left, right)
                if combined is not None:
                    return combined
        return None

    def resolved_import(self, path: str) -> Values:
        self.load_readers({path.partition(".")[0]})
        return super().resolved_import(path)

    def import_any(self, source: ast.Import | ast.ImportFrom, binding: Binding, scope: NameScope) -> Values:
        bound = str(binding.steps[0])
        if isinstance(source, ast.ImportFrom):
            imported = self.modules.imported(source, alias_of(source, bound).name, scope)
            return imported if imported is not None else self._importfrom(source, bound, _package(scope))
        alias = alias_of(source, bound)
        own = self.modules.module(alias.name if alias.asname else bound, scope)
        return exactly(own) if own is not None else self._import(source, bound)

    def _file_of(self, scope: NameScope | None) -> Path:
        """Returns the file of a scope."""
        scope_of_file = modules.file_scope(scope)
        return scope_of_file.file if scope_of_file is not None else self.file

    # Objects, classes and functions of the program.

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
        bases = [value for base in around.tree.bases for value in self.value(base, outside).known]
        for base in bases:
            if isinstance(base, Class) and (method := self.member(base, name)) is not None:
                return self.call(method, Arguments((owner,)).then(arguments), line)
            own = isinstance(base, Class)
            kind = stubs.framework_kind(self, base) if own else stubs.kind_of(self, base)
            if kind is not None:
                return self._base_method(owner, kind, name, arguments, line)
        return exactly(None) if name == "__init__" else None

    def _base_method(self, owner: Values, kind: ClassStub, name: str, arguments: Arguments, line: int) -> Values:
        """Evaluates a call of a method of a framework's class by a class of the program."""
        result = exactly(None) if name == "__init__" else UNKNOWN
        for value in owner.known:
            if not isinstance(value, ObjectStub):
                continue
            if name == "__init__":
                stubs.construct(value, kind, arguments)
            elif (values := self._of_framework(Attribute(value, name), arguments, line)) is not None:
                result = values
        return result

    def _make(self, made_of: Class, arguments: Arguments, line: int = 0) -> modules.ProgramObject:
        """Constructs an object of a class."""
        self.effects.changes += 1
        framed = stubs.object_of(self, made_of, arguments, line)
        created = framed or modules.ProgramObject(made_of)
        if framed is None and self.executing:
            self.objects.append(created)
        member = self.member(made_of, "__init__")
        if member is not None and isinstance(member, Function):
            self.call_function(member, Arguments((exactly(created),)).then(arguments))
        elif framed is not None:
            stubs.construct(framed, framed.kind, arguments)
        else:
            for place, name in enumerate(fields_of(made_of)):
                if (argument := arguments.get(name, place)) is not None:
                    created.attributes[name] = argument
        for later in ("__post_init__", "model_post_init") if self.executing else ():
            if isinstance(method := self.member(made_of, later), Function):
                self.call_function(method, Arguments((exactly(created),), open=True))
        return created

    def call_target(self, target: object) -> object | None:
        if not isinstance(target, modules.ProgramObject):
            return super().call_target(target)
        method = self.member(target.made_of, "__call__")
        return PartialFunction(method, Arguments((exactly(target),))) if isinstance(method, Function) else None

    def _call_object(self, target: modules.ProgramObject, arguments: Arguments, line: int) -> Values:
        method = self.member(target.made_of, "__call__")
        return self.call(method, Arguments((exactly(target),)).then(arguments), line) if method is not None else UNKNOWN

    def item(self, owner: object, key: Values) -> Values:
        if not isinstance(owner, modules.Namespace):
            return super().item(owner, key)
        values = NOTHING
        for name in key.strings or ():
            held = owner.of
            values |= self.name(name, held) if isinstance(held, modules.FlowScope) else self.attribute(held, name)
        return values if values.known else UNKNOWN

    def _subscript(self, node: ast.Subscript, scope: NameScope) -> Values:
        match node.value:
            case ast.Attribute(value=ast.Name(id="sys"), attr="modules") if self.executing:
                self.effects.open_all(node, scope)
        owner = self.value(node.value, scope)
        if owner.known and all(isinstance(value, Class) or stubs.kind_of(self, value) for value in owner.known):
            return owner  # a class with its parameters, as in `Agent[Context]`
        return super()._subscript(node, scope)

    def _functiondef(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: NameScope) -> Values:
        return self._decorate(self._defined(node, scope), node)

    _asyncfunctiondef = _functiondef

    def _defined(self, node: FunctionTree, scope: NameScope) -> Function:
        """Returns a function with its defaults, which are evaluated at its definition."""
        defaults = {name: self.value(default, scope) for name, default in defaults_of(node.args).items()}
        function = Function(node, scope, defaults, str(self._file_of(scope)))
        if self.executing:
            self._functions.append(function)
        return function

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
            isinstance(value, CallResult)
            and isinstance(value.callee, ImportedName)
            and not self.modules.is_framework(value.callee.path.partition(".")[0])
            for value in decorated.known
        )

    def _namedexpr(self, node: ast.NamedExpr, scope: NameScope) -> Values:
        values = self.value(node.value, scope)
        if self.executing and isinstance(scope, modules.FlowScope):
            self.effects.assign(node.target, values, scope)
        return values

    def _lambda(self, node: ast.Lambda, scope: NameScope) -> Values:
        return exactly(self._defined(node, scope))

    def _classdef(self, node: ast.ClassDef, scope: NameScope) -> Values:
        made = Class(node, scope)
        if self.executing:
            self._classes[id(node)] = made
        return exactly(made)


def _is_of_class(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a method has its class as its first argument."""
    return node.name in {"__init_subclass__", "__new__"} or any(
        isinstance(decorator, ast.Name) and decorator.id == "classmethod" for decorator in node.decorator_list
    )


def _is_bound(name: str, scope: NameScope | None) -> bool:
    while scope is not None:
        if scope.find(name):
            return True
        scope = scope.parent
    return False


def _is_declaration(made_of: Class) -> bool:
    """Whether a class only declares the fields of a dictionary or a tuple, or is an enumeration."""
    kinds = {"TypedDict", "Enum", "StrEnum", "NamedTuple", "MessagesState", "AgentState"}
    return not kinds.isdisjoint(bases_of(made_of))


def _package(scope: NameScope | None) -> str:
    scope_of_file = modules.file_scope(scope)
    return scope_of_file.package if scope_of_file is not None else ""


def _scope_of_decorator(decorator: ast.expr, function: Function, node: ast.AST) -> NameScope:
    """Returns the scope for a decorator; a decorator with the name of its method is not that method."""
    callee = decorator.func if isinstance(decorator, ast.Call) else decorator
    itself = isinstance(callee, ast.Name) and callee.id == getattr(node, "name", "")
    in_class = isinstance(getattr(function.scope, "tree", None), ast.ClassDef)
    return function.scope.parent or function.scope if itself and in_class else function.scope


def unseen_arguments(function: object) -> Arguments:
    """Returns the arguments of a call that is not seen: a parameter that is empty by default can be anything."""
    inner = function_in(function)
    if not isinstance(inner, Function):
        return Arguments()
    spec = inner.tree.args
    empty = {name: default | UNKNOWN for name, default in (inner.defaults or {}).items() if _is_empty(default)}
    return Arguments((), empty, open=spec.vararg is not None or spec.kwarg is not None)


def _is_empty(default: Values) -> bool:
    return any(value is None or (isinstance(value, Sequence | Table) and not value.items) for value in default.known)


def _method_around(scope: NameScope) -> Any:
    """Returns the scope of the method around a scope."""
    here: Any = scope
    while here is not None and not isinstance(getattr(here.parent, "tree", None), ast.ClassDef):
        here = here.parent
    return here
