"""An MCP server in this process, which begins with the given tools of a shop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agent_framework._mcp import MCPTool
from mcp import types
from mcp.server.lowlevel import Server

_PROPERTIES = {"order_id": {"type": "string"}, "amount": {"type": "integer"}, "email": {"type": "string"}}


class ShopServer:
    """A server whose tools may change.

    Args:
        functions: name -> what a tool does; returns its text, or a complete result.
    """

    def __init__(self, find: Callable[[str], Callable[..., Any]], *names: str) -> None:
        self._find, self.names = find, list(names)

    def tool(self, **options: Any) -> MCPTool:
        """Returns the host's client of the server, not connected yet."""
        return _InProcess(self, **options)

    def server(self) -> Server[Any]:
        return Server("shop", on_list_tools=self._list, on_call_tool=self._call)

    async def _list(self, context: Any, params: Any) -> types.ListToolsResult:
        schema = {"type": "object", "properties": _PROPERTIES}
        return types.ListToolsResult(tools=[types.Tool(name=name, input_schema=schema) for name in self.names])

    async def _call(self, context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        call = await self._find(params.name)(**(params.arguments or {}))
        if isinstance(call, types.CallToolResult):
            return call
        return types.CallToolResult(content=[types.TextContent(type="text", text=str(call))])


class _InProcess(MCPTool):
    def __init__(self, shop: ShopServer, **options: Any) -> None:
        super().__init__("shop", **options)
        self._shop = shop

    def get_mcp_client(self) -> Any:
        return self._shop.server()
