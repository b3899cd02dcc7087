"""MCP: a middleware for servers of one's own, and a proxy before any server.

server.add_middleware(GuardMiddleware(guard))        a FastMCP server
server.middleware.append(GuardServerMiddleware(guard))   a server of the mcp library
guardagent mcp-proxy --policies F -- COMMAND… | URL  any server
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from guardagent.errors import InputError

if TYPE_CHECKING:
    from guardagent.frameworks.mcp.adapter.middleware import GuardMiddleware
    from guardagent.frameworks.mcp.adapter.server_middleware import GuardServerMiddleware

__all__ = ["GuardMiddleware", "GuardServerMiddleware", "require_fastmcp", "require_mcp"]

_MCP, _FASTMCP = (2, 3), (4, 1)


def __getattr__(name: str) -> Any:
    if name == "GuardMiddleware":
        require_fastmcp()
        from guardagent.frameworks.mcp.adapter.middleware import GuardMiddleware

        return GuardMiddleware
    if name == "GuardServerMiddleware":
        require_mcp()
        from guardagent.frameworks.mcp.adapter.server_middleware import GuardServerMiddleware

        return GuardServerMiddleware
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def require_mcp() -> None:
    """Raises InputError where the mcp library is missing or too old."""
    _require("mcp", _MCP)


def require_fastmcp() -> None:
    """Raises InputError where FastMCP is missing or too old."""
    _require("fastmcp", _FASTMCP)


def _require(package: str, least: tuple[int, int]) -> None:
    wanted = f"{package}>={least[0]}.{least[1]}"
    try:
        found = version(package)
    except PackageNotFoundError:
        raise InputError(f"{wanted} is not installed; pip install 'guardagent[mcp]'") from None
    if tuple(int(part) for part in found.split(".")[:2] if part.isdecimal()) < least:
        raise InputError(f"{package} {found} is too old; expected {wanted}: pip install -U 'guardagent[mcp]'")
