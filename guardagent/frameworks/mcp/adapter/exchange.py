"""A request over HTTP; since protocol 2026-07-28 without a session, in the conversation of its token or of a header.

Without sessions, requests of several clients may share a conversation, and with it a connection to the server. So each
gets an id of our own, which also is its progress token and the id of its subscription; the client gets its own back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mcp.shared import inbound
from mcp_types.jsonrpc import HEADER_MISMATCH, UNSUPPORTED_PROTOCOL_VERSION
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from guardagent._support.http import Head, HttpRequest, RefusedError
from guardagent.frameworks.mcp.adapter import calls
from guardagent.frameworks.mcp.adapter.calls import Message, params_of
from guardagent.types.values import SessionPrincipal

MAX_HANDLE = 256  # characters
_PROGRESS = "progressToken"


class RefusedMessageError(RefusedError):
    """A message is refused; the answer has its id."""

    def __init__(self, status: int, why: str, name: Any, *, code: int = calls.INVALID, data: Any = None) -> None:
        super().__init__(status, why)
        self.name, self.code, self.data = name, code, data


def is_sessionless(request: HttpRequest) -> bool:
    """Whether a request belongs to a protocol without sessions, or one that is unknown here."""
    version = request.headers.get(inbound.MCP_PROTOCOL_VERSION_HEADER)
    return version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS


def conversation_key(
    request: HttpRequest, caller: SessionPrincipal | None, header: str | None, message: Message
) -> tuple[SessionPrincipal | None, str]:
    """Returns the key of the conversation that a request belongs to.

    Args:
        request: its headers.
        caller: whose token it has; None if clients need none.
        header: the name of the header that names the conversation, if the operator has set it.
        message: its body.

    Raises:
        RefusedMessageError: nothing names a conversation. Clients that know sessions then open one.
    """
    name = message.get("id")
    if header is None and caller is None:
        data = {
            "supported": list(HANDSHAKE_PROTOCOL_VERSIONS),
            "requested": request.headers[inbound.MCP_PROTOCOL_VERSION_HEADER],
        }
        why = "without a session nothing names the conversation; expected initialize, or a proxy with tokens or with"
        why = f"{why} --conversation-header"
        raise RefusedMessageError(400, why, name, code=UNSUPPORTED_PROTOCOL_VERSION, data=data)
    if header is None:
        return caller, ""
    handle = request.headers.get(header, "")
    if not handle or len(handle) > MAX_HANDLE or header in request.repeated:
        why = f"expected one header {header} of up to {MAX_HANDLE} characters, which names the conversation"
        raise RefusedMessageError(400, why, name)
    return caller, handle


def require_headers(request: HttpRequest, message: Message) -> None:
    """Requires that the headers agree with the body: an intermediary may have decided by the headers.

    Raises:
        RefusedMessageError: they do not.
    """
    if not calls.is_request(message):
        raise RefusedMessageError(400, "expected a request or a notification", None)
    if repeated := sorted(name for name in request.repeated if name.startswith("mcp-")):
        raise RefusedMessageError(
            400, f"{repeated[0]} header appears more than once", message["id"], code=HEADER_MISMATCH
        )
    _refuse(inbound.classify_inbound_request(message, headers=request.headers), message)


def require_argument_headers(request: HttpRequest, message: Message, schema: Mapping[str, Any]) -> None:
    """Requires the same of the headers that repeat arguments, as the schema of the tool has them.

    Raises:
        RefusedMessageError: they do not agree.
    """
    arguments = params_of(message).get("arguments")
    if message["method"] == calls.TOOL and isinstance(arguments or {}, Mapping):
        _refuse(inbound.validate_mcp_param_headers(schema, arguments or {}, request.headers), message)


def _refuse(verdict: Any, message: Message) -> None:
    if isinstance(verdict, inbound.InboundLadderRejection):
        status = inbound.ERROR_CODE_HTTP_STATUS.get(verdict.code, 400)
        raise RefusedMessageError(status, verdict.message, message["id"], code=verdict.code, data=verdict.data)


@dataclass(frozen=True, slots=True)
class HttpExchange:
    """One request: the form for the server, and what the client has in place of an id of our own.

    Attributes:
        message: the request as the relay receives it.
        id: the client's id.
        token: the client's progress token, if it has one.
        session: the id of its session; None without sessions.
    """

    message: Message
    id: Any
    token: Any = None
    session: str | None = None

    @classmethod
    def in_session(cls, message: Message, session: str) -> HttpExchange:
        """Leaves a request as it is."""
        return cls(message, message["id"], session=session)

    @classmethod
    def without_session(cls, message: Message, name: str) -> HttpExchange:
        """Gives a request another id."""
        params = params_of(message)
        meta = params["_meta"]  # the envelope
        token = meta.get(_PROGRESS)
        if token is not None:
            params = {**params, "_meta": {**meta, _PROGRESS: name}}
        return cls({**message, "id": name, "params": params}, message["id"], token)

    @property
    def head(self) -> Head:
        """The headers of the answer."""
        return [] if self.session is None else [(b"mcp-session-id", self.session.encode())]

    def restored(self, line: bytes) -> tuple[int, bytes]:
        """Returns the HTTP status of a message of the server, and its form for the client.

        Without a session it gets the client's id and token. An empty line means that there will be no answer.
        """
        if self.session is not None:
            return 200 if line else 202, line
        if not line:
            return 200, calls.write_message(calls.error(self.id, calls.CLOSED, "the conversation has ended"))
        message = json.loads(line)
        body = "params" if "method" in message else "result"
        shown = dict(message[body]) if isinstance(message.get(body), Mapping) else {}
        name, meta = self.message["id"], shown.get("_meta")
        if "method" not in message:
            message["id"] = self.id
        elif shown.get(_PROGRESS) == name:
            shown[_PROGRESS] = self.token
        if isinstance(meta, Mapping) and meta.get(calls.SUBSCRIPTION_KEY) == name:
            shown["_meta"] = {**meta, calls.SUBSCRIPTION_KEY: self.id}
        error = message.get("error")
        code = error.get("code") if isinstance(error, Mapping) else None
        shown_message = {**message, body: shown} if shown else message
        return inbound.ERROR_CODE_HTTP_STATUS.get(code, 200), calls.write_message(shown_message)

    def cancellation(self) -> bytes:
        """Returns the message that cancels the request of a client who leaves. In a session, the call goes on."""
        if self.session is not None:
            return b""
        return calls.write_message(calls.notification("notifications/cancelled", {"requestId": self.message["id"]}))
