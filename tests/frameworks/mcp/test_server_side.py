"""The connection to a server: the messages that it gets, and how its stream is split into lines."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from guardagent.frameworks.mcp.adapter.calls import request, result, write_message
from guardagent.frameworks.mcp.adapter.server_side import OverlongLine, ServerSide, bounded_lines
from guardagent.types import EMPTY


class SlowServer:
    """Starts late, and answers everything."""

    def __init__(self) -> None:
        self.received: list[str] = []
        self.started = asyncio.Event()
        self._lines: asyncio.Queue[bytes] = asyncio.Queue()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[SlowServer]:
        await self.started.wait()
        yield self

    async def send(self, message: Mapping[str, Any], schema: Mapping[str, Any] = EMPTY) -> None:
        self.received.append(message["method"])
        self._lines.put_nowait(write_message(result(message["id"], {})))

    async def lines(self) -> AsyncIterator[bytes]:
        while line := await self._lines.get():
            yield line

    def end(self) -> None:
        self._lines.put_nowait(b"")


def test_a_server_gets_the_handshake_once() -> None:
    """A client may send it before the server has started; only the next server gets it from the proxy."""

    async def run() -> tuple[list[str], list[str]]:
        server, answers = SlowServer(), asyncio.Queue[Any]()

        async def take(line: bytes, message: Any) -> None:
            answers.put_nowait(message)

        async def resumed() -> None:
            answers.put_nowait(None)

        side = ServerSide(server, take, lambda why, unsent: None, resumed)
        working = asyncio.create_task(side.run())
        sending = asyncio.create_task(side.send(request(1, "initialize", {})))
        await asyncio.sleep(0)
        server.started.set()
        await sending
        await answers.get()
        once = list(server.received)
        server.end()
        await answers.get()
        working.cancel()
        return once, server.received

    assert asyncio.run(asyncio.wait_for(run(), 10)) == (["initialize"], ["initialize"] * 2)


ANSWER = b'{"jsonrpc":"2.0","id":%d,"result":{}}'


@pytest.mark.parametrize(("end", "connections"), [(b"0\r\n\r\n", 1), (b"", 2)])
def test_a_connection_serves_further_calls(end: bytes, connections: int) -> None:
    """The library closes a stream of events before its end, which comes after the answer; one that goes on is left."""
    http_link = pytest.importorskip("guardagent.frameworks.mcp.adapter.http_link")
    opened = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        opened.append(writer)
        while head := await reader.readuntil(b"\r\n\r\n"):
            body = await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].split()[0]))
            event = b"data: " + ANSWER % json.loads(body)["id"] + b"\n\n"
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
            writer.write(b"%x\r\n%s\r\n" % (len(event), event))
            await asyncio.sleep(0.05)
            writer.write(end)

    async def run() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with http_link.UrlTarget(f"http://127.0.0.1:{port}/mcp").open() as link:
            lines = link.lines()
            for number in range(2):
                await link.send(request(number, "tools/list", {}))
                assert json.loads(await anext(lines)) == json.loads(ANSWER % number)
                await asyncio.sleep(0.2)
        server.close()

    asyncio.run(asyncio.wait_for(run(), 20))
    assert len(opened) == connections


def test_lines_have_a_limit() -> None:
    """Empty lines are dropped, as is an unfinished one; of an overlong line both ends are kept."""
    stream = b"one\n\n0123456789\n" + b"a" * 30 + b"z" * 300_000 + b"\nthree\nrest"
    first, full, long, third = bounded_lines(io.BytesIO(stream), 10)
    assert (first, full, third) == (b"one\n", b"0123456789\n", b"three\n")
    assert isinstance(long, OverlongLine)
    assert (long.head[:1], long.tail[-2:]) == (b"a", b"z\n")
    assert len(long.head + long.tail) < 5000


def test_a_long_line_without_end() -> None:
    """The end of the stream reports it."""
    (end,) = bounded_lines(io.BytesIO(b"x" * 900_000), 10)
    assert isinstance(end, OverlongLine)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b'{"jsonrpc":"2.0","id":7,"method":"m","params":{"a":"%s"}}', 7),
        (b' { "id" : "a-1" , "method":"m","params":{"a":"%s"}}', "a-1"),
        (b'{"method":"m","params":{"a":"%s"},"jsonrpc":"2.0","id":7}\r', 7),
        (b'{"method":"m","params":{"a":"%s"},"id":7,"jsonrpc":"2.0"}', 7),
        (b'{"method":"m","params":{"id":7,"a":"%s"}}', None),
        (b'{"method":"m","params":{"a":"%s","id":7}}', None),
        (b'{"id":[7],"params":{"a":"%s"}}', None),
        (b"%s", None),
    ],
)
def test_the_id_of_a_long_line(line: bytes, expected: object) -> None:
    """As far as it stands first or last in the message."""
    (overlong,) = bounded_lines(io.BytesIO(line.replace(b"%s", b"x" * 5000) + b"\n"), 2000)
    assert isinstance(overlong, OverlongLine)
    assert overlong.id == expected
