"""Reads annotations: the literals that a function returns, and the fields of a class.

`EvaluatorProtocol` is the interface of the evaluator for this file and `builtins.py`, which the evaluator imports.
"""

from __future__ import annotations

import ast
import inspect
import sys
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from enum import EnumType
from types import FunctionType
from typing import Any, Protocol

from guardagent.workflow.python_source.scopes import LiveScope
from guardagent.workflow.python_source.values import (
    NOTHING,
    UNKNOWN,
    Alias,
    Arguments,
    CallResult,
    Class,
    Function,
    ImportedName,
    Instance,
    NameScope,
    Values,
    exactly,
    path_of,
    union,
)

SOME_STRING = Values((Instance(str),), complete=False)
"""A string that the source does not determine."""


class EvaluatorProtocol(Protocol):
    """Evaluates expressions, names, attributes and calls; see `Evaluator` for each method."""

    executing: bool

    def value(self, node: ast.AST | None, scope: NameScope) -> Values: ...

    def name(self, name: str, scope: NameScope | None) -> Values: ...

    def resolved_import(self, path: str) -> Values: ...

    def attribute(self, owner: object, name: str) -> Values: ...

    def item(self, owner: object, key: Values) -> Values: ...

    def pairs(self, owner: object) -> list[tuple[Values, Values]] | None: ...

    def elements(self, values: Values) -> Values: ...

    def ordered_elements(self, values: Values) -> list[Values] | None: ...

    def strings(self, parts: list[Values]) -> Values: ...

    def call(self, target: object, arguments: Arguments, line: int = 0) -> Values: ...

    def function(self, function: FunctionType) -> Function | None: ...

    def body_scope(self, function: Function, arguments: Arguments) -> NameScope: ...


_PLAIN = (str, int, bool, float, dict, list, tuple, set, bytes, object, type(None))


@dataclass(frozen=True)
class AnnotatedType:
    """One type in an annotation, and the generic types around it, outermost first.

    `values` are the values of a `Literal` or an enumeration.
    """

    type: object
    within: tuple[str, ...] = ()
    values: Values | None = None


def annotated_types(
    evaluator: EvaluatorProtocol, annotation: object, scope: NameScope, within: tuple[str, ...] = ()
) -> Iterator[AnnotatedType]:
    """Yields the types in an annotation, which is an object, a string or code."""
    if isinstance(annotation, str):
        try:
            annotation = ast.parse(annotation, mode="eval").body
        except (SyntaxError, ValueError):
            return
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        yield from annotated_types(evaluator, annotation.value, scope, within)
    elif isinstance(annotation, ast.BinOp):
        yield from annotated_types(evaluator, annotation.left, scope, within)
        yield from annotated_types(evaluator, annotation.right, scope, within)
    elif isinstance(annotation, ast.Subscript):
        yield from _subscript(evaluator, annotation, scope, within)
    elif isinstance(annotation, ast.Tuple | ast.List):
        for elt in annotation.elts:
            yield from annotated_types(evaluator, elt, scope, within)
    elif isinstance(annotation, ast.AST):
        yield from _named(evaluator, annotation, scope, within)
    else:
        yield from _live(evaluator, annotation, scope, within)


def return_types(evaluator: EvaluatorProtocol, function: FunctionType | Function) -> list[AnnotatedType]:
    """Returns the declared return types of a function."""
    if isinstance(function, Function):
        annotation = getattr(function.tree, "returns", None)
        return list(annotated_types(evaluator, annotation, function.scope)) if annotation is not None else []
    annotation = getattr(function, "__annotations__", {}).get("return")
    return [] if annotation is None else list(annotated_types(evaluator, annotation, LiveScope.of(function)))


def _one_instance(evaluator: EvaluatorProtocol, part: AnnotatedType) -> Values:
    if any(name != "Annotated" for name in part.within):  # the type of an element is not the type of the list
        return UNKNOWN
    if part.values is not None:
        return part.values
    if isinstance(part.type, Class) or (isinstance(part.type, type) and part.type not in _PLAIN):
        return exactly(Instance(part.type))
    return SOME_STRING if part.type is str and not evaluator.executing else UNKNOWN


