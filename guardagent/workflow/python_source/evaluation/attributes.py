"""Looks up attributes without running properties or `__getattr__`."""

from __future__ import annotations

import functools
import inspect
import sys
from enum import Enum, EnumType
from types import FunctionType, GetSetDescriptorType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

from guardagent.workflow.python_source import types
from guardagent.workflow.python_source.evaluation.protocol import EvaluatorProtocol
from guardagent.workflow.python_source.scopes import CodeScope
from guardagent.workflow.python_source.values import (
    UNKNOWN,
    Arguments,
    Attribute,
    CallResult,
    Class,
    Function,
    ImportedName,
    Instance,
    PartialFunction,
    Sequence,
    Stub,
    Table,
    Values,
    exactly,
)

_MISSING: Any = object()
_STAND_INS = (Stub, CallResult, Sequence, Table, PartialFunction, Attribute, Function)


def look_up(evaluator: EvaluatorProtocol, owner: object, name: str) -> Values:
    """Returns the possible values of an attribute of one value."""
    if isinstance(owner, ImportedName):
        return evaluator.resolved_import(f"{owner.path}.{name}")
    if isinstance(owner, Stub) and (known := owner.attribute(name)) is not None:
        return known
    if isinstance(owner, Instance):
        return _of_instance(evaluator, owner, name)
    if isinstance(owner, Class):
        return _of_class(evaluator, owner, name)
    if isinstance(owner, CallResult) and isinstance(owner.callee, Class):
        return _of_result(evaluator, owner, owner.callee, name)
    if isinstance(owner, CallResult) and isinstance(owner.callee, type) and not is_library(owner.callee):
        return _of_live_result(evaluator, owner, owner.callee, name)
    if isinstance(owner, str) and name == "value" and not _is_enum(owner):  # a member of an enumeration in code
        return exactly(owner)
    if isinstance(owner, _STAND_INS) or (isinstance(owner, str | list | tuple | set | dict) and not _is_enum(owner)):
        return exactly(Attribute(owner, name))
    return _of_live(evaluator, owner, name)


def members_of(owner: type) -> tuple[object, ...] | None:
    """Returns the members of an enumeration; None for another class."""
    return tuple(owner) if isinstance(owner, EnumType) else None


def call_method(target: object) -> MethodType | None:
    """Returns the `__call__` method of a live object, if its class defines one in Python."""
    found = inspect.getattr_static(type(target), "__call__", None)
    return MethodType(found, target) if isinstance(found, FunctionType) else None


def wrapped_by(target: object) -> object | None:
    """Returns the `__wrapped__` function of a live object, as `functools.wraps` and `functools.cache` set it."""
    return _instance_dict(target).get("__wrapped__")


def _is_enum(owner: object) -> bool:
    return isinstance(owner, Enum)


def _of_live(evaluator: EvaluatorProtocol, owner: object, name: str) -> Values:
    if isinstance(owner, ModuleType):
        return exactly(vars(owner)[name]) if name in vars(owner) else UNKNOWN
    if isinstance(owner, EnumType) and name in owner.__members__:
        return exactly(owner.__members__[name])
    if isinstance(owner, Enum) and name in {"value", "name"}:
        return exactly(owner.value if name == "value" else owner.name)
    for one in (name, *_mangled(owner, name)):
        found = inspect.getattr_static(owner, one, _MISSING)
        if found is not _MISSING:
            return _unwrapped(evaluator, owner, one, found)
    return UNKNOWN


def _mangled(owner: object, name: str) -> list[str]:
    """Returns the mangled forms of a private name such as `__graph`, for each class of an object."""
    if not name.startswith("__") or name.endswith("__"):
        return []
    kinds = type.mro(owner) if isinstance(owner, type) else type(owner).__mro__
    return [f"_{kind.__name__.lstrip('_')}{name}" for kind in kinds]


