"""Messages of MCP as they go over a wire: JSON-RPC 2.0, one object each.

What a client sends is read strictly: a name that is given twice, or `NaN`, means one thing to the guard and another to
the server. What was judged is written anew.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from guardagent.enforcement.schema import finite, no_constant, unique_names
from guardagent.errors import InputError

Message = dict[str, Any]

CLOSED = -32000  # the connection ended before an answer came
DENIED = -32010  # in the band that JSON-RPC leaves to implementations, and used by nobody else in MCP
INVALID = -32600
METHOD_NOT_FOUND = -32601

# Since 2026-07-28 every request says in its `_meta` what the handshake said before.
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CLIENT_KEY = "io.modelcontextprotocol/clientInfo"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"

_MEMBERS = ("jsonrpc", "id", "method", "params", "result", "error")


def read_message(line: bytes | str) -> Message:
    """A message that can be understood in one way only.

    Raises:
        InputError: it is none.
    """
    try:
        value = json.loads(line, object_pairs_hook=unique_names, parse_constant=no_constant, parse_float=finite)
    except (ValueError, RecursionError) as error:
        raise InputError(f"this is no JSON: {error}; expected one JSON-RPC object in a line") from None
    if not isinstance(value, dict):
        raise InputError(f"this is a {type(value).__name__}; expected one JSON-RPC object (batches are not passed on)")
    require_plain(value, _MEMBERS, "the message")
    return value


def require_plain(value: Mapping[str, Any], names: tuple[str, ...], place: str) -> None:
    """Refuses names that another reader may take for one of those that matter.

    Raises:
        InputError: there is one.
    """
    for name in value:
        if name not in names and name.casefold() in {known.casefold() for known in names}:
            meant = next(known for known in names if known.casefold() == name.casefold())
            raise InputError(f"{place} has {name!r}; expected {meant!r}, spelt so")


def write_message(message: Mapping[str, Any]) -> bytes:
    """A message as one line, in plain ASCII."""
    return json.dumps(message, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def id_of(line: bytes | str) -> Any:
    """The id of a request that was refused unread, as far as it can be told."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    found = value.get("id") if isinstance(value, dict) else None
    return found if is_id(found) else None


def is_id(value: Any) -> bool:
    return type(value) in (str, int)


def is_request(message: Mapping[str, Any]) -> bool:
    return "method" in message and "id" in message


def is_notification(message: Mapping[str, Any]) -> bool:
    return "method" in message and "id" not in message


def params_of(message: Mapping[str, Any]) -> Mapping[str, Any]:
    found = message.get("params")
    return found if isinstance(found, Mapping) else {}


def envelope_of(params: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What a request since 2026-07-28 says of its client; None for one of before."""
    meta = params.get("_meta")
    return meta if isinstance(meta, Mapping) and VERSION_KEY in meta else None


def request(request_id: Any, method: str, params: Any = None) -> Message:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, **({} if params is None else {"params": params})}


def notification(method: str, params: Any = None) -> Message:
    return {"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params})}


def result(request_id: Any, value: Mapping[str, Any]) -> Message:
    return {"jsonrpc": "2.0", "id": request_id, "result": value}


def error(request_id: Any, code: int, message: str, data: Any = None) -> Message:
    said = {"code": code, "message": message, **({} if data is None else {"data": data})}
    return {"jsonrpc": "2.0", "id": request_id, "error": said}
