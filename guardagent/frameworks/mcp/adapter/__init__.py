"""MCP: middlewares for one's own servers, and a proxy for any server.

server.add_middleware(GuardMiddleware(guard))        a FastMCP server
server.middleware.append(GuardServerMiddleware(guard))   a server of the mcp library
guardagent mcp-proxy --policies F -- COMMAND… | URL  any server
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from guardagent._support.requirements import require
from guardagent.frameworks.mcp.package import DISTRIBUTIONS, EXTRA

if TYPE_CHECKING:
    from guardagent.frameworks.mcp.adapter.middleware import GuardMiddleware, GuardServerMiddleware

__all__ = ["GuardMiddleware", "GuardServerMiddleware", "require_fastmcp", "require_mcp"]


def __getattr__(name: str) -> Any:
    if name == "GuardMiddleware":
        require_fastmcp()
        from guardagent.frameworks.mcp.adapter.middleware import GuardMiddleware

        return GuardMiddleware
    if name == "GuardServerMiddleware":
        require_mcp()
        from guardagent.frameworks.mcp.adapter.middleware import GuardServerMiddleware

        return GuardServerMiddleware
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def require_mcp() -> None:
    """Raises InputError if the mcp library is missing or too old."""
    _require("mcp")


def require_fastmcp() -> None:
    """Raises InputError if FastMCP is missing or too old."""
    _require("fastmcp")


def _require(name: str) -> None:
    require({name: DISTRIBUTIONS[name]}, EXTRA)
