"""The tools of an MCP server, without its transport: ADK's own MCP tools, and the session that they call."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("mcp")

from google.adk.tools.mcp_tool.mcp_session_manager import StreamableHTTPConnectionParams
from google.adk.tools.mcp_tool.mcp_tool import McpTool
from google.adk.tools.mcp_tool.mcp_toolset import McpToolset
from mcp import types as mcp_types

URL = "http://shop.example/mcp"
PROPERTIES = {"order_id": {"type": "string"}, "amount": {"type": "integer"}, "email": {"type": "string"}}


class ServedToolset(McpToolset):
    """The toolset of a server.

    Args:
        work: runs a tool: name, arguments -> its result.
        description: of each tool.

    Attributes:
        names: the names of its tools; more may come.
    """

    def __init__(self, work: Callable[..., Any], names: list[str], description: str = "A tool.") -> None:
        super().__init__(connection_params=StreamableHTTPConnectionParams(url=URL))
        self.names, self.description = names, description
        self._manager = _Manager(work)

    async def get_tools(self, readonly_context: Any = None) -> list[Any]:
        schema = {"type": "object", "properties": PROPERTIES}
        listed = [mcp_types.Tool(name=name, description=self.description, inputSchema=schema) for name in self.names]
        return [McpTool(mcp_tool=tool, mcp_session_manager=self._manager) for tool in listed]

    async def close(self) -> None: ...


class _Manager:
    """The manager of sessions of one server."""

    _connection_params = StreamableHTTPConnectionParams(url=URL)

    def __init__(self, work: Callable[..., Any]) -> None:
        self._work = work

    async def create_session(self, **options: Any) -> Any:
        return self

    async def call_tool(self, name: str, arguments: Any = None, **options: Any) -> Any:
        return await self._work(name, arguments or {})

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **options: contextlib.nullcontext()


def result(text: str, *, failed: bool = False) -> Any:
    """Returns a result of MCP."""
    return mcp_types.CallToolResult(content=[mcp_types.TextContent(type="text", text=text)], isError=failed)
