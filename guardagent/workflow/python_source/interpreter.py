"""Interprets a program abstractly, statement by statement, to find the calls of its framework.

Nothing is run. The interpreter takes every branch, and unrolls loops over known values. The reader of each framework
evaluates the calls of that framework: see `source_graphs.py`.
"""

from __future__ import annotations

import ast
import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol, TypeGuard

from guardagent.workflow.python_source import stubs
from guardagent.workflow.python_source.modules import (
    FileScope,
    FlowScope,
    ProgramFiles,
    ProgramObject,
    Share,
    StepBudget,
    file_of,
    file_scope,
)
from guardagent.workflow.python_source.objects import (
    CHANGES,
    Namespace,
    can_change,
    scope_of,
    unordered,
    unseen_arguments,
)
from guardagent.workflow.python_source.scopes import CodeScope, bound_name, bound_names, statements
from guardagent.workflow.python_source.stubs import ClassStub, ObjectStub
from guardagent.workflow.python_source.unseen_calls import UnseenCode
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
    is_true,
    labelled,
)

__all__ = ["Attribute", "FrameworkReader", "ImportedName", "Interpreter"]


MOST_ROUNDS = 200
_IMPORT_ERRORS = {"ImportError", "ModuleNotFoundError"}


class BlockExit(Exception):  # noqa: N818 - no error
    """The rest of a block is unreachable."""


class _LoopContinue(BlockExit):
    """The rest of a round of a loop is unreachable."""


class _LoopBreak(BlockExit):
    """The rest of a loop is unreachable."""