def field_value(evaluator: EvaluatorProtocol, owner: object, name: str) -> Values:
    """Returns the possible values of a field, by the annotation in its class."""
    if isinstance(owner, Class):
        return _field_in_code(evaluator, owner, name)
    if not isinstance(owner, type):
        return UNKNOWN
    for base in owner.__mro__:
        annotation = inspect.get_annotations(base).get(name)
        if annotation is not None:
            return annotated_value(evaluator, annotation, _module_scope(base))
    return UNKNOWN


def annotated_value(evaluator: EvaluatorProtocol, annotation: object, scope: NameScope) -> Values:
    """Returns the possible values of a declared type: its literals, also beside None, or an instance of its class."""
    parts = list(annotated_types(evaluator, annotation, scope))
    some = [part for part in parts if part.values is not None or part.type not in (None, type(None))]
    if len(some) < len(parts) and all(part.values is not None for part in some):
        return union([_one_instance(evaluator, part) for part in some]) | exactly(None) if some else UNKNOWN
    result = union([_one_instance(evaluator, part) for part in parts])
    return result if result.known else UNKNOWN


def _module_scope(owner: type) -> LiveScope:
    module = sys.modules.get(owner.__module__)
    return LiveScope(vars(module) if module else {})


def _field_in_code(evaluator: EvaluatorProtocol, owner: Class, name: str) -> Values:
    for node in owner.tree.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == name:
            return annotated_value(evaluator, node.annotation, owner.scope)
    for base in owner.tree.bases:
        for parent in evaluator.value(base, owner.scope).known:
            if isinstance(parent, Class) and (field := _field_in_code(evaluator, parent, name)).known:
                return field
    return UNKNOWN


def constructed_attribute(evaluator: EvaluatorProtocol, owner: CallResult, maker: type, name: str) -> Values | None:
    """Returns the value of an attribute of a new object of a live class; None if its class does not define one."""
    fields = vars(maker).get("__dataclass_fields__")
    if isinstance(fields, dict):
        order = [field.name for field in fields.values() if field.init]
        return owner.arguments.get(name, order.index(name)) if name in order else None
    constructor = inspect.getattr_static(maker, "__init__", None)
    readable = evaluator.function(constructor) if isinstance(constructor, FunctionType) else None
    return _assigned_in(evaluator, owner, readable, name) if readable is not None else None


def constructor_attribute(evaluator: EvaluatorProtocol, owner: CallResult, maker: Class, name: str) -> Values | None:
    """Returns the value that `__init__` or a dataclass assigns to an attribute; None if neither does."""
    methods = (node for node in maker.tree.body if isinstance(node, ast.FunctionDef))
    constructor = next((method for method in methods if method.name == "__init__"), None)
    if constructor is None:
        fields = fields_of(maker)
        return owner.arguments.get(name, fields.index(name)) if name in fields else None
    return _assigned_in(evaluator, owner, Function(constructor, maker.scope), name)


def _assigned_in(evaluator: EvaluatorProtocol, owner: CallResult, constructor: Function, name: str) -> Values | None:
    arguments = owner.arguments
    scope = evaluator.body_scope(
        constructor, Arguments((exactly(owner), *arguments.positional), arguments.keywords, arguments.open)
    )  # fmt: skip
    result = NOTHING
    for node in ast.walk(constructor.tree):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None and _assigns(node, name):
            result |= evaluator.value(node.value, scope)
    return result if result.known or not result.complete else None


def _assigns(node: ast.Assign | ast.AnnAssign, name: str) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return any(isinstance(target, ast.Attribute) and target.attr == name for target in targets)


def fields_of(made_of: Class) -> list[str]:
    """Returns the names that a class in code declares with their types."""
    declared = [node.target for node in made_of.tree.body if isinstance(node, ast.AnnAssign)]
    return [target.id for target in declared if isinstance(target, ast.Name)]


