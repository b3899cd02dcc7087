"""Clients over HTTP with protocol 2026-07-28, without sessions: a header or a token names the conversation."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastmcp")

import httpx2
from mcp import MCPError
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitResult

from tests.frameworks.mcp.helpers import MODERN, book, free_port, paid, proxy_command, serving, shop_command
from tests.frameworks.mcp.test_http_front import posted, run, url
from tests.frameworks.mcp.test_http_front_tokens import proxy
from tests.frameworks.scenarios import APPROVED, AT_MOST_ONE, AUTHENTICATED, LIMIT

PREFIX = "io.modelcontextprotocol"
ENVELOPE = {f"{PREFIX}/protocolVersion": MODERN, f"{PREFIX}/clientCapabilities": {}}
HEADERS = {"mcp_protocol_version": MODERN, "mcp_method": "tools/call", "mcp_name": "refund", "x_run": "a"}


@asynccontextmanager
async def modern(port: int, handle: str | None, token: str | None = None, **options: Any) -> AsyncIterator[Client]:
    """Yields a client of the library that only speaks protocol 2026-07-28."""
    named = {} if handle is None else {"X-Run": handle}
    named |= {} if token is None else {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=named, timeout=30) as http,
        Client(streamable_http_client(url(port), http_client=http), mode=MODERN, **options) as client,
    ):
        yield client


def named_by_header(folder: Path, policy: str, port: int) -> list[str]:
    options = ("--listen", f"127.0.0.1:{port}", "--conversation-header", "X-Run")
    return proxy_command(folder, policy, *options, server=shop_command())


def test_a_header_names_the_conversation(tmp_path: Path) -> None:
    """Clients with the same value share a history; another value is another conversation."""

    async def session() -> None:
        port = free_port()
        async with serving(named_by_header(tmp_path, AUTHENTICATED, port), tmp_path, port):
            refund = {"order_id": "W1", "amount": 5}
            async with modern(port, "ann") as ann, modern(port, "bob") as bob:
                assert ann.protocol_version == MODERN
                await ann.call_tool("authenticate", {"email": "ann@example.com"})
                assert (await bob.call_tool("refund", refund)).is_error
            async with modern(port, "ann") as again:
                assert not (await again.call_tool("refund", refund)).is_error

    run(session())
    assert paid(tmp_path) == [["W1", 5]]


def test_all_messages_pass_without_a_session(tmp_path: Path) -> None:
    """Progress, resources, prompts and an approval reach each of two clients that use the same ids at once."""
    requests: list[str] = []

    async def elicited(context: Any, params: Any) -> ElicitResult:
        requests.append(params.message)
        return ElicitResult(action="accept", content={"decision": "approve"})

    async def use(client: Client) -> None:
        steps: list[float] = []

        async def progress(done: float, total: float | None, message: str | None) -> None:
            steps.append(done)

        assert len((await client.list_tools()).tools) == 13
        await client.call_tool("count_up", {}, progress_callback=progress)
        assert steps == [0, 1, 2]
        assert (await client.read_resource("shop://terms")).contents[0].text == "no returns"
        assert (await client.get_prompt("complaint", {"order_id": "W1"})).messages

    async def session() -> None:
        port = free_port()
        async with (
            serving(named_by_header(tmp_path, APPROVED, port), tmp_path, port),
            modern(port, "a", elicitation_callback=elicited) as ann,
            modern(port, "a") as bob,
        ):
            await asyncio.gather(use(ann), use(bob), use(ann), use(bob))
            assert not (await ann.call_tool("refund", {"order_id": "W1", "amount": 500})).is_error
            assert (await bob.call_tool("refund", {"order_id": "W1", "amount": 500})).is_error

    run(session())
    assert paid(tmp_path) == [["W1", 500]]
    assert len(requests) == 1


def test_a_client_that_leaves_cancels_its_call(tmp_path: Path) -> None:
    """The call stays in flight, and others in the conversation go on."""

    async def session() -> None:
        port = free_port()
        async with (
            serving(named_by_header(tmp_path, LIMIT, port), tmp_path, port),
            modern(port, "a") as client,
        ):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(client.call_tool("slow_refund", {"order_id": "W1", "amount": 5}), 2)
            assert not (await client.call_tool("refund", {"order_id": "W2", "amount": 5})).is_error

    run(session())
    assert paid(tmp_path) == [["W1", 5], ["W2", 5]]


def test_a_token_is_a_conversation(tmp_path: Path) -> None:
    """Without a header, all requests of a caller belong to one conversation; another caller has another one."""

    async def refunds(port: int, token: str) -> bool:
        async with modern(port, None, token) as client:
            return bool((await client.call_tool("refund", {"order_id": "W1"})).is_error)

    with proxy(tmp_path, policy=AT_MOST_ONE, server=shop_command()) as front:
        bot, other = front.token("agent"), front.token("agent", name="other")
        assert [run(refunds(front.port, token)) for token in (bot, bot, other)] == [False, True, False]
        with pytest.raises(BaseExceptionGroup):
            run(refunds(front.port, "ga_wrong"))
    assert len(paid(tmp_path)) == 2


def body(**changes: Any) -> bytes:
    params = {"name": "refund", "arguments": {"order_id": "W1", "amount": 5}, "_meta": ENVELOPE}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params, **changes}).encode()


def test_requests_that_disagree_with_their_headers_are_refused(tmp_path: Path) -> None:
    """An intermediary may have decided by the headers, so nothing is called."""

    async def session() -> None:
        port = free_port()
        async with serving(named_by_header(tmp_path, LIMIT, port), tmp_path, port):
            for data, headers, status, code in (
                (body(), {"mcp_name": "wire"}, 400, -32020),
                (body(), {"mcp_method": "tools/list"}, 400, -32020),
                (body(), {"mcp_protocol_version": "2027-01-01"}, 400, -32020),
                (body(params={"name": "refund"}), {}, 400, -32602),
                (body(), {"x_run": ""}, 400, -32600),
                (body(), {"x_run": "a" * 300}, 400, -32600),
                (body(method="tools/none"), {"mcp_method": "tools/none"}, 404, -32601),
                (body().replace(b'"id"', b'"id":2,"id"'), {}, 400, -32600),
            ):
                received, reply = await asyncio.to_thread(posted, port, data, **{**HEADERS, **headers})
                assert (received, json.loads(reply)["error"]["code"]) == (status, code), (headers, reply)
            assert book(tmp_path) == []
            assert (await asyncio.to_thread(posted, port, body(), **HEADERS))[0] == 200

    run(session())


def test_nothing_names_the_conversation(tmp_path: Path) -> None:
    """A client that knows the handshake begins a session; another one gets an error that says what the proxy needs."""

    async def session() -> None:
        port = free_port()
        command = proxy_command(tmp_path, LIMIT, "--listen", f"127.0.0.1:{port}", server=shop_command())
        async with serving(command, tmp_path, port):
            async with Client(url(port)) as client:
                assert client.protocol_version != MODERN
            async with modern(port, None) as client:
                with pytest.raises(MCPError, match="--conversation-header"):
                    await client.list_tools()

    run(session())
