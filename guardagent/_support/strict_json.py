"""JSON that every reader understands alike: no duplicate keys, no NaN or infinity, no overflowing number.

Rejected input raises a ValueError, or a `json.JSONDecodeError` for a syntax error at a position.
"""

from __future__ import annotations

import json
import math
from typing import Any


def loads(text: str | bytes | bytearray, **hooks: Any) -> Any:
    """Returns the value of a JSON string; bytes are UTF-8.

    Raises:
        ValueError: it is not JSON, or ambiguous.
    """
    try:
        return decoder(**hooks).decode(text if isinstance(text, str) else text.decode("utf-8-sig"))
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def decoder(**hooks: Any) -> json.JSONDecoder:
    """Returns a strict decoder; `hooks` override those of `json.JSONDecoder` that are set here."""
    strict = {"object_pairs_hook": unique_keys, "parse_constant": _no_constant, "parse_float": _finite}
    return json.JSONDecoder(**strict | hooks)


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Rejects a duplicate key, since readers differ in which value counts."""
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(duplicate_key_message(next(key for key in keys if keys.count(key) > 1)))
    return found


def duplicate_key_message(key: str) -> str:
    return f"key {key!r} appears twice; expected it once"


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON value")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is too large for a number")
    return value
