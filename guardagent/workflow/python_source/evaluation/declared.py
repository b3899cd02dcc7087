"""What the annotations of code say: the literals that a function returns, and the fields of a class."""

from __future__ import annotations

import ast
import inspect
import sys
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from enum import EnumType
from types import FunctionType
from typing import Any

from guardagent.workflow.python_source.evaluation.evaluating import Evaluating
from guardagent.workflow.python_source.evaluation.scope import LiveScope
from guardagent.workflow.python_source.evaluation.values import (
    NOTHING,
    UNKNOWN,
    Alias,
    Arguments,
    Class,
    Function,
    Imported,
    Instance,
    Made,
    Scope,
    Values,
    exactly,
    path_of,
)

_PLAIN = (str, int, bool, float, dict, list, tuple, set, bytes, object, type(None))


@dataclass(frozen=True)
class Part:
    """One type that an annotation names, and the generic types that it stands in, outermost first.

    `values` are the literals, where it is a `Literal` or an enumeration.
    """

    type: object
    within: tuple[str, ...] = ()
    values: Values | None = None


def parts(evaluator: Evaluating, annotation: object, scope: Scope, within: tuple[str, ...] = ()) -> Iterator[Part]:
    """The types that an annotation is made of, whether it is an object, a text or code."""
    if isinstance(annotation, str):
        try:
            annotation = ast.parse(annotation, mode="eval").body
        except (SyntaxError, ValueError):
            return
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        yield from parts(evaluator, annotation.value, scope, within)
    elif isinstance(annotation, ast.BinOp):
        yield from parts(evaluator, annotation.left, scope, within)
        yield from parts(evaluator, annotation.right, scope, within)
    elif isinstance(annotation, ast.Subscript):
        yield from _subscript(evaluator, annotation, scope, within)
    elif isinstance(annotation, ast.Tuple | ast.List):
        for one in annotation.elts:
            yield from parts(evaluator, one, scope, within)
    elif isinstance(annotation, ast.AST):
        yield from _named(evaluator, annotation, scope, within)
    else:
        yield from _live(evaluator, annotation, scope, within)


def returned(evaluator: Evaluating, function: FunctionType | Function) -> list[Part]:
    """The types that a function is declared to return."""
    if isinstance(function, Function):
        annotation = getattr(function.tree, "returns", None)
        return list(parts(evaluator, annotation, function.scope)) if annotation is not None else []
    annotation = getattr(function, "__annotations__", {}).get("return")
    return [] if annotation is None else list(parts(evaluator, annotation, LiveScope.of(function)))


def instance(evaluator: Evaluating, annotation: ast.AST | None, scope: Scope) -> Values:
    """Something of a declared type: one of its literals, or an object of a class whose fields are declared."""
    if annotation is None:
        return UNKNOWN
    result = NOTHING
    for part in parts(evaluator, annotation, scope):
        result |= _one_instance(part)
    return result if result.known else UNKNOWN


def _one_instance(part: Part) -> Values:
    if any(name != "Annotated" for name in part.within):  # an element of a list is not the list
        return UNKNOWN
    if part.values is not None:
        return part.values
    if isinstance(part.type, Class) or (isinstance(part.type, type) and part.type not in _PLAIN):
        return exactly(Instance(part.type))
    return UNKNOWN


def field(evaluator: Evaluating, owner: object, name: str) -> Values:
    """What a field of a class's objects can be, by its annotation."""
    if isinstance(owner, Class):
        return _field_in_code(evaluator, owner, name)
    if not isinstance(owner, type):
        return UNKNOWN
    for base in owner.__mro__:
        found = inspect.get_annotations(base).get(name)
        if found is not None:
            return _instance_of(evaluator, found, _module_scope(base))
    return UNKNOWN


def _instance_of(evaluator: Evaluating, annotation: object, scope: Scope) -> Values:
    result = NOTHING
    for part in parts(evaluator, annotation, scope):
        result |= _one_instance(part)
    return result if result.known else UNKNOWN


def _module_scope(owner: type) -> LiveScope:
    module = sys.modules.get(owner.__module__)
    return LiveScope(vars(module) if module else {})


def _field_in_code(evaluator: Evaluating, owner: Class, name: str) -> Values:
    for node in owner.tree.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == name:
            return instance(evaluator, node.annotation, owner.scope)
    for base in owner.tree.bases:
        for parent in evaluator.value(base, owner.scope).known:
            if isinstance(parent, Class) and (found := _field_in_code(evaluator, parent, name)).known:
                return found
    return UNKNOWN


def set_when_made(evaluator: Evaluating, owner: Made, maker: type, name: str) -> Values | None:
    """What an attribute is set to when an object of a live class is made; None where its class does not say."""
    fields = vars(maker).get("__dataclass_fields__")
    if isinstance(fields, dict):
        order = [one.name for one in fields.values() if one.init]
        return owner.arguments.get(name, order.index(name)) if name in order else None
    constructor = inspect.getattr_static(maker, "__init__", None)
    readable = evaluator.function(constructor) if isinstance(constructor, FunctionType) else None
    return _set_in(evaluator, owner, readable, name) if readable is not None else None


