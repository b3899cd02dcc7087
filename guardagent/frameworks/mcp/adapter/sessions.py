"""The client session of a request, in a server of the mcp library."""

from __future__ import annotations

import inspect
import secrets
from typing import Any
from weakref import WeakKeyDictionary

MISSING = (
    "this request belongs to no session, so that nothing is known of what came before it. Serve over stdio, or HTTP "
    "with sessions (not stateless, and clients with a protocol before 2026-07-28), or pass conversation=, which tells "
    "the id of the conversation from the request's context"
)

_channels: WeakKeyDictionary[Any, str] = WeakKeyDictionary()


def session_of(session: Any, request: Any) -> str | None:
    """Returns the id of a client's session; None if the transport has no sessions, so every request is independent.

    Args:
        session: the `ServerSession` of a request.
        request: its HTTP request, if any.
    """
    if request is not None:
        found = getattr(getattr(session, "_connection", None), "session_id", None)
        return f"mcp-{found}" if isinstance(found, str) and found else None
    channel = _channel(getattr(session, "_request_outbound", None))
    if channel is None:
        return None
    known = _channels.get(channel)
    if known is None:
        known = _channels[channel] = f"mcp-{secrets.token_hex(16)}"
    return known


def _channel(context: Any) -> Any:
    """Returns the library's dispatcher; over pipes or in memory there is one for each client."""
    context = getattr(context, "_inner", context)
    found = getattr(context, "_dispatcher", None)
    if found is not None:
        return found
    back = getattr(context, "_back_request", None)  # in memory the library only keeps the channel back to the client
    return captured(back, "peer")


def captured(function: Any, name: str) -> Any:
    """Returns a variable that a function has of the one around it; None if there is none."""
    if not inspect.isfunction(function):
        return None
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
    return next((cell.cell_contents for known, cell in cells if known == name), None)
