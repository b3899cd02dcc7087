"""The text of a message: strict JSON of a limited size and depth, with exact numbers."""

from __future__ import annotations

import json
import re
from typing import Any

from guardagent._support import json_values
from guardagent.enforcement.wire.fields import WireError, below
from guardagent.enforcement.wire.values import MAX_DEPTH, complete, read_number

MAX_BYTES = 8 * 1024 * 1024
_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_ENVELOPE = 8  # levels around a value: the message, the call, its arguments, ...


def dumps(message: Any, limit: int = MAX_BYTES) -> bytes:
    """Returns the text of a message that the writers of this package made.

    Raises:
        WireError: it has more than `limit` bytes.
    """
    text = json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    _require_size(len(text), limit)
    return text


def loads(text: bytes | bytearray, limit: int = MAX_BYTES) -> Any:
    """Returns the JSON value of a message.

    Raises:
        WireError: it is not JSON, or ambiguous, too large or nested too deep.
    """
    _require_size(len(text), limit)
    try:
        value = json_values.loads(text, parse_float=read_number)
    except ValueError as error:
        raise WireError("", f"the message is not JSON: {error}") from None
    escaped = _ESCAPED_SURROGATE.search(text.decode()) is not None
    if escaped or text.count(b"[") + text.count(b"{") > MAX_DEPTH:
        _require_complete(value, "", 0)
    return value


def _require_size(size: int, limit: int) -> None:
    if size > limit:
        raise WireError("", f"the message has {size:,} bytes; expected at most {limit:,}")


def _require_complete(value: Any, where: str, depth: int) -> None:
    """Requires complete characters, and no more levels than a value with its envelope can have."""
    if type(value) is str:
        complete(value, where)
    elif type(value) in (dict, list) and depth > MAX_DEPTH + _ENVELOPE:
        raise WireError(where[:200], f"is nested too deep; expected at most {MAX_DEPTH} levels")
    elif type(value) is dict:
        for name, item in value.items():
            complete(name, where)
            _require_complete(item, below(where, name), depth + 1)
    elif type(value) is list:
        for at, item in enumerate(value):
            _require_complete(item, f"{where}[{at}]", depth + 1)
