"""The servers over HTTP: how their answers reach a client."""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from typing import Any

import pytest

from guardagent._support import http

pytest.importorskip("uvicorn")

SEGMENTS_WITH_DATA = 152  # where Linux tells how many a connection has received, in its TCP_INFO


async def answering(_scope: Any, _receive: Any, send: Any) -> None:
    await http.answer(send, 200, b'{"status": "ok"}')


@pytest.mark.skipif(sys.platform != "linux", reason="the packets are counted by Linux")
def test_an_answer_comes_in_one_packet() -> None:
    """Head and body wake the client once; the connection serves the next request, and is closed after the last."""

    async def run() -> tuple[bytes, int]:
        with http.listening_socket("127.0.0.1", 0) as listening:
            port = listening.getsockname()[1]
            endpoint = http.HttpEndpoint("127.0.0.1", port, http.RequestLimits())
            serving = asyncio.create_task(http.serve(answering, endpoint, listening))
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for last in (b"", b"", b"connection: close\r\n"):
                writer.write(b"GET / HTTP/1.1\r\nhost: localhost\r\n" + last + b"\r\n")
                received = await reader.readuntil(b"}")
            info = writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 192)
            received += await reader.read()
            writer.close()
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
        return received, struct.unpack_from("I", info, SEGMENTS_WITH_DATA)[0]

    received, packets = asyncio.run(asyncio.wait_for(run(), 20))
    assert received.endswith(b'\r\n\r\n{"status": "ok"}')
    assert packets == 3


def test_a_client_that_reads_late_holds_the_answer_up() -> None:
    """An answer that it has not read does not pile up in the server."""
    part, count, sent = bytes(2**16), 500, list[int]()

    async def streaming(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for number in range(count):
            await send({"type": "http.response.body", "body": part, "more_body": True})
            sent.append(number)
        await send({"type": "http.response.body"})

    async def run() -> tuple[int, bytes]:
        with http.listening_socket("127.0.0.1", 0) as listening:
            endpoint = http.HttpEndpoint("127.0.0.1", listening.getsockname()[1], http.RequestLimits())
            serving = asyncio.create_task(http.serve(streaming, endpoint, listening))
            client = socket.socket()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**16)
            client.settimeout(0)
            await asyncio.get_running_loop().sock_connect(client, listening.getsockname())
            reader, writer = await asyncio.open_connection(sock=client)
            writer.write(b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            await asyncio.sleep(0.5)
            early = len(sent)
            received = await reader.read()
            writer.close()
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
        return early, received

    early, received = asyncio.run(asyncio.wait_for(run(), 20))
    assert 0 < early < count / 2
    assert received.count(part) == len(sent) == count
