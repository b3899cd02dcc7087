"""The encoding of values between host and guest: one line of JSON for each message.

JSON covers strings, numbers, booleans, lists and dicts. The few other plain types that toolbox functions use are
written as an object with one key that begins with `$`.
"""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

MAX_DEPTH = 100

_ATOMS = frozenset({str, int, float, bool, type(None)})
_SEQUENCES: dict[type, str] = {tuple: "$tuple", set: "$set", frozenset: "$frozenset"}
_DECODERS = {
    "$tuple": tuple,
    "$set": set,
    "$frozenset": frozenset,
    "$dict": dict,
    "$bytes": bytes.fromhex,
    "$datetime": dt.datetime.fromisoformat,
    "$date": dt.date.fromisoformat,
}


def is_kept(size: int, count: int) -> bool:
    """Whether the host keeps the last argument of a call of this size, beside those that it has: a lexicon."""
    return 4096 < size < 262_144 and count < 8


def pack(value: Any) -> bytes:
    """Encodes a value as a line of JSON.

    Raises:
        TypeError: it contains another type, is nested too deep, or contains itself.
    """
    return f"{_ENCODER.encode(_encode(value, 0))}\n".encode()


def unpack(data: bytes | bytearray) -> Any:
    """Decodes a value, with exact types.

    Raises:
        ValueError: it is not a valid encoding.
    """
    try:
        value, end = (_TAGGED if b'"$' in data else _UNTAGGED).raw_decode(text := data.decode())
    except (TypeError, RecursionError, AttributeError) as error:
        raise ValueError(f"not a value: {error}") from None
    if text[end:] != "\n":
        raise ValueError("not a value: more than one")
    return value


def _encode(value: Any, depth: int) -> Any:
    if type(value) in _ATOMS:
        return value
    if depth > MAX_DEPTH:
        raise TypeError(f"a value is nested deeper than {MAX_DEPTH}, or contains itself")
    if isinstance(value, dict):
        return _object(value, depth + 1)
    if isinstance(value, list):
        return [item if type(item) in _ATOMS else _encode(item, depth + 1) for item in list.__iter__(value)]
    for kind, name in _SEQUENCES.items():
        if isinstance(value, kind):
            return {name: [_encode(item, depth + 1) for item in kind.__iter__(value)]}  # type: ignore[attr-defined]
    return _scalar(value)


def _object(value: dict[Any, Any], depth: int) -> Any:
    items = dict.items(value)
    if {*map(type, dict.keys(value))} <= {str} and "$" not in "".join(dict.keys(value)):
        return {key: item if type(item) in _ATOMS else _encode(item, depth) for key, item in items}
    return {"$dict": [[_encode(key, depth), _encode(item, depth)] for key, item in items]}


def _scalar(value: Any) -> Any:
    """Returns the plain value of a subclass of a plain type, without its own methods."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, bytes):
        return {"$bytes": bytes.hex(value)}
    if isinstance(value, dt.datetime):
        return {"$datetime": dt.datetime.isoformat(value)}
    if isinstance(value, dt.date):
        return {"$date": dt.date.isoformat(value)}
    raise TypeError(
        f"a {type(value).__name__} cannot pass; expected strings, numbers, booleans, lists, tuples, sets, dicts"
    )


def _decode_object(fields: dict[str, Any]) -> Any:
    if len(fields) == 1:
        ((name, value),) = fields.items()
        if name in _DECODERS:
            return _DECODERS[name](value)  # type: ignore[operator]
    return fields


_ENCODER = json.JSONEncoder(check_circular=False)  # `_encode` has followed the value to its end
_UNTAGGED, _TAGGED = json.JSONDecoder(), json.JSONDecoder(object_hook=_decode_object)
