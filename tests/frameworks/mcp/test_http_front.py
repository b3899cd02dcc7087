"""The MCP proxy in front of a server behind a URL, and with clients over HTTP."""

from __future__ import annotations

import asyncio
import json
import sys
import urllib.error
import urllib.request
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from itertools import product
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastmcp")

from mcp import MCPError

from tests.frameworks.mcp.helpers import (
    INITIALIZE,
    book,
    client_of,
    environment,
    failed,
    free_port,
    listening,
    paid,
    proxy_command,
    serving,
    shop_command,
    text_of,
)
from tests.frameworks.scenarios import APPROVED, AT_MOST_ONE, AUTHENTICATED, LIMIT

ERAS = pytest.mark.parametrize("modern", [False, True], ids=["handshake", "2026-07-28"])


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(work, 90))


def url(port: int) -> str:
    return f"http://127.0.0.1:{port}/mcp"


@ERAS
def test_a_server_behind_a_url(tmp_path: Path, *, modern: bool) -> None:
    """Results, progress, resources and prompts pass, and the limit is enforced."""

    async def session() -> None:
        port = free_port()
        async with (
            serving(shop_command("http", str(port)), tmp_path, port),
            client_of(proxy_command(tmp_path, LIMIT, server=[url(port)]), tmp_path, modern=modern) as client,
        ):
            await client.begin()
            assert failed(await client.call("refund", order_id="W1", amount=500))
            assert failed(await client.call("refund", order_id="W1"))
            assert not failed(await client.call("refund", order_id="W1", amount=50))
            reply = await client.call("get_order", order_id="W1")
            assert reply["result"]["structuredContent"]["items"] == [{"sku": "ä☃"}]
            counted = {"name": "count_up", "arguments": {}, "_meta": {"progressToken": "t"}}
            await client.request("tools/call", counted)
            steps = [
                message["params"]["progress"]
                for message in client.others
                if message["method"] == "notifications/progress"
            ]
            assert steps == [0, 1, 2]
            read = await client.request("resources/read", {"uri": "shop://terms"})
            assert read["result"]["contents"][0]["text"] == "no returns"
            got = await client.request("prompts/get", {"name": "complaint", "arguments": {"order_id": "W1"}})
            assert "W1" in got["result"]["messages"][0]["content"]["text"]

    run(session())
    assert paid(tmp_path) == [["W1", 50]]


def test_requests_of_a_server_behind_a_url_reach_the_client(tmp_path: Path) -> None:
    """Sampling and elicitation reach the client at standard input."""
    answers = {
        "sampling/createMessage": {"role": "assistant", "content": {"type": "text", "text": "sunny"}, "model": "m"},
        "elicitation/create": {"action": "accept", "content": {"value": "red"}},
    }

    async def session() -> None:
        port = free_port()
        async with (
            serving(shop_command("http", str(port)), tmp_path, port),
            client_of(proxy_command(tmp_path, LIMIT, server=[url(port)]), tmp_path) as client,
        ):
            client.answer = lambda method, params: answers[method]
            await client.begin(sampling={}, elicitation={})
            assert text_of(await client.call("ask_model")) == "sunny"
            assert text_of(await client.call("ask_person")) == "accept"

    run(session())


CRASHES = AT_MOST_ONE.replace("refund(", "crash(")


def test_a_crash_of_a_server_behind_a_url(tmp_path: Path) -> None:
    """The current call stays in flight; when the server is back, the session continues."""

    async def session() -> None:
        port = free_port()
        command = shop_command("http", str(port))
        async with AsyncExitStack() as stack:
            first = await stack.enter_async_context(serving(command, tmp_path, port))
            proxy = client_of(proxy_command(tmp_path, CRASHES, server=[url(port)]), tmp_path)
            client = await stack.enter_async_context(proxy)
            await client.begin()
            assert failed(await client.call("crash", order_id="W1"))
            await first.wait()
            await stack.enter_async_context(serving(command, tmp_path, port))
            assert failed(await client.call("crash", order_id="W1"))
            assert not failed(await client.call("refund", order_id="W1", amount=5))

    run(session())
    assert book(tmp_path) == [["crash", "W1"], ["refund", "W1", 5]]


STATUSES = ["error", "hang up", "400", "401", "404", "409", "429", "500", "503"]
BODIES = ["no JSON", "no type", "too much", "a bomb", "an event without end", "no event", "202", "307"]
ODD = Path(__file__).parent / "servers" / "odd_http.py"


@pytest.mark.parametrize(("to_get", "answer"), [*product(["404", "405"], STATUSES), *product(["405"], BODIES)])
def test_a_call_that_ran_is_never_sent_again(tmp_path: Path, to_get: str, answer: str) -> None:
    """The client gets an error for every incorrect answer, and a call not known to have failed stays in flight."""

    async def session() -> None:
        port = free_port()
        async with (
            serving([sys.executable, "-S", str(ODD), str(port), to_get, answer], tmp_path, port),
            client_of(proxy_command(tmp_path, AT_MOST_ONE, server=[url(port)]), tmp_path) as client,
        ):
            await client.begin()
            assert failed(await client.call("refund", order_id="W1", amount=5))
            assert failed(await client.call("refund", order_id="W1", amount=5))

    run(session())
    assert paid(tmp_path) == [["W1", 5]]


# --- clients over HTTP


def http_client(port: int, **options: Any) -> Any:
    from mcp.client import Client

    return Client(url(port), **options)


def in_front(folder: Path, policy: str, port: int) -> list[str]:
    return proxy_command(folder, policy, "--listen", f"127.0.0.1:{port}", server=shop_command())