def _subscript(
    evaluator: EvaluatorProtocol, node: ast.Subscript, scope: NameScope, within: tuple[str, ...]
) -> Iterator[AnnotatedType]:
    generic = evaluator.value(node.value, scope)
    name = next((_last_name(value) for value in generic.known), "") or _source_name(node.value)
    if name == "Literal":
        yield AnnotatedType(None, within, _literals(evaluator, node.slice, scope))
        return
    if name not in {"Union", "Optional"}:
        yield from (AnnotatedType(value, within) for value in generic.known)
        within = (*within, name)
    inner = node.slice
    if name == "Annotated" and isinstance(inner, ast.Tuple):
        inner = inner.elts[0]
    yield from annotated_types(evaluator, inner, scope, within)


def _literals(evaluator: EvaluatorProtocol, node: ast.AST, scope: NameScope) -> Values:
    result = NOTHING
    for elt in node.elts if isinstance(node, ast.Tuple) else [node]:
        if isinstance(elt, ast.Starred):
            result |= evaluator.elements(evaluator.value(elt.value, scope))
        else:
            values = evaluator.value(elt, scope)
            nested = [item for item in values.known if isinstance(item, list | tuple)]
            result |= evaluator.elements(values) if nested else values
    return result


def _named(
    evaluator: EvaluatorProtocol, node: ast.AST, scope: NameScope, within: tuple[str, ...]
) -> Iterator[AnnotatedType]:
    """Yields the types of a name in an annotation: a class, or an alias of another annotation."""
    if isinstance(node, ast.Name):
        where: NameScope | None = scope
        while where is not None:
            for binding in where.find(node.id):
                if isinstance(binding.source, ast.Subscript | ast.BinOp) and not binding.steps:
                    yield from annotated_types(evaluator, binding.source, where, within)
                    return
            where = where.parent if not where.find(node.id) else None
    for value in evaluator.value(node, scope).known:
        if isinstance(value, Alias):
            yield from annotated_types(evaluator, value.node, value.scope, within)
        else:
            yield from _live(evaluator, value, scope, within)


def _live(
    evaluator: EvaluatorProtocol, annotation: object, scope: NameScope, within: tuple[str, ...]
) -> Iterator[AnnotatedType]:
    annotation = getattr(annotation, "__value__", annotation)  # of `type Name = ...`
    origin = typing.get_origin(annotation)
    if origin is None:
        members = members_of(evaluator, annotation)
        yield AnnotatedType(annotation, within, None if members is None else union(members))
        return
    inner = typing.get_args(annotation)
    if origin is typing.Literal:
        yield AnnotatedType(None, within, Values(inner))
        return
    if origin is typing.Annotated or hasattr(annotation, "__metadata__"):
        inner, name = inner[:1], "Annotated"
    else:
        name = _last_name(origin)
    if name not in {"Union", "UnionType", "Optional"}:
        yield AnnotatedType(origin, within)
        within = (*within, name)
    for type_argument in inner:
        yield from annotated_types(
            evaluator,
            type_argument.__forward_arg__ if isinstance(type_argument, typing.ForwardRef) else type_argument,
            scope,
            within,
        )


def bases_of(owner: Class) -> list[str]:
    """Returns the names of the base classes of a class in code."""
    return [getattr(base, "id", getattr(base, "attr", "")) for base in owner.tree.bases]


def is_enumeration(kind: object) -> bool:
    """Whether a class in code is an enumeration."""
    return isinstance(kind, Class) and any("Enum" in base for base in bases_of(kind))


def members_of(evaluator: EvaluatorProtocol, kind: object) -> list[Values] | None:
    """Returns the members of an enumeration, in order; None for another class."""
    if isinstance(kind, EnumType):
        return list(map(exactly, kind))
    if not isinstance(kind, Class) or not is_enumeration(kind):
        return None
    targets = [node.targets[0] for node in kind.tree.body if isinstance(node, ast.Assign)]
    return [evaluator.attribute(kind, target.id) for target in targets if isinstance(target, ast.Name)]


def _last_name(value: Any) -> str:
    if isinstance(value, ImportedName):
        return value.path.rpartition(".")[2]
    return getattr(value, "__name__", None) or getattr(value, "_name", None) or path_of(value).rpartition(".")[2]


def _source_name(node: ast.AST) -> str:
    return getattr(node, "attr", getattr(node, "id", ""))
