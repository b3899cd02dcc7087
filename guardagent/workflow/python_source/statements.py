"""Executes the statements of a program abstractly: every branch, and each round of a loop over known values."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeGuard

from guardagent.workflow.python_source import stubs
from guardagent.workflow.python_source.effects import Effects, scope_of, unordered
from guardagent.workflow.python_source.modules import FlowScope, file_of
from guardagent.workflow.python_source.scopes import bound_names, statements
from guardagent.workflow.python_source.stubs import ObjectStub, Program
from guardagent.workflow.python_source.values import (
    NOTHING,
    UNKNOWN,
    Arguments,
    Binding,
    Sequence,
    Table,
    Values,
    exactly,
    is_true,
)

MOST_ROUNDS = 200
_IMPORT_ERRORS = {"ImportError", "ModuleNotFoundError"}


class BlockExit(Exception):  # noqa: N818 - no error
    """The rest of a block is unreachable."""


class _LoopContinue(BlockExit):
    """The rest of a round of a loop is unreachable."""


class _LoopBreak(BlockExit):
    """The rest of a loop is unreachable."""


class Statements:
    """Executes the statements of a file, and of the functions that these call.

    Attributes:
        returns: for each function that is being executed, the values that it returns.
        certain: the depth at which a `break` certainly leaves the loop.
    """

    def __init__(self, program: Program, effects: Effects, end: Callable[[Path, int], None]) -> None:
        self._program, self._effects, self._end = program, effects, end
        self.returns: list[Values] = []
        self.certain = -1
        self._broken: list[list[dict[str, Values]]] = []  # for each loop, the names at each `break` that is not certain

    def run(self, body: Iterable[ast.stmt], scope: FlowScope) -> None:
        for statement in body:
            run = getattr(self, f"do_{type(statement).__name__.lower()}", None)
            if run is None:
                continue
            if self._program.budget.left:
                try:
                    run(statement, scope)
                except RecursionError:
                    self._leave(statement, scope)
            else:
                self._leave(statement, scope)

    def _leave(self, statement: ast.stmt, scope: FlowScope) -> None:
        """Leaves a statement aside: the names that it binds, and what the function returns, can be anything."""
        self._program.left_aside += 1
        self._end(file_of(scope), statement.lineno)
        nodes = list(statements([statement]))
        for name in dict.fromkeys(name for node in nodes for name in bound_names(node)):
            names = scope_of(name, scope).names
            names[name] = names.get(name, NOTHING) | UNKNOWN
        if self.returns and any(isinstance(node, ast.Return | ast.Yield) for node in nodes):
            self.returns[-1] |= UNKNOWN

    def do_expr(self, node: ast.Expr, scope: FlowScope) -> None:
        if isinstance(node.value, ast.Call) and _extends_path(node.value):
            self._program.modules.add_folder([str(node.value) for node in ast.walk(node) if _is_text(node)], scope)
        else:
            self._program.value(node.value, scope)

    def do_assign(self, node: ast.Assign, scope: FlowScope) -> None:
        values = self._program.value(node.value, scope)
        for target in node.targets:
            self._effects.assign(target, values, scope)
        if isinstance(node.value, ast.Call | ast.Await) and len(values.known) == 1:
            stubs.name_after(values.known[0], node.targets[0])

    def do_annassign(self, node: ast.AnnAssign, scope: FlowScope) -> None:
        if node.value is not None:
            self._effects.assign(node.target, self._program.value(node.value, scope), scope)

    def do_augassign(self, node: ast.AugAssign, scope: FlowScope) -> None:
        read = ast.copy_location(_loaded(node.target), node)
        before = self._program.value(read, scope)
        if isinstance(node.op, ast.Add | ast.BitOr) and _are_collections(before):
            added = Arguments((self._program.value(node.value, scope),))
            self._effects.change_by_method(
                read, before, "update" if isinstance(node.op, ast.BitOr) else "extend", added, scope
            )
            return
        result = self._program.value(ast.copy_location(ast.BinOp(read, node.op, node.value), node), scope)
        self._effects.assign(node.target, result, scope)

    def do_functiondef(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: FlowScope) -> None:
        scope.names[node.name] = self._program.value(node, scope)

    do_asyncfunctiondef = do_functiondef

    def do_classdef(self, node: ast.ClassDef, scope: FlowScope) -> None:
        scope.names[node.name] = self._program.value(node, scope)
        body = [statement for statement in node.body if not isinstance(statement, _DECLARATIONS)]
        if any(isinstance(node, ast.Call) for part in body for node in ast.walk(part)):
            with contextlib.suppress(BlockExit):
                self.run(body, FlowScope(node, scope))

    def do_import(self, node: ast.Import, scope: FlowScope) -> None:
        for alias in node.names:
            name = alias.asname or alias.name.partition(".")[0]
            scope.names[name] = self._program.import_any(node, Binding(node, (name,)), scope)

    def do_importfrom(self, node: ast.ImportFrom, scope: FlowScope) -> None:
        for alias in node.names:
            if alias.name == "*":
                self._import_all(node, scope)
            else:
                name = alias.asname or alias.name
                scope.names[name] = self._program.import_any(node, Binding(node, (name,)), scope)

    def _import_all(self, node: ast.ImportFrom, scope: FlowScope) -> None:
        """Executes `from module import *`: binds the names of a file, or records a framework for unknown names."""
        if (names := self._program.modules.all_imported(node, scope)) is not None:
            scope.names |= names
        elif node.module and self._program.modules.is_framework(node.module.partition(".")[0]):
            self._program.starred.append(node.module)

    def do_return(self, node: ast.Return, scope: FlowScope) -> None:
        values = self._program.value(node.value, scope) if node.value is not None else exactly(None)
        if self.returns:
            self.returns[-1] |= values
        raise BlockExit

    def do_raise(self, _node: ast.Raise, _scope: FlowScope) -> None:
        raise BlockExit

    def do_if(self, node: ast.If, scope: FlowScope) -> None:
        test = self._program.value(node.test, scope)
        if _is_main(node.test) and file_of(scope) == self._program.file:
            self.run(node.body, scope)
        elif test.complete and len(test.known) == 1 and not test.cyclic and is_true(test.known[0]) is not None:
            self.run(node.body if is_true(test.known[0]) else node.orelse, scope)
        else:
            self._branches([node.body, node.orelse], scope)

    def do_match(self, node: ast.Match, scope: FlowScope) -> None:
        self._program.value(node.subject, scope)
        self._branches([*(case.body for case in node.cases), []], scope)

    def _branches(self, bodies: list[list[ast.stmt]], scope: FlowScope) -> None:
        """Executes all branches from the same point, and joins them."""
        before = dict(scope.names)
        ends: list[dict[str, Values]] = []
        self._program.depth += 1
        for body in bodies:
            scope.names = dict(before)
            try:
                self.run(body, scope)
            except BlockExit:
                continue
            ends.append(scope.names)
        self._program.depth -= 1
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
        values = self._program.value(node.iter, scope)
        items = self._program.ordered_elements(values)
        if items is not None and len(items) <= MOST_ROUNDS:
            self._each_round(node, items, scope)
            return
        elements = self._program.elements(values)
        if not values.complete and len(values.known) == 1:  # the known elements, and then perhaps others
            known = self._program.ordered_elements(exactly(*values.known))
            if known and len(known) <= MOST_ROUNDS:
                self._each_round(node, known, scope)
                elements = UNKNOWN
        self._effects.assign(node.target, elements, scope)
        self._repeat([*node.body], scope)
        self.run(node.orelse, scope)

    do_asyncfor = do_for

    def _each_round(self, node: ast.For | ast.AsyncFor, items: list[Values], scope: FlowScope) -> None:
        """Executes a loop over known values round by round."""
        before, self.certain = self.certain, self._program.depth
        self._broken.append([])
        try:
            for item in items:
                if not self._program.budget.left:
                    self._leave(node, scope)
                    return
                self._effects.assign(node.target, item, scope)
                with contextlib.suppress(_LoopContinue):
                    self.run(node.body, scope)
            self.run(node.orelse, scope)
        except _LoopBreak:
            pass
        finally:
            self.certain = before
            for end in self._broken.pop():
                scope.join(end)

    def do_while(self, node: ast.While, scope: FlowScope) -> None:
        self._program.value(node.test, scope)
        self._repeat(node.body, scope)

    def _repeat(self, body: list[ast.stmt], scope: FlowScope) -> None:
        """Executes a loop with an unknown number of rounds: zero, one or more."""
        before, self.certain = self.certain, -1
        self._program.rounds.append({})
        try:
            for _ in range(2):
                self._broken.append([])
                self._branches([body, []], scope)
                for end in self._broken.pop():
                    scope.join(end)
        finally:
            self._program.rounds.pop()
            self.certain = before

    def do_break(self, _node: ast.Break, scope: FlowScope) -> None:
        """Leaves a loop if that is certain; otherwise also executes the following code, and joins both ends."""
        if self._program.depth == self.certain:
            raise _LoopBreak
        if self._broken:
            self._broken[-1].append(dict(scope.names))

    def do_continue(self, _node: ast.Continue, _scope: FlowScope) -> None:
        if self._program.depth == self.certain:
            raise _LoopContinue

    def do_try(self, node: ast.Try, scope: FlowScope) -> None:
        before = dict(scope.names)
        try:
            self.run([*node.body, *node.orelse], scope)
        except BlockExit:
            self.run(node.finalbody, scope)
            raise
        after = dict(scope.names)
        self._program.depth += 1
        for handler in [] if self._imports_framework(node) else node.handlers:
            scope.names = {**before, **({handler.name: UNKNOWN} if handler.name else {})}
            try:
                self.run(handler.body, scope)
            except BlockExit:
                continue
            scope.join(after)
            after = dict(scope.names)
        self._program.depth -= 1
        scope.names = after
        self.run(node.finalbody, scope)

    do_trystar = do_try

    def _imports_framework(self, node: ast.Try | ast.TryStar) -> bool:
        """Whether a statement only guards against a missing framework, without which there is no workflow."""
        imports = [
            statement
            for statement in node.body
            if isinstance(statement, ast.ImportFrom) and statement.module and not statement.level
        ]
        guards = all(
            isinstance(handler.type, ast.Name) and handler.type.id in _IMPORT_ERRORS for handler in node.handlers
        )
        others = (inner for handler in node.handlers for inner in ast.walk(handler))
        return (
            guards
            and any(
                self._program.modules.is_framework(str(statement.module).partition(".")[0]) for statement in imports
            )
            and not any(isinstance(other, ast.Import | ast.ImportFrom) for other in others)
        )

    def do_with(self, node: ast.With | ast.AsyncWith, scope: FlowScope) -> None:
        for item in node.items:
            values = self._program.value(item.context_expr, scope)
            if item.optional_vars is not None:
                same = all(isinstance(value, ObjectStub) and value.made_of is value.kind for value in values.known)
                self._effects.assign(item.optional_vars, Values(values.known, values.complete and same), scope)
        self.run(node.body, scope)

    do_asyncwith = do_with


def _loaded(target: ast.expr) -> ast.expr:
    return ast.Name(target.id, ast.Load()) if isinstance(target, ast.Name) else target


def _are_collections(values: Values) -> bool:
    return bool(values.known) and all(isinstance(value, Sequence | Table) for value in values.known)


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
