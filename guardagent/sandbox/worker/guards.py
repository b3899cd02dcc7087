"""The run-time guards that the code rewritten by RestrictedPython's transformation calls.

`engines/restricted.py` has the other half: it rewrites `a.b` to `_getattr_(a, "b")` and so on, and rejects what can be
rejected without a run.
"""

from __future__ import annotations

import builtins
import operator
import re
import string
import sys
import types
from _string import formatter_field_name_split  # type: ignore[import-not-found]
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from RestrictedPython.Guards import guarded_iter_unpack_sequence, guarded_unpack_sequence, safe_builtins
from RestrictedPython.Guards import (
    safer_getattr_raise as _safer_getattr_raise,  # with no default: a missing attribute is an error
)

safer_getattr_raise: Callable[..., Any] = _safer_getattr_raise

# Public attributes despite their names.
_NAMED_TUPLE = frozenset({"_asdict", "_replace", "_fields"})

_PLAIN_BUILTINS = (
    "all any ascii bin bytes dict enumerate filter frozenset iter list map max min next object "
    "property reversed set sorted staticmethod classmethod sum super tuple zip NotImplemented format "
    "TimeoutError PermissionError FileNotFoundError RecursionError StopAsyncIteration UnboundLocalError"
).split()

_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+=": operator.iadd,
    "-=": operator.isub,
    "*=": operator.imul,
    "/=": operator.itruediv,
    "%=": operator.imod,
    "**=": operator.ipow,
    "<<=": operator.ilshift,
    ">>=": operator.irshift,
    "|=": operator.ior,
    "^=": operator.ixor,
    "&=": operator.iand,
    "//=": operator.ifloordiv,
    "@=": operator.imatmul,
}


_OPEN_TYPES = frozenset({str, dict, list, set, tuple, re.Match})
_MODULE = "program"
sys.modules.setdefault(_MODULE, types.ModuleType(_MODULE))  # where a dataclass looks up its module


class ProgramClasses:
    """Creates and records the classes of a program, the only ones whose attributes it may set."""

    def __init__(self) -> None:
        self._classes: set[type] = set()

    def clear(self) -> None:
        self._classes.clear()

    def __call__(self, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **keywords: Any) -> type:
        kind, _, _ = types.prepare_class(name, bases)
        cls: type = kind(name, bases, namespace, **keywords)
        self._classes.add(cls)
        return cls

    def __prepare__(self, name: str, bases: tuple[type, ...], **keywords: Any) -> Mapping[str, object]:
        return types.prepare_class(name, bases)[1]

    def __contains__(self, value: Any) -> bool:
        return type(value) in self._classes or (isinstance(value, type) and value in self._classes)


class Formatter(string.Formatter):
    """`str.format` with guarded attribute access in its fields."""

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        first, rest = formatter_field_name_split(field_name)
        value = self.get_value(first, args, kwargs)
        for is_attribute, key in rest:
            value = safer_getattr_raise(value, key) if is_attribute else value[key]
        return value, first


