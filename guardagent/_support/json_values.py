"""Converts JSON values to dataclasses and back. The annotations of the dataclass are the schema, so it is written once.

The annotations may use `str`, `int`, `float`, `bool`, `Any`, `Literal` of strings, `tuple[X, ...]`, `Mapping[str, X]`,
`X | None` and dataclasses. A field with a default may be missing. No other key is accepted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import lru_cache
from types import UnionType
from typing import Any, Literal, NoReturn, TypeVar, cast, get_args, get_origin, get_type_hints

from guardagent.errors import name_hint

T = TypeVar("T")
_SCALAR_TYPES: Mapping[Any, tuple[tuple[type, ...], str]] = {
    str: ((str,), "a string"),
    bool: ((bool,), "true or false"),
    int: ((int,), "a whole number"),
    float: ((int, float), "a number"),
}


def record_of(kind: type[T], value: Any, place: str = "") -> T:
    """Converts a JSON value to a dataclass.

    Args:
        kind: the dataclass.
        value: the result of a JSON parser.
        place: the path of keys of the value, for errors.

    Raises:
        ValueError: the value is not of this form; the message has the path of keys.
    """
    return cast("T", _value(kind, value, place))


def plain(value: Any) -> Any:
    """Converts a dataclass to a JSON value with the keys in the order of its fields."""
    if is_dataclass(value):
        return {one.name: plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {key: plain(one) for key, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list | tuple) else value


def _value(kind: Any, value: Any, place: str) -> Any:
    parts = get_args(kind)
    if is_dataclass(kind):
        return _record(kind, _expect(dict, value, place, "a mapping"), place)
    match get_origin(kind):
        case origin if origin is tuple:
            items = _expect(list, value, place, "a list")
            return tuple(_value(parts[0], one, f"{place}[{at}]") for at, one in enumerate(items))
        case origin if origin is Mapping:
            return {_text(key, place): _value(parts[1], one, f"{place}.{key}") for key, one in _mapping(value, place)}
        case origin if origin is UnionType:
            return None if value is None else _value(parts[0], value, place)
        case origin if origin is Literal:
            if value not in parts:
                _fail(place, f"is {_shown(value)}; expected one of {', '.join(map(repr, parts))}")
    return _text(value, place) if kind is Any or kind not in _SCALAR_TYPES else _scalar(kind, value, place)


def _record(kind: Any, values: Mapping[str, Any], place: str) -> Any:
    known = _schema(kind)
    for name in values:
        if name not in known:
            _fail(place, f"unknown key {name[:60]!r}{name_hint(name[:60], known)}")
    for name, (one, _) in known.items():
        if name not in values and one.default is MISSING and one.default_factory is MISSING:
            _fail(place, f"the key {name!r} is missing; expected {', '.join(known)}")
    return kind(**{name: _value(known[name][1], one, _below(place, name)) for name, one in values.items()})


@lru_cache
def _schema(kind: Any) -> Mapping[str, tuple[Field[Any], Any]]:
    hints = get_type_hints(kind)
    return {one.name: (one, hints[one.name]) for one in fields(kind)}


def _scalar(kind: Any, value: Any, place: str) -> Any:
    types, expected = _SCALAR_TYPES[kind]
    if type(value) not in types:
        _fail(place, f"is {_shown(value)}; expected {expected}")
    return _text(value, place)


def _text(value: Any, place: str) -> Any:
    """The value, if all of its strings are Unicode: JSON can escape half of a surrogate pair."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        _fail(place, "contains half of a surrogate pair; expected complete characters")
    except RecursionError:
        _fail(place, "is nested too deep; expected fewer levels")
    return value


def _mapping(value: Any, place: str) -> Any:
    return _expect(dict, value, place, "a mapping").items()


def _expect(kind: type, value: Any, place: str, expected: str) -> Any:
    if not isinstance(value, kind):
        _fail(place, f"is {_shown(value)}; expected {expected}")
    return value


def _shown(value: Any) -> str:
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _below(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _fail(place: str, problem: str) -> NoReturn:
    raise ValueError(f"{place}: {problem}" if place else problem)
