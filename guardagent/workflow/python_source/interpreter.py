"""Interprets a program abstractly, statement by statement, to find the calls of its framework.

Nothing is run. The interpreter takes every branch, and unrolls loops over known values. The reader of each framework
evaluates the calls of that framework: see `source_graph.py`.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from guardagent.workflow.python_source import stubs
from guardagent.workflow.python_source.modules import ProgramFiles, file_of, file_scope
from guardagent.workflow.python_source.objects import CHANGES, Namespace, can_change
from guardagent.workflow.python_source.programs.budget import Share, StepBudget
from guardagent.workflow.python_source.programs.classes import unseen_arguments
from guardagent.workflow.python_source.programs.scopes import FileScope, FlowScope, ProgramObject
from guardagent.workflow.python_source.programs.statements import BlockExit, StatementEvaluator
from guardagent.workflow.python_source.scopes import CodeScope, bound_name
from guardagent.workflow.python_source.stubs import ClassStub, ObjectStub
from guardagent.workflow.python_source.values import (
    NOTHING,
    UNKNOWN,
    Arguments,
    Attribute,
    Binding,
    Class,
    Function,
    ImportedName,
    NameScope,
    Sequence,
    Table,
    Values,
    exactly,
    labelled,
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


class FrameworkReader(Protocol):
    """Evaluates the calls of one framework."""

    CONSTANTS: dict[str, object]
    PACKAGES: tuple[str, ...]

    def called(self, interpreter: Interpreter, target: object, arguments: Arguments, line: int) -> Values | None:
        """Applies a call and returns its value; None if it is not a call of the framework."""


class Interpreter(StatementEvaluator):
    """Interprets one file, and the files of the same program that it imports.

    Attributes:
        executing: it executes statements; if not, it only evaluates expressions.
    """

    most_steps = _AT_ONCE

    def __init__(self, file: Path, readers: Iterable[FrameworkReader]) -> None:
        self.readers = tuple(readers)
        constants = {path: value for reader in self.readers for path, value in reader.CONSTANTS.items()}
        super().__init__(live=False, follow=lambda _function: False, constants=constants)
        self.file = Path(os.path.abspath(file))  # noqa: PTH100 - links stay as they are, as importing the file leaves them
        self.kinds = stubs.ClassStubs(kind for reader in self.readers for kind in getattr(reader, "KINDS", ()))
        self.converter = None
        self.current_file = self.file
        self.current_call: ast.Call | None = None
        self.started = []
        self.objects = []
        self.graphs = []
        self.not_followed = {}
        self._budget = StepBudget()
        self._scopes: list[FlowScope] = []
        self._star_imports: list[str] = []
        self.rounds = []
        self.depth = 0
        self.executing = False
        self.wrapped = {}
        self.renamed = {}
        self._modules = ProgramFiles(
            self,
            (name for reader in self.readers for name in reader.PACKAGES),
            (name for reader in self.readers for name in getattr(reader, "OBJECTS", ()) if "." in name),
        )
        self._returns: list[Values] = []
        self._stack: list[ast.AST] = []
        self._certain = -1  # the depth at which a `break` certainly leaves the loop
        self._since = 0, 0  # the objects and graphs before the part of the program that is being followed
        self._ended = False
        self._changes = self._cut_short = 0
        self._results: dict[object, tuple[Values, object]] = {}
        self._class_names = {}
        self._broken = []
        self._functions: list[Function] = []
        self._classes: dict[int, Class] = {}
        self._called: set[int] = set()

    def run(self, tree: ast.Module) -> FileScope:
        """Interprets a file, and returns its scope."""
        scope = self._modules.main(self.file, tree)
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
        self.changes_later(function, arguments)

    def _allow(self, share: Share) -> None:
        """Allows a share of the budget for the next part of the program."""
        if self._budget.allow(share):
            self._since, self._ended = (len(self.objects), len(self.graphs)), False

    def reset(self) -> None:
        self.is_cut_short = False
        self.found.clear()
        self._allow(_FOR_SUMMARY)

    @property
    def exhausted(self) -> bool:
        return not self._budget.left

    @property
    def keeps_values(self) -> bool:
        return not self.executing  # a statement can change them

    def resume(self) -> None:
        self._allow(_FOR_ORDER)

    def more_steps(self, node: ast.AST | None, scope: NameScope) -> bool:
        if self._budget.spend(_AT_ONCE):
            self.most_steps = self._steps + _AT_ONCE
            return True
        self._end(file_of(scope), getattr(node, "lineno", 0))
        return False

    def spend_source(self, path: Path, characters: int) -> bool:
        if self._budget.spend(_FOR_OPENING + characters // _CHARACTERS):
            return True
        self._end(path, 1)
        return False

    def _end(self, file: Path, line: int) -> None:
        """Notes where the budget ended; the objects of this part of the program may have any further values."""
        if self._ended or not line:
            return
        self._ended = True
        where = os.path.relpath(file, self.file.parent)
        note = f"not followed further: the budget ended in {where!r} line {line}"
        self.not_followed[note] = None
        for one in (*self.objects[self._since[0] :], *self.graphs[self._since[1] :]):
            one.leave_unfinished(note)
        for scope in (*self._modules, *self._scopes):
            scope.leave_unfinished()

    def run_file(self, scope: FileScope, statements: list[ast.stmt]) -> None:
        """Interprets statements of an imported file, independent of the place of its import."""
        kept = self.depth, self.rounds, self._returns, self._stack, self._certain, self.current_file
        self.depth, self.rounds, self._returns, self._stack, self._certain = 0, [], [], [], -1
        try:
            self._execute(statements, scope)
        finally:
            self.depth, self.rounds, self._returns, self._stack, self._certain, self.current_file = kept

    def _execute(self, body: list[ast.stmt], scope: FlowScope) -> None:
        before, self.executing = self.executing, True
        self.found.clear()
        try:
            self._block(body, scope)
        except BlockExit:
            pass
        finally:
            self.executing = before
            self.found.clear()

    def run_function(self, function: object) -> Values:
        """Interprets a function of the file, and returns its values."""
        self._allow(_FOR_FUNCTION)
        before, self.executing = self.executing, True
        try:
            return self.call(function, unseen_arguments(function))
        finally:
            self.executing = before

    def read_attribute(self, owner: object, name: str) -> Values:
        """Returns the values of an attribute of an object; interprets a property."""
        self._allow(_FOR_FUNCTION)
        before, self.executing = self.executing, True
        try:
            return self.attribute(owner, name)
        finally:
            self.executing = before

    def make(self, made_of: Class) -> ProgramObject:
        """Constructs an object of a class of the file, by a call that is not seen."""
        self._allow(_FOR_FUNCTION)
        before, self.executing = self.executing, True
        try:
            return self._make(made_of, unseen_arguments(self.member(made_of, "__init__")))
        finally:
            self.executing = before

    def call_function(self, function: Function, arguments: Arguments) -> Values:
        """Interprets the body of a function, and returns its values."""
        if self._stack.count(function.tree) > 1 or len(self._stack) > MOST_DEEP:
            self._cut_short += 1
            self.changes_later(function, arguments)
            return UNKNOWN
        if isinstance(function.tree, ast.Lambda):
            self._called.add(id(function.tree))
            return self.value(function.tree.body, self.inside_flow(function, arguments))
        key = id(function.tree), id(function.scope), arguments.signature, self._changes
        if key in self._results:
            return self._results[key][0]
        cut_short = self._cut_short
        result = self._run_body(function, arguments)
        if (self._changes, self._cut_short) == (key[-1], cut_short) and not any(map(can_change, result.known)):
            self._remember(key, result, (function, arguments))
        return result

    def _remember(self, key: object, result: Values, held: object) -> None:
        """Keeps the result of a function that changed nothing, with the objects that the key identifies."""
        if len(self._results) >= MOST_REMEMBERED:
            self._results.clear()
        self._results[key] = result, held

    def _run_body(self, function: Function, arguments: Arguments) -> Values:
        assert not isinstance(function.tree, ast.Lambda)
        self._called.add(id(function.tree))
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
        parameters = self.body_scope(function, arguments).parameters.items()
        return FlowScope(function.tree, function.scope, {name: labelled(one, name) for name, one in parameters})

    def bound_name(self, file: str, line: int) -> str:
        trees = [one.tree for one in self._modules if str(one.file) == file]
        return bound_name(trees[0], line) if trees else ""

    def shown(self, value: object) -> object:
        """Returns a value as an extractor sees it."""
        return stubs.converter_of(self).convert(value)

    def value(self, node: ast.AST | None, scope: NameScope) -> Values:
        found = super().value(node, scope)
        return self.current(found, inner=not isinstance(node, ast.Name | ast.Attribute)) if self._changes else found

    def name(self, name: str, scope: NameScope | None) -> Values:
        found = super().name(name, scope)
        if found is UNKNOWN and self._star_imports and not _is_bound(name, scope):
            return self.resolved_import(f"{self._star_imports[-1]}.{name}")
        return found

    def call(self, target: object, arguments: Arguments, line: int = 0) -> Values:
        for reader in self.readers:
            if (found := reader.called(self, target, arguments, line)) is not None:
                self._changes += 1
                return found
        if self.executing and (found := self._of_framework(target, arguments, line)) is not None:
            return found
        if self.executing and (found := self.changed_by(target, arguments)) is not None:
            return found
        if isinstance(target, ProgramObject):
            return self._call_object(target, arguments, line)
        if isinstance(target, Class) and not _is_declaration(target):
            return exactly(self._make(target, arguments, line))
        return super().call(target, arguments, line)

    def call_at(self, target: object, arguments: Arguments, node: ast.Call, scope: NameScope) -> Values:
        if self.executing:
            self.current_file, self.current_call = self._file_of(scope), node
            if (found := self.of_unseen(target, arguments, node, scope)) is not None:
                return found
            if isinstance(target, ImportedName):
                self.passed(exactly(target), arguments, node)
        return super().call_at(target, arguments, node, scope)

    def _of_framework(self, target: object, arguments: Arguments, line: int) -> Values | None:
        """Evaluates a call of a class of a framework, or of a method of its objects."""
        try:
            return self._call_framework(target, arguments, line)
        except (AttributeError, TypeError, ValueError, LookupError):  # the arguments do not fit the framework
            return UNKNOWN

    def _call_framework(self, target: object, arguments: Arguments, line: int) -> Values | None:
        self._changes += isinstance(target, Attribute | ClassStub)
        if isinstance(target, Attribute) and isinstance(target.owner, ObjectStub):
            methods = [kind.methods[target.name] for kind in target.owner.kind.lineage if target.name in kind.methods]
            return methods[0](target.owner, arguments, line) if methods else None
        kind = stubs.kind_of(self, target)
        if kind is None:
            return None
        self._changes += 1
        return exactly(stubs.make(self, kind, arguments, line))

    def called(self, callee: Values, node: ast.Call, scope: NameScope) -> Values:
        if self.executing and not callee.known:
            self.passed(callee, self.arguments(node, scope), node)
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
            self.grows_from_unknown(called.value, self.value(node.args[-1], scope), called.attr, scope)
        self.open(one for one in owners.known if isinstance(one, Namespace))
        kept = [one for one in owners.known if not isinstance(one, Sequence | Table)]
        result = NOTHING
        if len(kept) < len(owners.known):
            result = self.change_by_method(called.value, owners, called.attr, self.arguments(node, scope), scope)
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
            for reader in self.readers:
                combined = getattr(reader, "piped" if isinstance(node.op, ast.BitOr) else "anded", None)
                if combined is not None and (found := combined(self, left, right)) is not None:
                    return found  # type: ignore[no-any-return]
        return super()._binop(node, scope)

    def _import_any(self, source: ast.Import | ast.ImportFrom, binding: Binding, scope: NameScope) -> Values:
        bound = str(binding.steps[0])
        if isinstance(source, ast.ImportFrom):
            name = next(alias.name for alias in source.names if (alias.asname or alias.name) == bound)
            found = self._modules.imported(source, name, scope)
            return found if found is not None else self._importfrom(source, bound, _package(scope))
        alias = next(one for one in source.names if (one.asname or one.name.partition(".")[0]) == bound)
        own = self._modules.module(alias.name if alias.asname else bound, scope)
        return exactly(own) if own is not None else self._import(source, bound)

    def _file_of(self, scope: NameScope | None) -> Path:
        """Returns the file of a scope."""
        found = file_scope(scope)
        return found.file if found is not None else self.file


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


__all__ = ["Attribute", "FrameworkReader", "ImportedName", "Interpreter"]
