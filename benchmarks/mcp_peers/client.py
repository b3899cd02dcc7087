"""A client: `client.py LIBRARY REVISION stdio COMMAND… | http URL`. Prints what it saw, as JSON.

LIBRARY is mcp1, mcp2 or fastmcp4; REVISION is what it asks for: handshake or newest.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import AsyncExitStack
from typing import Any

LIBRARY, REVISION, TRANSPORT, *TARGET = sys.argv[1:]
HEADERS = {"X-Run": "peers"}


async def main() -> None:
    async with AsyncExitStack() as opened:
        revision, client = await {"mcp1": mcp1, "mcp2": mcp2, "fastmcp4": fastmcp4}[LIBRARY](opened)
        tools = await client.list_tools()
        names = sorted(tool.name for tool in getattr(tools, "tools", tools))
        denied, allowed = [await refund(client, amount) for amount in (500, 50)]
        sys.stdout.write(
            json.dumps({"revision": revision, "tools": names, "denied": denied, "allowed": allowed}) + "\n"
        )


async def refund(client: Any, amount: int) -> str:
    more = {"raise_on_error": False} if LIBRARY == "fastmcp4" else {}
    result = await client.call_tool("refund", {"order_id": "W1", "amount": amount}, **more)
    return str(result.content[0].text)


async def mcp1(opened: AsyncExitStack) -> tuple[str, Any]:
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client
    from mcp.client.streamable_http import streamablehttp_client

    if TRANSPORT == "stdio":
        command = StdioServerParameters(command=TARGET[0], args=TARGET[1:], env=dict(os.environ))
        streams = await opened.enter_async_context(stdio_client(command))
    else:
        streams = await opened.enter_async_context(streamablehttp_client(TARGET[0], headers=HEADERS))
    session = await opened.enter_async_context(ClientSession(streams[0], streams[1]))
    return str((await session.initialize()).protocolVersion), session


async def mcp2(opened: AsyncExitStack) -> tuple[str, Any]:
    import httpx2
    from mcp.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client
    from mcp.client.streamable_http import streamable_http_client

    if TRANSPORT == "stdio":
        streams = stdio_client(StdioServerParameters(command=TARGET[0], args=TARGET[1:], env=dict(os.environ)))
    else:
        http = await opened.enter_async_context(httpx2.AsyncClient(headers=HEADERS, timeout=60))
        streams = streamable_http_client(TARGET[0], http_client=http)
    client = await opened.enter_async_context(Client(streams, mode=mode()))
    return str(client.protocol_version), client


async def fastmcp4(opened: AsyncExitStack) -> tuple[str, Any]:
    from fastmcp import Client
    from fastmcp.client.transports import StdioTransport, StreamableHttpTransport

    if TRANSPORT == "stdio":
        transport: Any = StdioTransport(TARGET[0], TARGET[1:], env=dict(os.environ))
    else:
        transport = StreamableHttpTransport(TARGET[0], headers=HEADERS)
    client = await opened.enter_async_context(Client(transport, mode=mode()))
    return str(client.session.protocol_version), client


def mode() -> Any:
    return "legacy" if REVISION == "handshake" else "2026-07-28"


asyncio.run(main())