def set_by_constructor(evaluator: Evaluating, owner: Made, maker: Class, name: str) -> Values | None:
    """What `__init__` sets an attribute to, or a dataclass takes for it; None where neither says."""
    constructor = next(
        (one for one in maker.tree.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"), None
    )
    if constructor is None:
        return _dataclass_field(owner, maker, name)
    return _set_in(evaluator, owner, Function(constructor, maker.scope), name)


def _set_in(evaluator: Evaluating, owner: Made, constructor: Function, name: str) -> Values | None:
    given = owner.arguments
    scope = evaluator.inside(
        constructor, Arguments((exactly(owner), *given.positional), given.keywords, given.open)
    )  # fmt: skip
    result = NOTHING
    for node in ast.walk(constructor.tree):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None and _sets(node, name):
            result |= evaluator.value(node.value, scope)
    return result if result.known or not result.complete else None


def _sets(node: ast.Assign | ast.AnnAssign, name: str) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return any(isinstance(one, ast.Attribute) and one.attr == name for one in targets)


def _dataclass_field(owner: Made, maker: Class, name: str) -> Values | None:
    declared = [one.target for one in maker.tree.body if isinstance(one, ast.AnnAssign)]
    fields = [one.id for one in declared if isinstance(one, ast.Name)]
    return owner.arguments.get(name, fields.index(name)) if name in fields else None


def _subscript(evaluator: Evaluating, node: ast.Subscript, scope: Scope, within: tuple[str, ...]) -> Iterator[Part]:
    generic = evaluator.value(node.value, scope)
    name = next((_last(one) for one in generic.known), "") or _written(node.value)
    if name == "Literal":
        yield Part(None, within, _literals(evaluator, node.slice, scope))
        return
    if name not in {"Union", "Optional"}:
        yield from (Part(one, within) for one in generic.known)
        within = (*within, name)
    inner = node.slice
    if name == "Annotated" and isinstance(inner, ast.Tuple):
        inner = inner.elts[0]
    yield from parts(evaluator, inner, scope, within)


def _literals(evaluator: Evaluating, node: ast.AST, scope: Scope) -> Values:
    result = NOTHING
    for one in node.elts if isinstance(node, ast.Tuple) else [node]:
        if isinstance(one, ast.Starred):
            result |= evaluator.elements(evaluator.value(one.value, scope))
        else:
            values = evaluator.value(one, scope)
            nested = [item for item in values.known if isinstance(item, list | tuple)]
            result |= evaluator.elements(values) if nested else values
    return result


def _named(evaluator: Evaluating, node: ast.AST, scope: Scope, within: tuple[str, ...]) -> Iterator[Part]:
    """A name in an annotation: a class, or another annotation that was given a name."""
    if isinstance(node, ast.Name):
        where: Scope | None = scope
        while where is not None:
            for binding in where.find(node.id):
                if isinstance(binding.source, ast.Subscript | ast.BinOp) and not binding.steps:
                    yield from parts(evaluator, binding.source, where, within)
                    return
            where = where.parent if not where.find(node.id) else None
    for one in evaluator.value(node, scope).known:
        if isinstance(one, Alias):
            yield from parts(evaluator, one.node, one.scope, within)
        else:
            yield from _live(evaluator, one, scope, within)


def _live(evaluator: Evaluating, annotation: object, scope: Scope, within: tuple[str, ...]) -> Iterator[Part]:
    annotation = getattr(annotation, "__value__", annotation)  # of `type Name = ...`
    origin = typing.get_origin(annotation)
    if origin is None:
        yield Part(annotation, within, _members(annotation))
        return
    inner = typing.get_args(annotation)
    if origin is typing.Literal:
        yield Part(None, within, Values(inner))
        return
    if origin is typing.Annotated or hasattr(annotation, "__metadata__"):
        inner, name = inner[:1], "Annotated"
    else:
        name = _last(origin)
    if name not in {"Union", "UnionType", "Optional"}:
        yield Part(origin, within)
        within = (*within, name)
    for one in inner:
        yield from parts(evaluator, one.__forward_arg__ if isinstance(one, typing.ForwardRef) else one, scope, within)


def _members(annotation: object) -> Values | None:
    return Values(tuple(annotation)) if isinstance(annotation, EnumType) else None


def _last(one: Any) -> str:
    if isinstance(one, Imported):
        return one.path.rpartition(".")[2]
    return getattr(one, "__name__", None) or getattr(one, "_name", None) or path_of(one).rpartition(".")[2]


def _written(node: ast.AST) -> str:
    return getattr(node, "attr", getattr(node, "id", ""))
