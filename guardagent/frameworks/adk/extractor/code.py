"""Analyses the functions of an ADK program: whether they ask a person, escalate, or run other nodes."""

from __future__ import annotations

import ast
import copy
import inspect
from functools import cached_property

from guardagent.workflow.extraction.objects import UnknownValue
from guardagent.workflow.python_source.bodies import Flow, FrameworkNames
from guardagent.workflow.python_source.steps import FunctionCode, is_method
from guardagent.workflow.python_source.values import Values

_WORDS = FrameworkNames(("google",), frozenset({("google", "RequestInput")}))
_Definition = ast.FunctionDef | ast.AsyncFunctionDef


class AdkCode(FunctionCode):
    """The code of a function, a method or an object of an ADK program."""

    def __init__(self, target: object) -> None:
        super().__init__(target, _WORDS)

    @cached_property
    def confirms(self) -> bool:
        """Whether it asks for the confirmation of a call, perhaps under a condition."""
        return any(_is_request(call) for body in self.bodies for call in body.calls)

    @cached_property
    def always_confirms(self) -> bool:
        """Whether an unconfirmed call always asks for confirmation."""
        if self.body is None or isinstance(self.body.function.tree, ast.Lambda):
            return False
        return Flow(_unconfirmed(self.body.function.tree), _is_request).always_asks

    @cached_property
    def escalates(self) -> bool:
        """Whether it can end the enclosing loop; assumed if it cannot be read and takes a context."""
        if self.body is None:
            return self._takes_context
        return any(escalates(node) is not None for body in self.bodies for node in ast.walk(body.function.tree))

    @property
    def _takes_context(self) -> bool:
        if isinstance(self.target, UnknownValue):
            return True
        try:
            parameters = inspect.signature(self.target).parameters  # type: ignore[arg-type]
        except (TypeError, ValueError):
            return False
        return any("context" in name or name == "ctx" for name in parameters)

    @cached_property
    def runs(self) -> tuple[Values, ...]:
        """The values that it passes to `ctx.run_node`."""
        return tuple(self.shown(values) for values, _, _ in self.arguments_of("run_node", names=("node_like", "node")))


def _is_request(call: ast.Call) -> bool:
    return is_method(call, "request_confirmation")


def _unconfirmed(tree: _Definition) -> _Definition:
    """A function as it runs before confirmation, without the branches for confirmed calls."""
    assigned = [node for node in ast.walk(tree) if isinstance(node, ast.Assign) and _is_confirmation(node.value, set())]
    names = {target.id for node in assigned for target in node.targets if isinstance(target, ast.Name)}
    result: _Definition = _UnconfirmedBranches(names).visit(copy.deepcopy(tree))
    return result


class _UnconfirmedBranches(ast.NodeTransformer):
    """Replaces each `if` by the branch that runs without a confirmation."""

    def __init__(self, names: set[str]) -> None:
        self._names = names

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        holds = _holds(node.test, self._names)
        if holds is None:
            return node
        return (node.body if holds else node.orelse) or [ast.Pass()]


def _holds(test: ast.expr, names: set[str]) -> bool | None:
    """Whether a test holds without a confirmation; None if it depends on something else."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            inside = _holds(inner, names)
            return None if inside is None else not inside
        case ast.Compare(left=left, ops=[ast.Is() | ast.Eq()], comparators=[ast.Constant(value=None)]):
            return True if _is_confirmation(left, names) else None
        case ast.Compare(left=left, ops=[ast.IsNot() | ast.NotEq()], comparators=[ast.Constant(value=None)]):
            return False if _is_confirmation(left, names) else None
        case ast.BoolOp(op=ast.And(), values=values):
            found = {_holds(one, names) for one in values}
            return False if False in found else True if found == {True} else None
        case ast.BoolOp(op=ast.Or(), values=values):
            found = {_holds(one, names) for one in values}
            return True if True in found else False if found == {False} else None
    return False if _is_confirmation(test, names) else None


def _is_confirmation(node: ast.expr, names: set[str]) -> bool:
    attribute = isinstance(node, ast.Attribute) and node.attr == "tool_confirmation"
    return attribute or (isinstance(node, ast.Name) and node.id in names)


def escalates(node: ast.AST) -> ast.expr | None:
    """The value assigned or passed to `escalate`; None if there is none, or it is a false constant."""
    match node:
        case ast.Assign(targets=[*_, ast.Attribute(attr="escalate")], value=value):
            return value if _can_be(value) else None
        case ast.keyword(arg="escalate", value=value):
            return value if _can_be(value) else None
    return None


def _can_be(value: ast.expr) -> bool:
    return not (isinstance(value, ast.Constant) and not value.value)
