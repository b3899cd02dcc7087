"""A server with one tool: `server.py LIBRARY stdio | http PORT`; LIBRARY is mcp1, mcp2 or fastmcp4."""

from __future__ import annotations

import sys
from typing import Any

LIBRARY, TRANSPORT, *PORT = sys.argv[1:]


def refund(order_id: str, amount: int = 500) -> str:
    """Pays an order back."""
    return f"paid {amount}" if order_id else "no order"


def of_library() -> tuple[Any, dict[str, Any]]:
    if LIBRARY == "mcp1":
        from mcp.server.fastmcp import FastMCP

        more = {"port": int(PORT[0])} if PORT else {}
        return FastMCP("shop", **more), {"transport": "streamable-http" if PORT else "stdio"}
    address = {"host": "127.0.0.1", "port": int(PORT[0])} if PORT else {}
    if LIBRARY == "mcp2":
        from mcp.server.mcpserver import MCPServer

        return MCPServer("shop"), {"transport": "streamable-http" if PORT else "stdio", **address}
    from fastmcp import FastMCP as Newest

    return Newest("shop"), {"transport": "http" if PORT else "stdio", "show_banner": False, **address}


server, options = of_library()
server.tool()(refund)
server.run(**options)
