"""The MCP server of a tool, so that tools which it adds later can be told from the accepted ones."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Iterable
from typing import Any

from llama_index.core.tools import FunctionTool

from guardagent.enforcement import EnforcementPoint, ToolSpec
from guardagent.enforcement.hosts import unaccepted_names


def server_of(tool: Any) -> str | None:
    """Returns the key of the server of an MCP tool; None for other tools.

    `McpToolSpec` makes each tool of a function that holds it, and it holds the client.
    """
    if not isinstance(tool, FunctionTool) or not inspect.isfunction(tool.real_fn):
        return None
    owner = inspect.getclosurevars(tool.real_fn).nonlocals.get("self")
    client = getattr(owner, "client", None)
    if client is None or not hasattr(client, "call_tool"):
        return None
    address = [getattr(client, name, None) for name in ("command_or_url", "args")]
    shown = type(client).__name__ if address == [None, None] else str(address[0])
    return f"{shown} ({hashlib.sha256(repr(address).encode()).hexdigest()[:8]})"


def update_servers(guard: EnforcementPoint, tools: Iterable[Any], specs: dict[str, ToolSpec]) -> set[str]:
    """Compares the tools of servers with the accepted ones. Returns the names of those that may not be called.

    Args:
        guard: holds the accepted tools.
        tools: the agent's, before they are guarded.
        specs: their declarations by name.
    """
    servers: dict[str, list[ToolSpec]] = {}
    for tool in tools:
        if (server := server_of(tool)) is not None:
            servers.setdefault(server, []).append(specs[tool.metadata.get_name()])
    return unaccepted_names(guard, servers)
