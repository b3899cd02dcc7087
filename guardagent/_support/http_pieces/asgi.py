"""The parts of an ASGI application: requests, bodies, answers and event streams."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

JSON, STREAM = b"application/json", b"text/event-stream"
Head = list[tuple[bytes, bytes]]


class RefusedError(Exception):
    """A request is refused.

    Attributes:
        status: the HTTP status of the answer.
        head: more headers of the answer.
    """

    def __init__(self, status: int, why: str, *, head: Head | None = None) -> None:
        super().__init__(why)
        self.status, self.head = status, head


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """The first part of a request.

    Attributes:
        method: GET, POST and so on.
        path: its path.
        query: what follows the path, as it came.
        headers: the headers by their names in lower case.
        authorization: the values of all headers `Authorization`.
        peer: the address of the other end.
    """

    method: str
    path: str
    query: bytes
    headers: Mapping[str, str]
    authorization: tuple[str, ...]
    peer: str | None


def request_of(scope: Mapping[str, Any]) -> HttpRequest:
    """Reads the scope of an ASGI application."""
    pairs = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in scope["headers"]]
    authorization = tuple(value for name, value in pairs if name == "authorization")
    client = scope.get("client")
    peer = client[0] if client else None
    return HttpRequest(scope["method"], scope["path"], scope["query_string"], dict(pairs), authorization, peer)


async def body_of(receive: Any, limit: int, seconds: float) -> bytes:
    """Reads the whole body of a request.

    Raises:
        RefusedError: it is too long or too slow, or has no end.
    """
    try:
        async with asyncio.timeout(seconds):
            return await _read_body(receive, limit)
    except TimeoutError:
        raise RefusedError(408, f"the body did not arrive within {seconds:g} seconds") from None


async def _read_body(receive: Any, limit: int) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise RefusedError(400, "the body has no end")
        body += message.get("body", b"")
        if len(body) > limit:
            raise RefusedError(413, f"more than {limit:,} bytes")
        if not message.get("more_body"):
            return bytes(body)


def event(line: bytes) -> bytes:
    """Returns a message as an event of a stream."""
    return b"event: message\r\ndata: " + line.strip() + b"\r\n\r\n" if line else b""


async def answer(send: Any, status: int, body: bytes, head: Head | None = None, kind: bytes = JSON) -> None:
    """Sends a whole answer."""
    size = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
    await begin(send, status, [*size, *(head or [])])
    await more(send, body, last=True)


async def begin_stream(send: Any, head: Head | None = None) -> None:
    """Begins a stream of events."""
    await begin(send, 200, [(b"content-type", STREAM), (b"cache-control", b"no-cache"), *(head or [])])


async def begin(send: Any, status: int, head: Head) -> None:
    """Begins an answer."""
    await send({"type": "http.response.start", "status": status, "headers": head})


async def more(send: Any, body: bytes, *, last: bool = False) -> None:
    """Sends a part of an answer."""
    await send({"type": "http.response.body", "body": body, "more_body": not last})


def timed(send: Any, seconds: float) -> Any:
    """Returns a `send` that gives up a client who does not read."""

    async def send_in_time(message: Any) -> None:
        async with asyncio.timeout(seconds):
            await send(message)

    return send_in_time


async def gone(receive: Any) -> None:
    """Waits until the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
