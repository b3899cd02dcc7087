"""Finds out whether a function can make a workflow: it uses a framework, itself or through what it mentions.

This reads names only, and is much faster than interpreting the function.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from typing import Any

from guardagent.workflow.python_source.evaluator import Evaluator
from guardagent.workflow.python_source.programs.scopes import FlowScope, ProgramObject
from guardagent.workflow.python_source.values import (
    CallResult,
    Class,
    Function,
    ImportedName,
    NameScope,
    PartialFunction,
    Stub,
    is_member_of,
)


def uses_framework(value: object, packages: Collection[str]) -> bool:
    """Whether a function or class can use one of some packages."""
    seen: dict[int, object] = {}
    pending = [value]
    while pending:
        one = pending.pop()
        if id(one) in seen:
            continue
        seen[id(one)] = one
        if _is_of_framework(one, packages):
            return True
        pending += _mentioned(one)
    return False


def derives_from(made_of: Class, package: str, name: str) -> bool:
    """Whether a class of the program is derived from a class of a package."""
    evaluator = Evaluator(live=False, follow=lambda _function: False)
    for base in made_of.tree.bases:
        node = base.value if isinstance(base, ast.Subscript) else base
        for one in evaluator.value(node, made_of.scope).known:
            if is_member_of(one, package, name):
                return True
            if isinstance(one, Class) and one is not made_of and derives_from(one, package, name):
                return True
    return False


def _is_of_framework(value: object, packages: Collection[str]) -> bool:
    if isinstance(value, ImportedName):
        return value.path.partition(".")[0] in packages
    if isinstance(value, Function | Class):
        return any(name in packages for name in _imported_inside(value.tree))
    return isinstance(value, Stub) and type(value) is not ProgramObject


def _imported_inside(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").partition(".")[0]


def _mentioned(value: object) -> Iterator[Any]:
    """Yields the values that the code of a value mentions."""
    if isinstance(value, PartialFunction):
        yield value.function
        yield from _of_owner(value)
    elif isinstance(value, CallResult):
        yield value.callee
    elif isinstance(value, ProgramObject):
        yield value.made_of
        yield from (one for values in list(value.attributes.values()) for one in values.known)
    elif isinstance(value, Function | Class):
        for name in {node.id for node in ast.walk(value.tree) if isinstance(node, ast.Name)}:
            yield from _looked_up(name, value.scope)


def _of_owner(method: PartialFunction) -> Iterator[Any]:
    """Yields the attributes of the object of a method that its code mentions."""
    if not isinstance(method.function, Function):
        return
    mentioned = {node.attr for node in ast.walk(method.function.tree) if isinstance(node, ast.Attribute)}
    for owner in (one for values in method.arguments.positional[:1] for one in values.known):
        if isinstance(owner, ProgramObject):
            yield from (one for name in mentioned & owner.attributes.keys() for one in owner.attributes[name].known)


def _looked_up(name: str, scope: NameScope | None) -> Iterator[Any]:
    while scope is not None:
        if isinstance(scope, FlowScope) and name in scope.names:
            yield from scope.names[name].known
            return
        scope = scope.parent
