"""The conformance shop behind a real MCP server over HTTP, in a thread of this process."""

from __future__ import annotations

import socket
import threading
import time
from typing import Any

import uvicorn
from mcp.server.fastmcp import FastMCP

from guardagent.testing.conformance import Shop


class ShopServer:
    """A server with the shop's refund. `add` adds another tool.

    Attributes:
        url: its address.
    """

    def __init__(self, shop: Shop) -> None:
        self._shop, self._mcp = shop, FastMCP("shop", stateless_http=True, log_level="ERROR")
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._port = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}/mcp"
        self.add("refund")
        config = uvicorn.Config(self._mcp.streamable_http_app(), log_level="error")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True)
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)

    def add(self, tool: str, function: Any = None, **options: Any) -> None:
        """Adds a tool of the shop, or a function of that name."""
        self._mcp.add_tool(function or self._shop.tool(tool), name=tool, **options)

    def name(self, tool: str) -> str:
        """Returns the name under which an agent knows a tool."""
        return f"mcp_127_0_0_1_{self._port}_mcp_{tool}"

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join(timeout=5)
