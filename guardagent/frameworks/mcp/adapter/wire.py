"""MCP messages on the wire: JSON-RPC 2.0, one object each.

Both sides are parsed strictly: a repeated name, a name in another case, or `NaN` may mean different things to the guard
and to the recipient. The judged message is written anew.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Collection, Mapping
from typing import Any

from guardagent._support import json_values
from guardagent.errors import InputError

Message = dict[str, Any]

CLOSED = -32000  # the connection ended before an answer came
DENIED = -32010  # from the range that JSON-RPC reserves for implementations; otherwise unused in MCP
INVALID = -32600
PARSE_ERROR = -32700
METHOD_NOT_FOUND = -32601

# Since 2026-07-28 the `_meta` of every request carries the data of the former handshake.
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CLIENT_KEY = "io.modelcontextprotocol/clientInfo"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"

_KINDS = ({"jsonrpc", "id", "method", "params"}, {"jsonrpc", "id", "result"}, {"jsonrpc", "id", "error"})


def read_message(line: bytes | str) -> Message:
    """Reads an unambiguous message.

    Raises:
        InputError: the message is ambiguous or malformed.
    """
    try:
        value = json_values.loads(line)
    except ValueError as error:
        raise InputError(f"this is not JSON: {error}; expected one JSON-RPC object in a line") from None
    if not isinstance(value, dict):
        raise InputError(f"this is a {type(value).__name__}; expected one JSON-RPC object (batches are not passed on)")
    if not any(value.keys() <= kind for kind in _KINDS) or len(value.keys() - {"jsonrpc", "id"}) == 0:
        names = ", ".join(repr(name[:40]) for name in list(value)[:9])
        raise InputError(f"the message has {names}; expected method and params, a result or an error, spelled exactly")
    return value


def require_plain(value: Mapping[str, Any], names: Collection[str], place: str) -> None:
    """Refuses names that another reader may take for one of `names`.

    Raises:
        InputError: there is such a name.
    """
    others = value.keys() - set(names)
    meant = {folded(name): name for name in names} if others else {}
    for name in others:
        if folded(name) in meant:
            raise InputError(f"{place} has {name!r}; expected {meant[folded(name)]!r}, spelled exactly")


def folded(name: str) -> str:
    """Returns a name as a lenient reader takes it: normalized, case-folded and stripped."""
    return unicodedata.normalize("NFKC", name).casefold().strip()


def write_message(message: Mapping[str, Any]) -> bytes:
    """Returns a message as one line of ASCII."""
    return json.dumps(message, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def lenient(line: bytes | str) -> Message | None:
    """Returns a refused message as one possible parser reads it."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def id_of(line: bytes | str) -> Any:
    """Returns the id of a refused message, if it is readable."""
    found = (lenient(line) or {}).get("id")
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
    """Returns the client's metadata of a request since 2026-07-28; None for an older request."""
    meta = params.get("_meta")
    return meta if isinstance(meta, Mapping) and VERSION_KEY in meta else None


def request(request_id: Any, method: str, params: Any = None) -> Message:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, **({} if params is None else {"params": params})}


def notification(method: str, params: Any = None) -> Message:
    return {"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params})}


def result(request_id: Any, value: Mapping[str, Any]) -> Message:
    return {"jsonrpc": "2.0", "id": request_id, "result": value}


def error(request_id: Any, code: int, message: str, data: Any = None) -> Message:
    fields = {"code": code, "message": message, **({} if data is None else {"data": data})}
    return {"jsonrpc": "2.0", "id": request_id, "error": fields}
