"""Encodes any value as JSON in exactly one way: equal values have equal encodings, and none imitates another.

| value | becomes |
|---|---|
| strings, integers, finite floats, booleans, None, lists, mappings with string keys | themselves, a tuple as a list |
| NaN, bytes, sets, dates, decimals, mappings with other keys, objects | `{"$object": [type, …]}` |
| redacted values, oversized values | `{"redacted": …}`, `{"cut": …}` |

A mapping with one of these keys alone is encoded as one with other keys: no agent can make its output look redacted.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from types import MappingProxyType
from typing import Any
from uuid import UUID

from guardagent.log.field_paths import FieldPaths, descend

_TAGS = frozenset({"redacted", "cut", "$object"})
_MAX_DEPTH = 100
_MAX_VALUES = 100_000
_TEXT = frozenset({str})
_WIDE = 2**63
_MAX_BITS = 10_000  # of an integer; Python refuses to print longer ones
_STRING_TYPES = (Decimal, datetime, date, time, UUID, PurePath)  # types that are fully described by their string
_MAPPINGS = (dict, MappingProxyType)
_ATOMS = frozenset({str, bool, type(None)})  # most values; tests for them must be fast

Redact = Callable[[Any], Any]

canonical_json = json.JSONEncoder(
    sort_keys=True, allow_nan=False, separators=(",", ":"), check_circular=False, default=dict
).encode
"""Encodes a JSON value, also with tuples and frozen mappings: sorted keys, no spaces, ASCII."""


def is_json_value(value: Any) -> bool:
    """Whether a value is certainly its own encoding: a quick test that may return False for one that is."""
    inside = [value]
    for one in inside:  # the list grows during the iteration
        kind = type(one)
        if kind in _MAPPINGS:
            if not _TEXT.issuperset(map(type, one)) or (len(one) == 1 and not _TAGS.isdisjoint(one)):
                return False
            inside += [item for item in one.values() if type(item) not in _ATOMS]
        elif kind is list or kind is tuple:
            inside += [item for item in one if type(item) not in _ATOMS]
        elif not ((kind is int and -_WIDE < one < _WIDE) or (kind is float and math.isfinite(one))):
            return False
        if len(inside) > _MAX_DEPTH:
            return False
    return True


def json_value(value: Any, paths: FieldPaths = (), redact: Redact | None = None) -> Any:
    """Returns a value as JSON.

    Args:
        value: anything; an endless or oversized one is truncated.
        paths: the values in it to redact.
        redact: returns the replacement for a redacted value.
    """
    return value if type(value) in _ATOMS and not paths else _ValueEncoder(redact).encode(value, paths, 0)


class _ValueEncoder:
    """Encodes one value."""

    __slots__ = ("_left", "_redact")

    def __init__(self, redact: Redact | None) -> None:
        self._redact = redact
        self._left = _MAX_VALUES

    def encode(self, value: Any, paths: FieldPaths, depth: int) -> Any:
        if paths and () in paths and self._redact is not None:
            return self._redact(value)
        kind = type(value)
        if kind in _ATOMS:
            return value
        if kind is int:
            return value if value.bit_length() < _MAX_BITS else _object("int", hex(value))
        if kind is float:
            return value if math.isfinite(value) else _object("float", str(value))
        if depth > _MAX_DEPTH or self._left < 0:
            return _object(_name(kind), "nested too deep, or too large")
        if kind in _MAPPINGS or isinstance(value, Mapping):
            return self._mapping(value, paths, depth)
        if kind is list or kind is tuple:
            return self._items(value, paths, depth)
        return self._other(value, paths, depth)

    def _mapping(self, value: Mapping[Any, Any], paths: FieldPaths, depth: int) -> Any:
        self._left -= len(value)
        encoded = {}
        for key, item in value.items():
            if type(key) is not str:
                return self._pairs(value, paths, depth)
            inside = descend(paths, key) if paths else ()
            encoded[key] = item if type(item) in _ATOMS and not inside else self.encode(item, inside, depth + 1)
        if len(encoded) == 1 and not _TAGS.isdisjoint(encoded):
            return self._pairs(value, paths, depth)
        return encoded

    def _pairs(self, value: Mapping[Any, Any], paths: FieldPaths, depth: int) -> Any:
        of = self.encode
        pairs = [
            [of(key, (), depth + 1), of(item, descend(paths, str(key)) if paths else (), depth + 1)]
            for key, item in value.items()
        ]
        return _object("dict", sorted(pairs, key=canonical_json))

    def _items(self, value: Sequence[Any], paths: FieldPaths, depth: int) -> list[Any]:
        """Encodes a list; a path matches its items as if it named each of them."""
        self._left -= len(value)
        if not paths:
            return [item if type(item) in _ATOMS else self.encode(item, (), depth + 1) for item in value]
        return [
            self.encode(item, (*paths, *descend(paths, str(at))), depth + 1)  # a path may continue after a list
            for at, item in enumerate(value)
        ]

    def _other(self, value: Any, paths: FieldPaths, depth: int) -> Any:
        kind = type(value)
        if isinstance(value, Enum):
            return self.encode(value.value, paths, depth + 1)
        if isinstance(value, str):
            return str.__str__(value)
        if isinstance(value, int | float):
            return self.encode(int(value) if isinstance(value, int) else float(value), paths, depth + 1)
        if isinstance(value, list | tuple):
            return self._items(value, paths, depth)
        if isinstance(value, set | frozenset):
            return _object(_name(kind), sorted(self._items(list(value), paths, depth), key=canonical_json))
        if isinstance(value, bytes | bytearray):
            return _object(_name(kind), value.hex())
        if isinstance(value, _STRING_TYPES):
            return _object(_name(kind), str(value))
        inside = _fields(value)
        return _object(_name(kind)) if inside is None else _object(_name(kind), self._mapping(inside, paths, depth))


def _fields(value: Any) -> Mapping[str, Any] | None:
    """Returns an object's declared fields; None if it declares none, since its own code must not run."""
    if is_dataclass(value):
        return {one.name: getattr(value, one.name, None) for one in fields(value)}
    declared = getattr(type(value), "model_fields", None)  # of Pydantic
    return {name: getattr(value, name, None) for name in declared} if isinstance(declared, Mapping) else None


def _object(kind: str, *value: Any) -> dict[str, Any]:
    return {"$object": [kind, *value]}


def _name(kind: type) -> str:
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
