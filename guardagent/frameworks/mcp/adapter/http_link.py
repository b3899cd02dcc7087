"""A server behind a URL (streamable HTTP), through the client transport of the mcp library.

The library reads HTTP answers completely, so `bound` limits their length.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Mapping
from http import HTTPStatus
from typing import Any

import anyio
import httpx2
from mcp.client.streamable_http import streamable_http_client
from mcp.shared import inbound
from mcp.shared.message import ClientMessageMetadata, SessionMessage
from mcp_types import JSONRPCError, JSONRPCResponse, jsonrpc_message_adapter

from guardagent.frameworks.mcp.adapter.calls import (
    CLOSED,
    INVALID,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    VERSION_KEY,
    Message,
    envelope_of,
    id_of,
    params_of,
)
from guardagent.frameworks.mcp.adapter.server_side import MAX_LINE, LinkLostError, ServerLink
from guardagent.types import EMPTY

_CONNECT_SECONDS = 30.0
_READ_SECONDS = 3600.0  # a tool may take long; the client can cancel it
_IDLE_SECONDS = 2.0  # many servers close an idle connection after 5; a call that is sent meanwhile would be lost
_END_SECONDS, _END_BYTES = 0.5, 1 << 16  # of what follows the answer in an event stream
_UNKNOWN = "Server returned an error response"  # the library's message for other statuses
_OF_THE_LIBRARY = (PARSE_ERROR, INVALID)  # the library's codes for an unreadable or missing answer

_log = logging.getLogger("guardagent")


class UrlTarget:
    """A server at a URL.

    Args:
        url: its address.
        headers: are sent with every request.
    """

    def __init__(self, url: str, headers: Mapping[str, str] = EMPTY) -> None:
        self.url, self.headers = url, dict(headers)

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[ServerLink]:
        """Connects to the server; the first request fails if it is not there."""
        not_found: set[Any] = set()

        async def look(response: Any) -> None:
            # Only a 404 to a POST means that the session is gone: 404 or 405 to GET means that the
            # server has no stream of its own.
            sent = response.request
            if response.status_code == HTTPStatus.NOT_FOUND and sent.method == "POST":
                not_found.add(id_of(sent.content))
            await bound(response, MAX_LINE)

        timeout = httpx2.Timeout(_CONNECT_SECONDS, read=_READ_SECONDS)
        limits = httpx2.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=_IDLE_SECONDS)
        headers, hooks = {"accept-encoding": "identity", **self.headers}, {"response": [look]}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=timeout, limits=limits, event_hooks=hooks) as client,
            streamable_http_client(self.url, http_client=client, max_sse_event_size=MAX_LINE) as (read, write),
        ):
            yield _StreamLink(read, write, not_found)


class _StreamLink:
    def __init__(self, read: Any, write: Any, not_found: set[Any]) -> None:
        self._read, self._write = read, write
        self._not_found = not_found  # ids of requests that the server answered with 404
        self._version: str | None = None  # the protocol version, after the handshake
        self._handshake: Any = None

    async def send(self, message: Message, schema: Mapping[str, Any] = EMPTY) -> None:
        if message.get("method") == "initialize":
            self._version, self._handshake = None, message.get("id")
        metadata = ClientMessageMetadata(headers=_headers(message, schema, self._version))
        try:
            await self._write.send(SessionMessage(jsonrpc_message_adapter.validate_python(message), metadata))
        except (anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
            raise LinkLostError("the connection to the server is closed") from error

    async def lines(self) -> AsyncIterator[bytes]:
        async for item in self._read:
            if isinstance(item, Exception):
                _log.warning("the server sent an invalid message: %s", item)
                continue
            message = item.message
            if isinstance(message, JSONRPCError):
                if message.id in self._not_found and message.error.code != METHOD_NOT_FOUND:
                    raise LinkLostError("the server no longer knows the session", frozenset({message.id}))
                if message.error.message == _UNKNOWN or message.error.code in _OF_THE_LIBRARY:
                    message.error.code = CLOSED  # it is unknown whether the call ran
            elif isinstance(message, JSONRPCResponse) and message.id == self._handshake:
                self._version = message.result.get("protocolVersion")
            yield message.model_dump_json(by_alias=True, exclude_unset=True).encode()
        raise LinkLostError("the connection to the server is closed")


def _headers(message: Message, schema: Mapping[str, Any], version: str | None) -> dict[str, str]:
    """Returns the headers of a message: the protocol version, and since 2026-07-28 the method, name and arguments."""
    params, method = params_of(message), str(message.get("method"))
    of_request = (envelope_of(params) or {}).get(VERSION_KEY)
    if not isinstance(of_request, str):
        return {inbound.MCP_PROTOCOL_VERSION_HEADER: version} if isinstance(version, str) else {}
    headers = {inbound.MCP_PROTOCOL_VERSION_HEADER: of_request, inbound.MCP_METHOD_HEADER: method}
    name = params.get(inbound.NAME_BEARING_METHODS.get(method, ""))
    if isinstance(name, str):
        headers[inbound.MCP_NAME_HEADER] = inbound.encode_header_value(name)
    if method == "tools/call":
        headers |= inbound.mcp_param_headers(inbound.x_mcp_header_map(schema), params.get("arguments") or {})
    return headers


# --- answers of servers


class BoundedBody(httpx2.AsyncByteStream):
    """The body of an answer. An overlong body makes the answer unreadable."""

    def __init__(self, body: Any, limit: int) -> None:
        self._body, self._limit = body, limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._body:
            size += len(chunk)
            if size > self._limit:
                raise httpx2.StreamError(f"the answer has more than {self._limit:,} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._body.aclose()


class EventBody(httpx2.AsyncByteStream):
    """The body of an event stream, which the library closes as soon as it has the answer.

    Its end is read first, if it comes soon: with a body cut short, the connection would serve no further call.
    """

    def __init__(self, body: Any) -> None:
        self._body, self._rest = body, aiter(body)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._rest:
            yield chunk

    async def aclose(self) -> None:
        size = 0
        try:
            async with asyncio.timeout(_END_SECONDS):
                while size < _END_BYTES and (chunk := await anext(self._rest, None)) is not None:
                    size += len(chunk)
        except (httpx2.HTTPError, TimeoutError):
            pass  # the answer is there
        finally:
            await self._body.aclose()


async def bound(response: Any, limit: int) -> None:
    """Limits the body of an answer. Event streams are exempt, since each event has its own limit.

    Compressed answers are not read: they were not requested, and their length is known too late.
    """
    compressed = response.headers.get("content-encoding", "identity").lower() != "identity"
    if compressed or not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
        response.stream = BoundedBody(response.stream, 0 if compressed else limit)
    elif response.request.method == "POST":
        response.stream = EventBody(response.stream)
