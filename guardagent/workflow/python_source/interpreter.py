"""Interprets a program abstractly, statement by statement, to find the calls of its framework.

Nothing is run. The interpreter takes every branch, and unrolls loops over known values (`statements.py`). It evaluates
the objects, classes and functions of the program; their changes are in `effects.py`. The reader of each framework
evaluates the calls of that framework: see `source_graphs.py`.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from guardagent.workflow.extraction import FRAMEWORKS, SOURCES
from guardagent.workflow.python_source import stubs
from guardagent.workflow.python_source.effects import CHANGES, Effects, Namespace, can_change
from guardagent.workflow.python_source.evaluator import Evaluator, underlying
from guardagent.workflow.python_source.modules import (
    FileScope,
    FlowScope,
    ModuleObject,
    ProgramFiles,
    ProgramObject,
    Share,
    StepBudget,
    file_of,
    file_scope,
)
from guardagent.workflow.python_source.scopes import CodeScope, bound_name
from guardagent.workflow.python_source.statements import BlockExit, Statements
from guardagent.workflow.python_source.stubs import ClassStub, ObjectStub, UnfinishedGraph, ValueConverter
from guardagent.workflow.python_source.values import (
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
    labelled,
    path_of,
)

_CHARACTERS = 40  # of source that cost one step to parse
_FOR_OPENING = 20  # steps for finding a file
_AT_ONCE = 256  # steps that are taken from the budget at a time
_FOR_STATEMENT = Share(50_000, most=150_000, seconds=1.0, until=2.0)  # one at the top of the file
_FOR_OTHERS = Share(10_000, most=180_000, seconds=0.3, until=2.3)  # what a function changes that may run later
_FOR_FUNCTION = Share(30_000, most=200_000, seconds=0.5, until=2.5)  # one that may return a workflow
_FOR_SUMMARY = Share(20_000, most=400_000, seconds=0.5, until=3.0)
_FOR_ORDER = Share(5_000, most=500_000, seconds=0.3, until=4.0)  # a statement of an agent's own code
MOST_REMEMBERED = 2_000  # results of functions
MOST_DEEP = 15
_NOT_COMBINED = (type, Table, dict, set, int)  # whose operators are not of a framework


class Interpreter(Evaluator):
    """Interprets one file, and the files of the same program that it imports.

    Attributes:
        file: the program's file.
        readers: the readers of the frameworks that the program imports.
        kinds: the class stubs of these frameworks.
        converter: converts objects of the program for extractors.
        modules: the files of the program.
        effects: the effects of what is evaluated.
        executing: it executes statements; if not, it only evaluates expressions.
        depth: the number of enclosing branches; code in a branch may not run.
        rounds: for each loop with an unknown number of rounds, its stubs.
        scopes: the names of the functions that are being executed.
        current_file: the file of the current call.
        current_call: the current call.
        left_aside: the number of statements and calls that were not followed.
        starred: the modules of frameworks in `from module import *`.
        started: the workflows that the program runs, as readers find them.
        objects: all objects of the program.
        graphs: other objects that readers make, whose calls may not all be followed.
        wrapped: the functions that a function wraps with `functools.wraps`, by the identity of its tree.
        not_followed: notes on where the budget ended.
    """

    most_steps = _AT_ONCE

    def __init__(self, file: Path) -> None:
        super().__init__(live=False, follow=lambda _function: False)
        self.file = self.current_file = Path(os.path.abspath(file))  # noqa: PTH100 - links stay, as importing the file leaves them
        frameworks = [(name, one) for name, one in FRAMEWORKS.load_all() if one.PACKAGES]
        self._unread: dict[str, list[str]] = {}  # the frameworks of each top package, unless they are loaded
        for name, one in frameworks:
            for package in one.PACKAGES:
                self._unread.setdefault(package, []).append(name)
        self._loaded: dict[str, ModuleType] = {}
        self.readers: tuple[ModuleType, ...] = ()
        self.kinds = stubs.ClassStubs()
        self.converter = ValueConverter(self)
        self.modules = ProgramFiles(
            self,
            self._unread,
            (module for _, one in frameworks for module in one.OBJECTS if "." in module),
        )
        self.budget = StepBudget()
        self.effects = Effects(self)
        self.left_aside = 0
        self.starred: list[str] = []
        self._statements = Statements(self)
        self.executing = False
        self.depth = 0
        self.rounds: list[dict[object, ObjectStub]] = []
        self.scopes: list[FlowScope] = []
        self.current_call: ast.Call | None = None
        self.started: list[object] = []
        self.objects: list[ProgramObject] = []
        self.graphs: list[UnfinishedGraph] = []
        self.wrapped: dict[int, tuple[object, ...]] = {}
        self.not_followed: dict[str, None] = {}
        self._stack: list[ast.AST] = []
        self._since = 0, 0  # the objects and graphs before the part of the program that is being followed
        self._ended = False
        self._results: dict[object, tuple[Values, object]] = {}
        self._functions: list[Function] = []  # that the program defines
        self._classes: dict[int, Class] = {}
        self._called: set[int] = set()

    def load_readers(self, packages: AbstractSet[str]) -> None:
        """Loads the readers of the frameworks that have one of some top packages."""
        for package in self._unread.keys() & packages:
            for name in self._unread.pop(package):
                if name not in self._loaded:
                    reader = self._loaded[name] = SOURCES.load(name)
                    self.constants = {**self.constants, **reader.CONSTANTS}
                    self.kinds.add(getattr(reader, "KINDS", ()))
            self.readers = tuple(self._loaded[name] for name in sorted(self._loaded))

    def reader_of(self, value: object) -> ModuleType | None:
        """Returns the reader for a workflow; None for other values."""
        return next((reader for reader in self.readers if reader.is_workflow(value)), None)

    def workflow_of(self, value: object) -> object | None:
        """Returns a workflow, or the one that a value only runs; None for other values."""
        reader = self.reader_of(value)
        if reader is None:
            return None
        return reader.unwrapped(value) if hasattr(reader, "unwrapped") else value

    def run(self, tree: ast.Module) -> FileScope:
        """Interprets a file, and returns its scope."""
        scope = self.modules.main(self.file, tree)
        for statement in tree.body:
            self._allow(_FOR_STATEMENT)
            self._since = 0, 0
            self._execute([statement], scope)
        self._allow_for_others()
        return scope

    def _allow_for_others(self) -> None:
        """Allows for the changes by functions that the script has not called: they may run later."""
        for function in [one for one in self._functions if id(one.tree) not in self._called]:
            self._allow_for(function)
        for made_of in list(self._classes.values()):
            objects = Values(tuple(one for one in self.objects if one.made_of is made_of))
            for node in made_of.tree.body:
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and id(node) not in self._called:
                    owner = exactly(made_of) if _is_of_class(node) else objects
                    method = Function(node, CodeScope(made_of.tree, made_of.scope))
                    self._allow_for(method, Arguments((owner,), open=True))

    def _allow_for(self, function: Function, arguments: Arguments = Arguments(open=True)) -> None:  # noqa: B008 - frozen
        self._allow(_FOR_OTHERS)
        self._since = 0, 0
        self.effects.changes_later(function, arguments)

    def _allow(self, share: Share) -> None:
        """Allows a share of the budget for the next part of the program."""
        if self.budget.allow(share):
            self._since, self._ended = (len(self.objects), len(self.graphs)), False

    def reset(self) -> None:
        self.is_cut_short = False
        self.found.clear()
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
        self.end(file_of(scope), getattr(node, "lineno", 0))
        return False

    def spend_source(self, path: Path, characters: int) -> bool:
        if self.budget.spend(_FOR_OPENING + characters // _CHARACTERS):
            return True
        self.end(path, 1)
        return False

    def end(self, file: Path, line: int) -> None:
        """Notes where the budget ended; the objects of this part of the program may have any further values."""
        if self._ended or not line:
            return
        self._ended = True
        where = os.path.relpath(file, self.file.parent)
        note = f"not followed further: the budget ended in {where!r} line {line}"
        self.not_followed[note] = None
        for one in (*self.objects[self._since[0] :], *self.graphs[self._since[1] :]):
            one.leave_unfinished(note)
        for scope in (*self.modules, *self.scopes):
            scope.leave_unfinished()

    def run_file(self, scope: FileScope, statements: list[ast.stmt]) -> None:
        """Interprets statements of an imported file, independent of the place of its import."""
        kept = self.depth, self.rounds, self._stack, self._statements, self.current_file
        self.depth, self.rounds, self._stack, self._statements = 0, [], [], Statements(self)
        try:
            self._execute(statements, scope)
        finally:
            self.depth, self.rounds, self._stack, self._statements, self.current_file = kept

    def _execute(self, body: list[ast.stmt], scope: FlowScope) -> None:
        self.found.clear()
        try:
            with self.switched(executing=True):
                self._statements.run(body, scope)
        except BlockExit:
            pass
        finally:
            self.found.clear()

    @contextmanager
    def switched(self, *, executing: bool) -> Iterator[None]:
        """Executes statements meanwhile, or only evaluates expressions."""
        before, self.executing = self.executing, executing
        try:
            yield
        finally:
            self.executing = before

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

    def make(self, made_of: Class) -> ProgramObject:
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

    def inside_flow(self, function: Function, arguments: Arguments) -> FlowScope:
        parameters = self.body_scope(function, arguments).parameters.items()
        return FlowScope(function.tree, function.scope, {name: labelled(one, name) for name, one in parameters})

    def bound_name(self, file: str, line: int) -> str:
        trees = [one.tree for one in self.modules if str(one.file) == file]
        return bound_name(trees[0], line) if trees else ""

    def shown(self, value: object) -> object:
        """Returns a value of the code as an extractor sees it."""
        return self.converter.convert(value)

    def class_shown(self, kind: object) -> object:
        if isinstance(kind, Class):
            return self.converter.type_of(kind, None)
        own = stubs.kind_of(self, kind)
        return kind if own is None else own.type

    def value(self, node: ast.AST | None, scope: NameScope) -> Values:
        values = super().value(node, scope)
        if not self.effects.changes:
            return values
        return self.effects.current(values, inner=not isinstance(node, ast.Name | ast.Attribute))

    def name(self, name: str, scope: NameScope | None) -> Values:
        found = super().name(name, scope)
        if found is UNKNOWN and self.starred and not _is_bound(name, scope):
            return self.resolved_import(f"{self.starred[-1]}.{name}")
        return found

    def call(self, target: object, arguments: Arguments, line: int = 0) -> Values:
        if (made := self._called_by_reader(target, arguments, line)) is not None:
            self.effects.changes += 1
            return made
        if self.executing and (found := self._of_framework(target, arguments, line)) is not None:
            return found
        if self.executing and (found := self.effects.changed_by(target, arguments)) is not None:
            return found
        if isinstance(target, ProgramObject):
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
        first = arguments.get("", 0)
        marked = first.known if first is not None else ()
        if target is staticmethod and any(isinstance(one, ObjectStub) for one in marked):
            return first
        if isinstance(target, CallResult) and path_of(target.callee) == "functools.wraps":
            if not marked or not isinstance(marked[0], Function | PartialFunction):
                return None
            if isinstance(inner := underlying(marked[0])[0], Function):
                self.wrapped[id(inner.tree)] = (target.arguments.get("", 0) or UNKNOWN).known
            return first
        return None

    def call_at(self, target: object, arguments: Arguments, node: ast.Call, scope: NameScope) -> Values:
        if self.executing:
            self.current_file, self.current_call = self._file_of(scope), node
            if (found := self.effects.of_unseen(target, arguments, node, scope)) is not None:
                return found
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
        if self.executing and (found := self._of_super(node, scope)) is not None:
            return found
        if self.executing and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES:
            return self._call_change(node.func, node, scope)
        return super()._call(node, scope)

    def _call_change(self, called: ast.Attribute, node: ast.Call, scope: NameScope) -> Values:
        """Evaluates `names.append(x)` and the like, of a collection or of another object."""
        owners = self.value(called.value, scope)
        if not owners.known and not owners.complete and node.args and isinstance(scope, FlowScope):
            self.effects.grows_from_unknown(called.value, self.value(node.args[-1], scope), called.attr, scope)
        self.effects.open(one for one in owners.known if isinstance(one, Namespace))
        kept = [one for one in owners.known if not isinstance(one, Sequence | Table)]
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
            if both and not any(isinstance(one, _NOT_COMBINED) for one in both):
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
            name = next(alias.name for alias in source.names if (alias.asname or alias.name) == bound)
            found = self.modules.imported(source, name, scope)
            return found if found is not None else self._importfrom(source, bound, _package(scope))
        alias = next(one for one in source.names if (one.asname or one.name.partition(".")[0]) == bound)
        own = self.modules.module(alias.name if alias.asname else bound, scope)
        return exactly(own) if own is not None else self._import(source, bound)

    def _file_of(self, scope: NameScope | None) -> Path:
        """Returns the file of a scope."""
        found = file_scope(scope)
        return found.file if found is not None else self.file

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
        self.effects.changes += 1
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
            return self.modules.attribute(owner.path, name) or UNKNOWN
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
        if id(inner) in self.effects.renamed:
            return self.effects.renamed[id(inner)][1]
        if isinstance(inner, Function) and (wrapped := self.wrapped.get(id(inner.tree))) is not None:
            return self._name_of(wrapped[0]) if len(wrapped) == 1 else UNKNOWN
        tree = inner.tree if isinstance(inner, Function | Class) else None
        return UNKNOWN if tree is None or isinstance(tree, ast.Lambda) else exactly(tree.name)

    def _of_class(self, owner: Class, name: str) -> Values:
        """Returns the values of a name of a class; its collections are one for all who read it."""
        held = self.effects.class_names.get(id(owner.tree), {})
        if name in held:
            return self.effects.current(held[name], inner=False)
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
            self.effects.names_of(owner)[name] = found
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

    def item(self, owner: object, key: Values) -> Values:
        if not isinstance(owner, Namespace):
            return super().item(owner, key)
        found = NOTHING
        for name in key.strings or ():
            held = owner.of
            found |= self.name(name, held) if isinstance(held, FlowScope) else self.attribute(held, name)
        return found if found.known else UNKNOWN

    def _subscript(self, node: ast.Subscript, scope: NameScope) -> Values:
        match node.value:
            case ast.Attribute(value=ast.Name(id="sys"), attr="modules") if self.executing:
                self.effects.open_all(node, scope)
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
            and not self.modules.is_framework(one.callee.path.partition(".")[0])
            for one in decorated.known
        )

    def _namedexpr(self, node: ast.NamedExpr, scope: NameScope) -> Values:
        values = self.value(node.value, scope)
        if self.executing and isinstance(scope, FlowScope):
            self.effects.assign(node.target, values, scope)
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


def _is_of_class(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a method has its class as its first argument."""
    return node.name in {"__init_subclass__", "__new__"} or any(
        isinstance(one, ast.Name) and one.id == "classmethod" for one in node.decorator_list
    )


def _is_bound(name: str, scope: NameScope | None) -> bool:
    while scope is not None:
        if scope.find(name):
            return True
        scope = scope.parent
    return False


def _is_declaration(made_of: Class) -> bool:
    """Whether a class only declares the fields of a dictionary or a tuple, or is an enumeration."""
    names = {getattr(base, "id", getattr(base, "attr", "")) for base in made_of.tree.bases}
    return bool(names & {"TypedDict", "Enum", "StrEnum", "NamedTuple", "MessagesState", "AgentState"})


def _package(scope: NameScope | None) -> str:
    found = file_scope(scope)
    return found.package if found is not None else ""


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
