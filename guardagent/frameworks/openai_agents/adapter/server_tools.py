"""Compares the tools that MCP servers list with the accepted ones."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from agents import FunctionTool

from guardagent.enforcement import EnforcementPoint, ToolSpec
from guardagent.enforcement.hosts import UNREAD
from guardagent.enforcement.names import declared


def unaccepted_tools(guard: EnforcementPoint, servers: Iterable[Any], tools: Iterable[Any]) -> set[str]:
    """Returns the names of the tools that were added or changed after the first list of their server.

    Args:
        guard: holds the accepted tools.
        servers: the agent's.
        tools: as the agent lists them.
    """
    listed = [one for one in tools if isinstance(one, FunctionTool) and one._mcp_tool_binding is not None]  # noqa: SLF001
    for at, server in enumerate(servers):
        own = {one._mcp_tool_binding[1]: one for one in listed if one._mcp_tool_binding[2] == at}  # noqa: SLF001
        guard.update_server_tools(_server_key(server), _specs(server, own))
    return {one.name for one in listed if guard.accepted.unaccepted(one.qualified_name) is not None}


def without_description(tool: Any) -> Any:
    """Returns a tool without its server's unreviewed description and schema."""
    created = copy.copy(tool)
    created.description, created.params_json_schema = UNREAD, {"type": "object", "properties": {}}
    return created


def _specs(server: Any, own: Mapping[str, FunctionTool]) -> list[ToolSpec]:
    """Returns all tools of a server, including those that a filter hides from this agent or run."""
    raw = getattr(server, "cached_tools", None)
    if raw is None:
        return [ToolSpec(one.qualified_name, one.params_json_schema, one.description) for one in own.values()]
    found = [declared(one.model_dump(by_alias=True, exclude_none=True)) for one in raw]
    names = {name: one.qualified_name for name, one in own.items()}
    return [replace(one, name=names.get(one.name, one.name)) for one in found if one is not None]


def _server_key(server: Any) -> str:
    """Returns a server's name, which may not be unique, with a digest of its address."""
    params = getattr(server, "params", None)
    where = [_field(params, name) for name in ("command", "args", "url")]
    return f"{server.name} ({hashlib.sha256(repr(where).encode()).hexdigest()[:8]})"


def _field(params: Any, name: str) -> Any:
    return params.get(name) if isinstance(params, Mapping) else getattr(params, name, None)