class Guards:
    """The guards of one program; `begin` starts each run."""

    def __init__(self) -> None:
        self._classes = ProgramClasses()
        self._printable_left = 0

    def begin(self, printed_bytes: int) -> None:
        self._classes.clear()
        self._printable_left = printed_bytes

    def names(self, importer: Callable[..., Any]) -> dict[str, Any]:
        """Returns the global names that a program starts with."""
        plain = {name: getattr(builtins, name) for name in _PLAIN_BUILTINS}
        guarded = {
            "__import__": importer,
            "getattr": self.getattr,
            "hasattr": self.hasattr,
            "setattr": self.setattr,
            "delattr": self.delattr,
            "type": type_of,
            "print": self.print,
        }
        return {
            "__builtins__": {**safe_builtins, **plain, **guarded},
            "__name__": _MODULE,
            "__metaclass__": self._classes,
            "_getattr_": self.getattr,
            "_getitem_": operator.getitem,
            "_getiter_": iter,
            "_iter_unpack_sequence_": guarded_iter_unpack_sequence,
            "_unpack_sequence_": guarded_unpack_sequence,
            "_write_": self.write,
            "_inplacevar_": inplace,
            "_inplaceitem_": self.inplace_item,
            "_inplaceattr_": self.inplace_attr,
            "_apply_": apply,
        }

    def getattr(self, value: Any, name: str, *default: Any) -> Any:
        if type(name) is str:
            if type(value) in _OPEN_TYPES and name[:1] != "_" and name not in ("format", "format_map"):
                return getattr(value, name, *default)  # most; the checks below take four times as long
            if name in ("format", "format_map"):
                return _formatting(getattr(value, name, *default), value, name)
            if name[:1] == "_" and self._may_read(value, name):
                return getattr(value, name, *default)
        return safer_getattr_raise(value, name, *default)

    def hasattr(self, value: Any, name: str) -> bool:
        try:
            self.getattr(value, name)
        except AttributeError:
            return False
        return True

    def setattr(self, value: Any, name: str, item: Any) -> None:
        if type(name) is not str or name[:2] == "__":
            raise AttributeError(f"{name!r} cannot be set")
        setattr(self.write(value), name, item)

    def delattr(self, value: Any, name: str) -> None:
        if type(name) is not str or name[:2] == "__":
            raise AttributeError(f"{name!r} cannot be deleted")
        delattr(self.write(value), name)

    def write(self, value: Any) -> Any:
        """Returns a value that may be changed: a container, or an instance of the program's classes."""
        if (
            isinstance(value, dict | list | set | bytearray)
            or hasattr(type(value), "__setitem__")
            or value in self._classes
        ):
            return value
        raise TypeError(
            f"a {type(value).__name__} cannot be changed; expected a container, or an instance of a program class"
        )

    def inplace_item(self, operation: str, value: Any, key: Any, item: Any) -> None:
        target = self.write(value)
        target[key] = _OPERATIONS[operation](target[key], item)

    def inplace_attr(self, operation: str, value: Any, name: str, item: Any) -> None:
        self.setattr(value, name, _OPERATIONS[operation](self.getattr(value, name), item))

    def print(self, *values: Any, sep: str | None = None, end: str | None = None, file: Any = None, **_: Any) -> None:
        """Counts printed characters; only a file of the program's own receives them."""
        text = (" " if sep is None else sep).join(map(str, values)) + ("\n" if end is None else end)
        self._printable_left -= len(text)
        if self._printable_left < 0:
            raise MemoryError("printed more than its limit")
        if file is not None:
            self.getattr(file, "write")(text)

    def _may_read(self, value: Any, name: str) -> bool:
        if name in _NAMED_TUPLE:
            return isinstance(value, tuple) or (isinstance(value, type) and issubclass(value, tuple))
        if name in ("__name__", "__doc__"):
            return isinstance(value, type | types.FunctionType | types.BuiltinFunctionType)
        if name == "__init__":
            return isinstance(value, super)
        if isinstance(value, super):
            value = value.__self__  # type: ignore[attr-defined]
        return name[:2] != "__" and value in self._classes


def type_of(value: Any, /) -> Any:
    """`type` with one argument, in place of the real `type`, which creates classes with arbitrary methods."""
    kind = type(value)
    return type_of if kind is type else kind


def inplace(operation: str, value: Any, item: Any) -> Any:
    return _OPERATIONS[operation](value, item)


def apply(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


def _formatting(attribute: Any, value: Any, name: str) -> Any:
    """Returns the guarded replacement for `str.format`, however it was reached."""
    receiver = getattr(attribute, "__self__", None)
    if isinstance(receiver, str):
        return _format(receiver) if name == "format" else _format_map(receiver)
    if isinstance(value, type) and issubclass(value, str):
        if name == "format":
            return lambda text, /, *args, **kwargs: _format(text)(*args, **kwargs)
        return lambda text, mapping: _format_map(text)(mapping)
    return attribute


def _format(text: str) -> Callable[..., str]:
    return lambda *args, **kwargs: Formatter().vformat(text, args, kwargs)


def _format_map(text: str) -> Callable[..., str]:
    return lambda mapping: Formatter().vformat(text, (), mapping)