def _unwrapped(evaluator: EvaluatorProtocol, owner: object, name: str, found: object) -> Values:
    """Returns the value of an attribute that was found on an object or its class."""
    if isinstance(found, staticmethod):
        return exactly(found.__func__)
    if isinstance(found, classmethod):
        return exactly(PartialFunction(found.__func__, _bound_to(owner if isinstance(owner, type) else type(owner))))
    if isinstance(found, property | functools.cached_property):
        getter = found.fget if isinstance(found, property) else found.func
        return evaluator.call(getter, _bound_to(owner)) if getter is not None else UNKNOWN
    if isinstance(found, FunctionType) and not isinstance(owner, type) and name not in _instance_dict(owner):
        return exactly(PartialFunction(found, _bound_to(owner)))
    if isinstance(found, MemberDescriptorType):
        return exactly(found.__get__(owner)) if not isinstance(owner, type) else UNKNOWN
    return UNKNOWN if isinstance(found, GetSetDescriptorType) else exactly(found)


def _instance_dict(owner: object) -> dict[str, object]:
    """Returns the `__dict__` of an object, without its `__getattribute__`."""
    try:
        own = object.__getattribute__(owner, "__dict__")
    except AttributeError:
        return {}
    return own if isinstance(own, dict) else {}


def _bound_to(owner: object) -> Arguments:
    return Arguments((exactly(owner),))


def _of_instance(evaluator: EvaluatorProtocol, owner: Instance, name: str) -> Values:
    declared_value = types.field_value(evaluator, owner.of, name)
    if declared_value.known or not isinstance(owner.of, type | Class):
        return declared_value
    if name in {"get", "pop", "setdefault"}:
        return exactly(Attribute(owner, name))
    found = inspect.getattr_static(owner.of, name, _MISSING) if isinstance(owner.of, type) else _MISSING
    if isinstance(found, FunctionType):
        return exactly(PartialFunction(found, Arguments((exactly(owner),))))
    if isinstance(found, property) and found.fget is not None:
        return evaluator.call(found.fget, Arguments((exactly(owner),)))
    return _of_class(evaluator, owner.of, name) if isinstance(owner.of, Class) else UNKNOWN


def _of_class(evaluator: EvaluatorProtocol, owner: Class, name: str) -> Values:
    """Looks up an attribute of a class in code, then of its base classes."""
    scope = CodeScope(owner.tree, owner.scope)
    if scope.find(name):
        found = evaluator.name(name, scope)
        is_enum = any("Enum" in ast_name for ast_name in _bases(owner))
        return exactly(*found.known) if is_enum and found.complete else found
    for base in owner.tree.bases:
        for parent in evaluator.value(base, owner.scope).known:
            if isinstance(parent, Class) and (found := _of_class(evaluator, parent, name)).known:
                return found
    return UNKNOWN


def _bases(owner: Class) -> list[str]:
    return [getattr(base, "id", getattr(base, "attr", "")) for base in owner.tree.bases]


def _of_result(evaluator: EvaluatorProtocol, owner: CallResult, maker: Class, name: str) -> Values:
    """Looks up an attribute of an object of a class in code: a method, or a value that its constructor assigns."""
    found = _of_class(evaluator, maker, name)
    if found.known:
        return Values(tuple(_bound_method(owner, one) for one in found.known), found.complete)
    if any("Enum" in base for base in _bases(maker)):
        return UNKNOWN
    return types.constructor_attribute(evaluator, owner, maker, name) or exactly(Attribute(owner, name))


def _of_live_result(evaluator: EvaluatorProtocol, owner: CallResult, maker: type, name: str) -> Values:
    """Looks up an attribute of an object of a live class of the program."""
    found = inspect.getattr_static(maker, name, _MISSING)
    if isinstance(found, FunctionType):
        return exactly(PartialFunction(found, _bound_to(owner)))
    if isinstance(found, property):
        return evaluator.call(found.fget, _bound_to(owner)) if found.fget is not None else UNKNOWN
    constructed = types.constructed_attribute(evaluator, owner, maker, name)
    if constructed is not None:
        return constructed
    return exactly(Attribute(owner, name)) if found is _MISSING else _of_live(evaluator, maker, name)


def is_library(kind: type) -> bool:
    """Whether a class is from the standard library, whose objects are not read."""
    return kind.__module__.partition(".")[0] in sys.stdlib_module_names


def _bound_method(owner: CallResult, found: object) -> object:
    return PartialFunction(found, Arguments((exactly(owner),))) if isinstance(found, Function) else found