def test_two_clients_are_two_conversations(tmp_path: Path) -> None:
    """A conversation does not see the calls of another one, even if they interleave."""

    async def session() -> None:
        port = free_port()
        async with (
            serving(in_front(tmp_path, AUTHENTICATED, port), tmp_path, port),
            http_client(port) as ann,
            http_client(port) as bob,
        ):
            refund = {"order_id": "W1", "amount": 5}
            await ann.call_tool("authenticate", {"email": "ann@example.com"})
            assert (await bob.call_tool("refund", refund)).is_error
            assert not (await ann.call_tool("refund", {**refund, "order_id": "A"})).is_error
            await bob.call_tool("authenticate", {"email": "bob@example.com"})
            assert not (await bob.call_tool("refund", {**refund, "order_id": "B"})).is_error

    run(session())
    assert paid(tmp_path) == [["A", 5], ["B", 5]]


def test_all_messages_pass_over_http(tmp_path: Path) -> None:
    """Progress, resources, prompts, server requests and an approval reach a client over HTTP."""
    requests: list[str] = []

    async def elicited(context: Any, params: Any) -> Any:
        from mcp_types import ElicitResult

        requests.append(params.message)
        content = {"decision": "approve"} if "Approve" in params.message else {"value": "red"}
        return ElicitResult(action="accept", content=content)

    async def session() -> None:
        port = free_port()
        steps: list[float] = []

        async def progress(done: float, total: float | None, message: str | None) -> None:
            steps.append(done)

        async with (
            serving(in_front(tmp_path, APPROVED, port), tmp_path, port),
            http_client(port, elicitation_callback=elicited) as client,
        ):
            assert len((await client.list_tools()).tools) == 13
            await client.call_tool("count_up", {}, progress_callback=progress)
            assert steps == [0, 1, 2]
            assert (await client.read_resource("shop://terms")).contents[0].text == "no returns"
            assert (await client.get_prompt("complaint", {"order_id": "W1"})).messages
            assert (await client.call_tool("ask_person", {})).content[0].text == "accept"
            assert not (await client.call_tool("refund", {"order_id": "W1", "amount": 500})).is_error
            assert (await client.call_tool("refund", {"order_id": "W1", "amount": 5000})).is_error

    run(session())
    assert paid(tmp_path) == [["W1", 500]]
    assert len(requests) == 2


def posted(port: int, body: bytes, **headers: str) -> tuple[int, bytes]:
    """Returns the status and body that a raw HTTP request gets."""
    accept = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(url(port), body, {**accept, **named})  # noqa: S310 - our own server
    try:
        with urllib.request.urlopen(request, timeout=20) as reply:  # noqa: S310
            return reply.status, reply.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def test_requests_without_a_session_are_refused(tmp_path: Path) -> None:
    """Nothing is called without a session, with an unknown one, with an invalid body, or with another Host header."""
    params = {"name": "refund", "arguments": {"order_id": "W1", "amount": 5}}
    call = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    twice = call.replace(b'"method"', b'"method":"ping","method"', 1)
    begin = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE}).encode()

    async def session() -> None:
        port = free_port()
        async with serving(in_front(tmp_path, LIMIT, port), tmp_path, port):
            for body, headers, status in (
                (call, {}, 400),
                (call, {"mcp_session_id": "made-up"}, 404),
                (call, {"mcp_protocol_version": "2026-07-28"}, 400),
                (twice, {}, 400),
                (b"\xff\x00", {}, 400),
                (b"[]", {}, 400),
                (b"", {}, 400),
                (b" " * 5_000_000, {}, 413),
                (begin, {"host": "evil.example"}, 421),
            ):
                received, _ = await asyncio.to_thread(posted, port, body, **headers)
                assert received == status, (body[:80], headers)
            assert (await asyncio.to_thread(posted, port, begin))[0] == 200

    run(session())
    assert book(tmp_path) == []


def test_a_crash_of_a_server_with_clients_over_http(tmp_path: Path) -> None:
    """Each session has its own server, which is restarted."""

    async def session() -> None:
        port = free_port()
        async with (
            serving(in_front(tmp_path, CRASHES, port), tmp_path, port),
            http_client(port) as ann,
            http_client(port) as bob,
        ):
            with pytest.raises(MCPError):
                await ann.call_tool("crash", {"order_id": "W1"})
            assert not (await bob.call_tool("get_order", {"order_id": "W1"})).is_error
            assert (await ann.call_tool("crash", {"order_id": "W1"})).is_error
            assert not (await ann.call_tool("get_order", {"order_id": "W1"})).is_error

    run(session())


def test_an_address_in_use_is_an_error(tmp_path: Path) -> None:
    """The exit status is 2, and the message says what is expected."""

    async def session() -> tuple[int | None, bytes]:
        taken = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
        port = taken.sockets[0].getsockname()[1]
        await listening(port)
        command = proxy_command(tmp_path, LIMIT, "--listen", f"127.0.0.1:{port}")
        pipe = asyncio.subprocess.PIPE
        ran = await asyncio.create_subprocess_exec(*command, stderr=pipe, cwd=Path(__file__).parents[3])
        _, reply = await ran.communicate()
        taken.close()
        return ran.returncode, reply

    status, stderr = run(session())
    assert status == 2
    assert b"an address that is free" in stderr
    assert b"serving at" not in stderr


def test_a_client_can_connect_once_the_address_is_printed(tmp_path: Path) -> None:
    """The proxy prints the address after binding it."""

    async def session() -> None:
        port = free_port()
        command, pipe = in_front(tmp_path, LIMIT, port), asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *command, stderr=pipe, env=environment(tmp_path), cwd=Path(__file__).parents[3]
        )
        assert process.stderr is not None
        async for line in process.stderr:
            if b"serving at" in line:
                break
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()
        process.terminate()
        await process.communicate()

    run(session())
