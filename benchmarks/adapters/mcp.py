"""The cost of a guard per tool call in MCP: middlewares in a server, and the proxy in front of one (stdio, HTTP)."""

from __future__ import annotations

import asyncio
import functools
import logging
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from benchmarks.limit_guard import POLICY

SERVER = """
import sys
from fastmcp import FastMCP

server = FastMCP("shop")

@server.tool
def refund(order_id: str, amount: int = 500) -> str:
    "Pays."
    return f"{order_id} {amount}"

if sys.argv[1:]:
    server.run("http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False, log_level="error")
else:
    server.run(show_banner=False)
"""
WARM = 20

Taken = tuple[list[float], list[float]]
Connect = Callable[[Path, AsyncExitStack], Any]


def measured(connect: Connect) -> Callable[[int], Taken]:
    """Seconds per call, alternating unguarded and guarded, each with its own client."""

    def measure(calls: int) -> Taken:
        logging.disable(logging.ERROR)
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "policies.yaml").write_text(POLICY)
            (Path(folder) / "server.py").write_text(SERVER)
            return asyncio.run(_measured(connect, Path(folder), calls))

    return measure


async def _measured(connect: Connect, folder: Path, calls: int) -> Taken:
    taken: Taken = ([], [])
    async with AsyncExitStack() as stack:
        clients = await connect(folder, stack)
        for at in range(calls + WARM):
            for client, seconds in zip(clients, taken, strict=True):
                started = time.perf_counter()
                result = await client.call_tool("refund", {"order_id": f"W{at}", "amount": 50})
                seconds.append(time.perf_counter() - started)
                assert not result.is_error
    return taken[0][WARM:], taken[1][WARM:]


def _refund(order_id: str, amount: int = 500) -> str:
    """Pays."""
    return f"{order_id} {amount}"


async def fastmcp_servers(folder: Path, stack: AsyncExitStack) -> list[Any]:
    """Two FastMCP servers in this process, one of them with the middleware."""
    from fastmcp import Client, FastMCP

    from guardagent.enforcement import ToolGuard
    from guardagent.frameworks.mcp import GuardMiddleware

    servers = [FastMCP("plain"), FastMCP("guarded")]
    for server in servers:
        server.tool(_refund, name="refund")
    servers[1].add_middleware(GuardMiddleware(ToolGuard(folder / "policies.yaml")))
    return [await stack.enter_async_context(Client(server)) for server in servers]


async def mcp_servers(folder: Path, stack: AsyncExitStack) -> list[Any]:
    """Like the above, with servers of the mcp library."""
    from mcp.client import Client
    from mcp.server.mcpserver import MCPServer

    from guardagent.enforcement import ToolGuard
    from guardagent.frameworks.mcp import GuardServerMiddleware

    servers = [MCPServer("plain"), MCPServer("guarded")]
    for server in servers:
        server.add_tool(_refund, name="refund")
    guarded: Any = servers[1]
    guarded._lowlevel_server.middleware.append(GuardServerMiddleware(ToolGuard(folder / "policies.yaml")))  # noqa: SLF001
    return [await stack.enter_async_context(Client(server)) for server in servers]


async def stdio(folder: Path, stack: AsyncExitStack) -> list[Any]:
    """A server over stdio, alone and behind the proxy."""
    server = [sys.executable, str(folder / "server.py")]
    return [await _piped(server, stack), await _piped([*_proxy(folder), *server], stack)]


async def url_behind_stdio(folder: Path, stack: AsyncExitStack) -> list[Any]:
    """A server at a URL, alone and behind the proxy with its client on standard input."""
    url = await stack.enter_async_context(_serving([sys.executable, str(folder / "server.py")]))
    return [await _at(url, stack), await _piped([*_proxy(folder), url], stack)]


async def http(folder: Path, stack: AsyncExitStack) -> list[Any]:
    """A server at a URL, alone and behind the proxy at another URL."""
    url = await stack.enter_async_context(_serving([sys.executable, str(folder / "server.py")]))
    proxy = await stack.enter_async_context(_serving([*_proxy(folder, "--listen", "127.0.0.1:PORT"), url]))
    return [await _at(url, stack), await _at(proxy, stack)]


def _proxy(folder: Path, *options: str) -> list[str]:
    policies = str(folder / "policies.yaml")
    return [sys.executable, "-m", "guardagent", "mcp-proxy", "--policies", policies, *options, "--"]


async def _piped(command: list[str], stack: AsyncExitStack) -> Any:
    from mcp.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    nowhere: Any = subprocess.DEVNULL
    parameters = StdioServerParameters(command=command[0], args=command[1:])
    return await stack.enter_async_context(Client(stdio_client(parameters, nowhere), mode="legacy"))


async def _at(url: str, stack: AsyncExitStack) -> Any:
    from mcp.client import Client

    return await stack.enter_async_context(Client(url, mode="legacy"))


@asynccontextmanager
async def _serving(command: list[str]) -> AsyncIterator[str]:
    """A server process on a free port, which replaces PORT or becomes the last argument."""
    with socket.socket() as free_socket:
        free_socket.bind(("127.0.0.1", 0))
        port = str(free_socket.getsockname()[1])
    named = [part.replace("PORT", port) for part in command]
    named += [] if named != command else [port]
    nowhere = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*named, stdout=nowhere, stderr=nowhere)
    try:
        async with asyncio.timeout(60):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", int(port))
                except OSError:
                    await asyncio.sleep(0.05)
                else:
                    writer.close()
                    break
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        await process.wait()


@functools.cache
def _installed() -> None:
    from guardagent.frameworks.mcp.adapter import require_fastmcp, require_mcp

    require_mcp()
    require_fastmcp()


def _row(connect: Connect) -> Callable[[int], Taken]:
    def measure(calls: int) -> Taken:
        _installed()
        return measured(connect)(calls)

    return measure


MEASURES = {
    "mcp: FastMCP middleware": _row(fastmcp_servers),
    "mcp: middleware of mcp": _row(mcp_servers),
    "mcp-proxy, stdio": _row(stdio),
    "mcp-proxy, stdio before a URL": _row(url_behind_stdio),
    "mcp-proxy, HTTP": _row(http),
}
measure = MEASURES["mcp: FastMCP middleware"]
