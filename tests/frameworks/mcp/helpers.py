"""Shared by the tests of MCP: server processes, a client that exchanges raw lines, and the shop's book.

async with client_of(proxied(folder, LIMIT)) as client:
    answer = await client.call("refund", order_id="W1", amount=50)
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.frameworks.scenarios import policy_file

SHOP = Path(__file__).parent / "servers" / "shop.py"
PLAIN = SHOP.with_name("plain.py")
SECONDS = 30.0
INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
MODERN = "2026-07-28"


def shop_command(*args: str) -> list[str]:
    return [sys.executable, str(SHOP), *args]


def plain_command() -> list[str]:
    """Returns the command of a shop that starts at once."""
    return [sys.executable, "-S", str(PLAIN)]


def proxy_command(folder: Path, policy: str, *options: str, server: list[str] | None = None) -> list[str]:
    """Returns the command of the proxy in front of the shop that starts at once, or of another server."""
    path = policy_file(folder, policy)
    command = [sys.executable, "-m", "guardagent", "mcp-proxy", "--policies", str(path), *options]
    return [*command, "--", *(server or plain_command())]


def book(folder: Path) -> list[list[Any]]:
    """Returns the side effects of the shop."""
    path = folder / "book.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def paid(folder: Path) -> list[list[Any]]:
    """Returns the refunds that the shop paid."""
    return [line[1:] for line in book(folder) if line[0] == "refund"]


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "SHOP": str(folder / "book.jsonl"), "FASTMCP_LOG_LEVEL": "ERROR"}


class RawClient:
    """Writes lines and reads lines.

    Attributes:
        others: messages that were not answers: notifications, and requests of the server.
        answer: gives the client's answer to a request of the server: method and params -> result, or None for none.
        modern: whether every request carries the envelope of protocol 2026-07-28.
    """

    def __init__(self, process: asyncio.subprocess.Process, *, modern: bool) -> None:
        self.process, self.modern = process, modern
        self.others: list[dict[str, Any]] = []
        self.answer: Callable[[str, Any], Any] = lambda method, params: None
        self.capabilities: dict[str, Any] = {}
        self.broken: list[bytes] = []
        self._answers: dict[Any, asyncio.Future[dict[str, Any]]] = {}
        self._count = 0

    async def begin(self, **capabilities: Any) -> dict[str, Any]:
        """Performs the handshake; protocol 2026-07-28 has none."""
        self.capabilities = capabilities
        if self.modern:
            return await self.request("server/discover")
        reply = await self.request("initialize", {**INITIALIZE, "capabilities": capabilities})
        await self.notify("notifications/initialized")
        return reply

    async def call(self, tool: str, **args: Any) -> dict[str, Any]:
        """Returns the answer to a tool call; if the result requests input, the client provides it and calls again."""
        params: dict[str, Any] = {"name": tool, "arguments": args}
        while True:
            reply = await self.request("tools/call", params)
            wanted = reply.get("result", {}).get("inputRequests")
            if not wanted:
                return reply
            answers = {name: self.answer(request["method"], request["params"]) for name, request in wanted.items()}
            params = {**params, "inputResponses": answers}
            if "requestState" in reply["result"]:
                params["requestState"] = reply["result"]["requestState"]

    async def request(self, method: str, params: Any = None) -> dict[str, Any]:
        return await self.answered(await self.ask(method, params))

    async def ask(self, method: str, params: Any = None) -> int:
        """Sends a request and returns its id."""
        self._count += 1
        self._answers[self._count] = asyncio.get_running_loop().create_future()
        message = {"jsonrpc": "2.0", "id": self._count, "method": method}
        if self.modern:
            params = {**(params or {}), "_meta": {**self._envelope(), **(params or {}).get("_meta", {})}}
        await self.send({**message, **({} if params is None else {"params": params})})
        return self._count

    async def answered(self, name: Any) -> dict[str, Any]:
        reply = self._answers.setdefault(name, asyncio.get_running_loop().create_future())
        return await asyncio.wait_for(reply, SECONDS)

    async def notify(self, method: str, params: Any = None) -> None:
        await self.send({"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params})})

    async def send(self, message: Any) -> None:
        await self.line(json.dumps(message).encode())

    async def line(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        await self.process.stdin.drain()

    async def other(self, method: str) -> dict[str, Any]:
        """Returns the first message with this method that was not an answer."""
        async with asyncio.timeout(SECONDS):
            while True:
                for message in self.others:
                    if message.get("method") == method:
                        return message
                await asyncio.sleep(0.01)

    async def read(self) -> None:
        """Reads until the stream ends."""
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            try:
                message = json.loads(line)
            except ValueError:
                self.broken.append(line)
                continue
            if "method" not in message:
                reply = self._answers.setdefault(message.get("id"), asyncio.get_running_loop().create_future())
                if not reply.done():
                    reply.set_result(message)
                continue
            self.others.append(message)
            if "id" in message and (result := self.answer(message["method"], message.get("params"))) is not None:
                await self.send({"jsonrpc": "2.0", "id": message["id"], "result": result})
        for waiting in self._answers.values():
            if not waiting.done():
                waiting.set_exception(ConnectionError("the server has ended"))
                waiting.exception()  # marks it as retrieved, even if nobody awaits it

    def _envelope(self) -> dict[str, Any]:
        name = "io.modelcontextprotocol"
        return {
            f"{name}/protocolVersion": MODERN,
            f"{name}/clientInfo": INITIALIZE["clientInfo"],
            f"{name}/clientCapabilities": self.capabilities,
        }


@asynccontextmanager
async def client_of(command: list[str], folder: Path, *, modern: bool = False) -> AsyncIterator[RawClient]:
    """Starts a server and yields its client, before the handshake."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *command, stdin=pipe, stdout=pipe, env=environment(folder), cwd=SHOP.parents[4], limit=2**26
    )
    client = RawClient(process, modern=modern)
    reading = asyncio.create_task(client.read())
    try:
        yield client
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), 10)
        except TimeoutError:
            process.kill()
            await process.wait()
        await reading
        process._transport.close()  # type: ignore[attr-defined]


def text_of(reply: dict[str, Any]) -> str:
    """Returns the text of a tool's result, or of an error."""
    if "error" in reply:
        return str(reply["error"]["message"])
    return "\n".join(part.get("text", "") for part in reply["result"]["content"])


def failed(reply: dict[str, Any]) -> bool:
    return "error" in reply or reply["result"].get("isError") is True


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@asynccontextmanager
async def serving(command: list[str], folder: Path, port: int) -> AsyncIterator[asyncio.subprocess.Process]:
    """Starts a process that serves HTTP at a port."""
    process = await asyncio.create_subprocess_exec(*command, env=environment(folder), cwd=SHOP.parents[4])
    try:
        await listening(port)
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), 10)
        except TimeoutError:
            process.kill()
            await process.wait()


async def listening(port: int) -> None:
    async with asyncio.timeout(SECONDS):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                await writer.wait_closed()
                return
