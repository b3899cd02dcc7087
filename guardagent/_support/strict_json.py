"""JSON that every reader takes for the same: no key twice, no NaN or infinity, no number that only becomes infinite.

A text that is refused raises a ValueError in plain words, a `json.JSONDecodeError` where it is no JSON at a place.
"""

from __future__ import annotations

import json
import math
from typing import Any


def loads(text: str | bytes | bytearray, **hooks: Any) -> Any:
    """The value of a JSON text; bytes are UTF-8.

    Raises:
        ValueError: it has none, or none that can be read in one way only.
    """
    try:
        return decoder(**hooks).decode(text if isinstance(text, str) else text.decode("utf-8-sig"))
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def decoder(**hooks: Any) -> json.JSONDecoder:
    """Reads values strictly; `hooks` as of `json.JSONDecoder`, in place of those here."""
    strict = {"object_pairs_hook": unique_keys, "parse_constant": _no_constant, "parse_float": _finite}
    return json.JSONDecoder(**strict | hooks)


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Of a key that is given twice, nobody knows which value counts elsewhere."""
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(duplicate_key_message(next(key for key in keys if keys.count(key) > 1)))
    return found


def duplicate_key_message(key: str) -> str:
    return f"key {key!r} is given twice; expected it once"


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON value")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is too large for a number")
    return value
