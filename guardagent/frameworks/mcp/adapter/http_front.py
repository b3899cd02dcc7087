"""Clients over streamable HTTP: each session has its own relay and server.

A small ASGI application. It answers a request with JSON as soon as the answer arrives, and with a stream only if
other messages precede the answer (progress, a server request). The transport of the mcp library always uses streams,
validates a body less strictly than a guard has to, and drops messages before the client has opened its own stream.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from guardagent.errors import InputError
from guardagent.frameworks.mcp.adapter import calls, wire
from guardagent.frameworks.mcp.adapter.pending_requests import ToClient
from guardagent.frameworks.mcp.adapter.relay import Relay

MAX_BODY = 4 * 1024 * 1024
MAX_SESSIONS = 1000
MAX_WAITING = 1000  # messages that wait for the client to open its stream
IDLE_SECONDS = 1800.0
PING_SECONDS = 15.0
VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")  # those with sessions
_UNSUPPORTED = -32022
_JSON, _STREAM = b"application/json", b"text/event-stream"

_log = logging.getLogger("guardagent")


class _RefusedError(Exception):
    """The answer to a refused request."""

    def __init__(self, status: int, why: str, *, code: int = wire.INVALID, name: Any = None, data: Any = None) -> None:
        super().__init__(why)
        self.status, self.body = status, wire.write_message(wire.error(name, code, why, data))


Stream = asyncio.Queue[tuple[bytes, bool]]
"""Lines for the client; the last one is the answer, or empty if there is none."""


@dataclass
class _Session:
    """One client. `streams` are its unanswered requests; `standing` has the messages that belong to none of them."""

    name: str
    relay: Relay | None = None
    work: asyncio.Task[None] | None = None
    streams: dict[str, Stream] = field(default_factory=dict)
    standing: Stream = field(default_factory=asyncio.Queue)
    listening: bool = False
    used: float = 0.0

    def give(self, line: bytes, related: Any, *, last: bool) -> None:
        """Queues a line for the client, on the stream that it belongs to."""
        stream = self.streams.get(str(related))
        if stream is not None:
            stream.put_nowait((line, last))
        elif line and not last and self.standing.qsize() < MAX_WAITING:
            self.standing.put_nowait((line, False))


class HttpFront:
    """The ASGI application.

    Args:
        begin: creates the relay of a session from its id.
        end: gets the id of a session that is over.
        hosts: the accepted values of the header `Host`; None for any.
    """

    def __init__(
        self, begin: Callable[[str, ToClient], Relay], end: Callable[[str], None], hosts: list[str] | None
    ) -> None:
        self._begin, self._end, self._hosts = begin, end, hosts
        self._sessions: dict[str, _Session] = {}

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keeps sessions open until the context ends."""
        sweeping = asyncio.create_task(self._sweep())
        try:
            yield
        finally:
            sweeping.cancel()
            await asyncio.gather(*(self._close(one) for one in list(self._sessions.values())))

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handles one HTTP request."""
        if scope["type"] != "http":
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        try:
            self._require_known_host(headers)
            if scope["method"] == "POST":
                await self._post(headers, receive, send)
            elif scope["method"] == "GET":
                await self._listen(self._known(headers), receive, send)
            elif scope["method"] == "DELETE":
                await self._close(self._known(headers))
                await _answer(send, 200, b"")
            else:
                refused = _RefusedError(405, "expected POST, GET or DELETE")
                await _answer(send, refused.status, refused.body)
        except _RefusedError as refused:
            await _answer(send, refused.status, refused.body)

    # --- messages of the client

    async def _post(self, headers: dict[str, str], receive: Any, send: Any) -> None:
        accept = headers.get("accept", "")
        if not headers.get("content-type", "").lower().startswith("application/json"):
            raise _RefusedError(415, "the body has another type; expected application/json")
        if "*/*" not in accept and not ("application/json" in accept and "text/event-stream" in accept):
            raise _RefusedError(406, "expected Accept: application/json, text/event-stream")
        body = await _body(receive)
        message = _message(body)
        _require_sessions(headers, message)
        session = self._opened(message) if "mcp-session-id" not in headers else self._known(headers)
        session.used = asyncio.get_running_loop().time()
        assert session.relay is not None
        if not wire.is_request(message):
            await session.relay.take(body)
            await _answer(send, 202, b"")
            return
        await self._request(session, message, body, send)

    async def _request(self, session: _Session, message: wire.Message, body: bytes, send: Any) -> None:
        key = str(message["id"])
        if key in session.streams:
            raise _RefusedError(400, "this id is in use", name=message["id"])
        stream = session.streams[key] = asyncio.Queue()
        try:
            assert session.relay is not None
            await session.relay.take(body)
            line, last = await stream.get()
            head = [(b"mcp-session-id", session.name.encode())]
            if last:
                await _answer(send, 200 if line else 202, line, head)
            else:
                await _streamed(stream, (line, last), head, send)
        finally:
            session.streams.pop(key, None)

    async def _listen(self, session: _Session, receive: Any, send: Any) -> None:
        """Sends the messages that belong to no request, until the client leaves."""
        if session.listening:
            raise _RefusedError(409, "the session has a stream; expected one at a time")
        session.listening = True
        gone = asyncio.create_task(_gone(receive))
        try:
            await _begin(send, 200, [(b"content-type", _STREAM), (b"cache-control", b"no-cache")])
            while not gone.done() and session.name in self._sessions:
                getting = asyncio.create_task(session.standing.get())
                await asyncio.wait({gone, getting}, timeout=PING_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                if getting.done():
                    await _more(send, _event(getting.result()[0]))
                else:
                    getting.cancel()
                    await _more(send, b": still there\r\n\r\n")
            await _more(send, b"", last=True)
        finally:
            session.listening = False
            gone.cancel()

    # --- sessions

    def _known(self, headers: dict[str, str]) -> _Session:
        name = headers.get("mcp-session-id")
        if name is None:
            raise _RefusedError(400, "no session is named; expected Mcp-Session-Id")
        if name not in self._sessions:
            raise _RefusedError(404, "there is no such session")
        return self._sessions[name]

    def _opened(self, message: wire.Message) -> _Session:
        """Begins a session; other requests without a session are refused."""
        if message.get("method") != "initialize" or "id" not in message:
            raise _RefusedError(400, "no session is named; begin with initialize", name=message.get("id"))
        if len(self._sessions) >= MAX_SESSIONS:
            raise _RefusedError(503, "too many sessions are open", name=message["id"])
        session = _Session(uuid.uuid4().hex)
        session.relay = self._begin(session.name, session.give)
        session.work = asyncio.create_task(session.relay.run())
        self._sessions[session.name] = session
        return session

    async def _close(self, session: _Session) -> None:
        if self._sessions.pop(session.name, None) is None or session.work is None:
            return
        session.work.cancel()
        await asyncio.gather(session.work, return_exceptions=True)
        for stream in session.streams.values():
            stream.put_nowait((b"", True))
        session.standing.put_nowait((b"", False))
        self._end(session.name)

    async def _sweep(self) -> None:
        """Closes idle sessions."""
        while True:
            await asyncio.sleep(IDLE_SECONDS / 10)
            oldest = asyncio.get_running_loop().time() - IDLE_SECONDS
            for one in list(self._sessions.values()):
                if one.used < oldest and not one.streams and not one.listening:
                    await self._close(one)

    def _require_known_host(self, headers: dict[str, str]) -> None:
        """Refuses other hosts and origins, so that web pages in a local browser have no access (DNS rebinding)."""
        if self._hosts is None:
            return
        if headers.get("host") not in self._hosts:
            raise _RefusedError(421, "this host is not served here")
        origin = headers.get("origin")
        if origin is not None and origin.removeprefix("http://") not in self._hosts:
            raise _RefusedError(403, "this origin is not served here")


def _message(body: bytes) -> wire.Message:
    try:
        message = calls.read(body)
    except InputError as error:
        raise _RefusedError(400, str(error), name=wire.id_of(body)) from None
    return message


def _require_sessions(headers: dict[str, str], message: wire.Message) -> None:
    """Refuses protocols since 2026-07-28, which have no sessions and therefore no history."""
    version = headers.get("mcp-protocol-version")
    if version is not None and version not in VERSIONS:
        data = {"supported": list(VERSIONS), "requested": version}
        why = "the guard needs a session; begin with initialize"
        raise _RefusedError(400, why, code=_UNSUPPORTED, name=message.get("id"), data=data)


async def _body(receive: Any) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise _RefusedError(400, "the body has no end")
        body += message.get("body", b"")
        if len(body) > MAX_BODY:
            raise _RefusedError(413, f"more than {MAX_BODY:,} bytes")
        if not message.get("more_body"):
            return bytes(body)


async def _streamed(stream: Stream, first: tuple[bytes, bool], head: list[tuple[bytes, bytes]], send: Any) -> None:
    await _begin(send, 200, [(b"content-type", _STREAM), (b"cache-control", b"no-cache"), *head])
    line, last = first
    while True:
        if line:
            await _more(send, _event(line))
        if last:
            break
        line, last = await stream.get()
    await _more(send, b"", last=True)


def _event(line: bytes) -> bytes:
    return b"event: message\r\ndata: " + line.strip() + b"\r\n\r\n" if line else b""


async def _answer(send: Any, status: int, body: bytes, head: list[tuple[bytes, bytes]] | None = None) -> None:
    size = [(b"content-type", _JSON), (b"content-length", str(len(body)).encode())]
    await _begin(send, status, [*size, *(head or [])])
    await _more(send, body, last=True)


async def _begin(send: Any, status: int, head: list[tuple[bytes, bytes]]) -> None:
    await send({"type": "http.response.start", "status": status, "headers": head})


async def _more(send: Any, body: bytes, *, last: bool = False) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": not last})


async def _gone(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
