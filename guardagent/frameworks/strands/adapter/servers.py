"""The MCP server of a tool, so that tools which it adds later can be told from the accepted ones."""

from __future__ import annotations

import functools
import hashlib
import inspect
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel
from strands.tools.mcp import MCPAgentTool, MCPClient

from guardagent.enforcement import EnforcementPoint, ToolSpec
from guardagent.enforcement.hosts import UNREAD

_STABLE = (str, bytes, int, float, bool, type(None), BaseModel)


def update_servers(guard: EnforcementPoint, agent: Any, tools: Iterable[Any], specs: Mapping[str, ToolSpec]) -> None:
    """Compares the tools of servers with the accepted ones.

    Args:
        guard: holds the accepted tools.
        agent: has the clients, one of which may have no tools yet.
        tools: the agent's.
        specs: their declarations by name.
    """
    clients = getattr(agent.tool_registry, "_tool_providers", ())
    servers: dict[str, list[ToolSpec]] = {server_of(one): [] for one in clients if isinstance(one, MCPClient)}
    for tool in tools:
        if isinstance(tool, MCPAgentTool):
            servers.setdefault(server_of(tool.mcp_client), []).append(specs[tool.tool_name])
    for server, listed in servers.items():
        guard.update_server_tools(server, listed)


def without_unread(guard: EnforcementPoint, declared: Iterable[Any]) -> list[Any]:
    """Returns the declarations for the model; those of unaccepted tools have no text of their server."""
    hidden = {"description": UNREAD, "inputSchema": {"json": {"type": "object", "properties": {}}}}
    return [
        one if guard.accepted.unaccepted(one["name"]) is None else {"name": one["name"], **hidden} for one in declared
    ]


def server_of(client: Any) -> str:
    """Returns the key of a client's server: how the program reaches it, as nothing that the server says may count.

    Clients that a program builds anew have the same key. If two servers have the same, tools of the second are late.
    """
    transport = getattr(client, "_transport_callable", None)
    where = repr((getattr(client, "_prefix", None), _described(transport, 0)))
    return f"{type(client).__name__} ({hashlib.sha256(where.encode()).hexdigest()[:8]})"


def _described(value: Any, depth: int) -> Any:
    """Returns a description of a value that is the same whenever the program makes it."""
    if isinstance(value, _STABLE):
        return repr(value)
    if depth > 5:
        return type(value).__qualname__
    if isinstance(value, Mapping):
        return sorted((str(name), repr(_described(item, depth + 1))) for name, item in value.items())
    if isinstance(value, list | tuple):
        return [_described(item, depth + 1) for item in value]
    if isinstance(value, functools.partial):
        return [_described(one, depth + 1) for one in (value.func, value.args, value.keywords)]
    if inspect.isfunction(value):
        code = value.__code__
        held = [_held(cell) for cell in value.__closure__ or ()]
        inner = [held, value.__defaults__, value.__kwdefaults__]
        return [code.co_filename, code.co_firstlineno, value.__qualname__, _described(inner, depth + 1)]
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _held(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None