class StatementEvaluator(UnseenCode):
    """Executes statements."""

    _returns: list[Values]
    _star_imports: list[str]
    _certain: int  # the depth at which a `break` certainly leaves the loop
    _cut_short: int
    _broken: list[list[dict[str, Values]]]  # for each loop, the names at each `break` that is not certain

    def _end(self, file: Path, line: int) -> None:
        raise NotImplementedError

    def _import_any(self, source: ast.Import | ast.ImportFrom, binding: Binding, scope: NameScope) -> Values:
        raise NotImplementedError

    def _block(self, body: Iterable[ast.stmt], scope: FlowScope) -> None:
        for statement in body:
            run = getattr(self, f"do_{type(statement).__name__.lower()}", None)
            if run is None:
                continue
            if self._budget.left:
                try:
                    run(statement, scope)
                except RecursionError:
                    self._leave(statement, scope)
            else:
                self._leave(statement, scope)

    def _leave(self, statement: ast.stmt, scope: FlowScope) -> None:
        """Leaves a statement aside: the names that it binds, and what the function returns, can be anything."""
        self._cut_short += 1
        self._end(file_of(scope), statement.lineno)
        nodes = list(statements([statement]))
        for name in dict.fromkeys(name for node in nodes for name in bound_names(node)):
            names = scope_of(name, scope).names
            names[name] = names.get(name, NOTHING) | UNKNOWN
        if self._returns and any(isinstance(node, ast.Return | ast.Yield) for node in nodes):
            self._returns[-1] |= UNKNOWN

    def do_expr(self, node: ast.Expr, scope: FlowScope) -> None:
        if isinstance(node.value, ast.Call) and _extends_path(node.value):
            self._modules.add_folder([str(one.value) for one in ast.walk(node) if _is_text(one)], scope)
        else:
            self.value(node.value, scope)

    def do_assign(self, node: ast.Assign, scope: FlowScope) -> None:
        values = self.value(node.value, scope)
        for target in node.targets:
            self.assign(target, values, scope)
        if isinstance(node.value, ast.Call | ast.Await) and len(values.known) == 1:
            stubs.name_after(values.known[0], node.targets[0])

    def do_annassign(self, node: ast.AnnAssign, scope: FlowScope) -> None:
        if node.value is not None:
            self.assign(node.target, self.value(node.value, scope), scope)

    def do_augassign(self, node: ast.AugAssign, scope: FlowScope) -> None:
        read = ast.copy_location(_loaded(node.target), node)
        before = self.value(read, scope)
        if isinstance(node.op, ast.Add | ast.BitOr) and _are_collections(before):
            added = Arguments((self.value(node.value, scope),))
            self.change_by_method(read, before, "update" if isinstance(node.op, ast.BitOr) else "extend", added, scope)
            return
        result = self.value(ast.copy_location(ast.BinOp(read, node.op, node.value), node), scope)
        self.assign(node.target, result, scope)

    def do_functiondef(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: FlowScope) -> None:
        scope.names[node.name] = self.value(node, scope)

    do_asyncfunctiondef = do_functiondef

    def do_classdef(self, node: ast.ClassDef, scope: FlowScope) -> None:
        scope.names[node.name] = self.value(node, scope)
        body = [one for one in node.body if not isinstance(one, _DECLARATIONS)]
        if any(isinstance(one, ast.Call) for part in body for one in ast.walk(part)):
            with contextlib.suppress(BlockExit):
                self._block(body, FlowScope(node, scope))

    def do_import(self, node: ast.Import, scope: FlowScope) -> None:
        for alias in node.names:
            name = alias.asname or alias.name.partition(".")[0]
            scope.names[name] = self._import_any(node, Binding(node, (name,)), scope)

    def do_importfrom(self, node: ast.ImportFrom, scope: FlowScope) -> None:
        for alias in node.names:
            if alias.name == "*":
                self._import_all(node, scope)
            else:
                name = alias.asname or alias.name
                scope.names[name] = self._import_any(node, Binding(node, (name,)), scope)

    def _import_all(self, node: ast.ImportFrom, scope: FlowScope) -> None:
        """Executes `from module import *`: binds the names of a file, or records a framework for unknown names."""
        if (names := self._modules.all_imported(node, scope)) is not None:
            scope.names |= names
        elif node.module and self._modules.is_framework(node.module.partition(".")[0]):
            self._star_imports.append(node.module)

    def do_return(self, node: ast.Return, scope: FlowScope) -> None:
        values = self.value(node.value, scope) if node.value is not None else exactly(None)
        if self._returns:
            self._returns[-1] |= values
        raise BlockExit

    def do_raise(self, _node: ast.Raise, _scope: FlowScope) -> None:
        raise BlockExit

    def do_if(self, node: ast.If, scope: FlowScope) -> None:
        test = self.value(node.test, scope)
        if _is_main(node.test) and file_of(scope) == self.file:
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
            except BlockExit:
                continue
            ends.append(scope.names)
        self.depth -= 1
        scope.names = dict(before)
        if not ends:
            raise BlockExit
        scope.names = dict(ends[0])
        for end in ends[1:]:
            scope.join(end)
        for name, values in scope.names.items():
            if values is not before.get(name):
                scope.names[name] = unordered(values)

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
        self._broken.append([])
        try:
            for item in items:
                if not self._budget.left:
                    self._leave(node, scope)
                    return
                self.assign(node.target, item, scope)
                with contextlib.suppress(_LoopContinue):
                    self._block(node.body, scope)
            self._block(node.orelse, scope)
        except _LoopBreak:
            pass
        finally:
            self._certain = before
            for end in self._broken.pop():
                scope.join(end)

    def do_while(self, node: ast.While, scope: FlowScope) -> None:
        self.value(node.test, scope)
        self._repeat(node.body, scope)

    def _repeat(self, body: list[ast.stmt], scope: FlowScope) -> None:
        """Executes a loop with an unknown number of rounds: zero, one or more."""
        before, self._certain = self._certain, -1
        self.rounds.append({})
        try:
            for _ in range(2):
                self._broken.append([])
                self._branches([body, []], scope)
                for end in self._broken.pop():
                    scope.join(end)
        finally:
            self.rounds.pop()
            self._certain = before

    def do_break(self, _node: ast.Break, scope: FlowScope) -> None:
        """Leaves a loop if that is certain; otherwise also executes the following code, and joins both ends."""
        if self.depth == self._certain:
            raise _LoopBreak
        if self._broken:
            self._broken[-1].append(dict(scope.names))

    def do_continue(self, _node: ast.Continue, _scope: FlowScope) -> None:
        if self.depth == self._certain:
            raise _LoopContinue

    def do_try(self, node: ast.Try, scope: FlowScope) -> None:
        before = dict(scope.names)
        try:
            self._block([*node.body, *node.orelse], scope)
        except BlockExit:
            self._block(node.finalbody, scope)
            raise
        after = dict(scope.names)
        self.depth += 1
        for handler in [] if self._imports_framework(node) else node.handlers:
            scope.names = {**before, **({handler.name: UNKNOWN} if handler.name else {})}
            try:
                self._block(handler.body, scope)
            except BlockExit:
                continue
            scope.join(after)
            after = dict(scope.names)
        self.depth -= 1
        scope.names = after
        self._block(node.finalbody, scope)

    do_trystar = do_try

    def _imports_framework(self, node: ast.Try | ast.TryStar) -> bool:
        """Whether a statement only guards against a missing framework, without which there is no workflow."""
        imports = [one for one in node.body if isinstance(one, ast.ImportFrom) and one.module and not one.level]
        guards = all(isinstance(one.type, ast.Name) and one.type.id in _IMPORT_ERRORS for one in node.handlers)
        others = (inner for one in node.handlers for inner in ast.walk(one))
        return (
            guards
            and any(self._modules.is_framework(str(one.module).partition(".")[0]) for one in imports)
            and not any(isinstance(one, ast.Import | ast.ImportFrom) for one in others)
        )

    def do_with(self, node: ast.With | ast.AsyncWith, scope: FlowScope) -> None:
        for item in node.items:
            values = self.value(item.context_expr, scope)
            if item.optional_vars is not None:
                same = all(isinstance(one, ObjectStub) and one.made_of is one.kind for one in values.known)
                self.assign(item.optional_vars, Values(values.known, values.complete and same), scope)
        self._block(node.body, scope)

    do_asyncwith = do_with


def _loaded(target: ast.expr) -> ast.expr:
    return ast.Name(target.id, ast.Load()) if isinstance(target, ast.Name) else target


def _are_collections(values: Values) -> bool:
    return bool(values.known) and all(isinstance(one, Sequence | Table) for one in values.known)


def _is_main(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == "__name__"


def _extends_path(call: ast.Call) -> bool:
    """Whether it is `sys.path.insert(...)` or the like."""
    match call.func:
        case ast.Attribute(value=ast.Attribute(value=ast.Name(id="sys"), attr="path"), attr="insert" | "append"):
            return True
    return False


def _is_text(node: ast.AST) -> TypeGuard[ast.Constant]:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


_DECLARATIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign | ast.Pass


# --- whole files

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
