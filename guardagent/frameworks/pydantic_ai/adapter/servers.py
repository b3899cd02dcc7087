"""The MCP server of a toolset, so that tools which it adds later can be told from the accepted ones."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from guardagent.enforcement import EnforcementPoint, ToolSpec
from guardagent.frameworks.pydantic_ai.adapter.guarded_toolset import own_toolsets


def server_of(toolset: Any) -> str | None:
    """Returns the key of the server of an MCP toolset; None for other toolsets."""
    servers = [one for one in own_toolsets(toolset) if _has_module(one, "pydantic_ai.mcp")]
    if not servers:
        return None
    address = [_address(one) for one in servers]
    shown = ", ".join(str(one.id or type(one).__name__) for one in servers)
    return f"{shown} ({hashlib.sha256(repr(address).encode()).hexdigest()[:8]})"


def is_durable(thing: Any) -> bool:
    """Whether a toolset or a capability runs tools in another process, as Temporal, DBOS and Prefect do."""
    return _has_module(thing, "pydantic_ai.durable_exec")


def late_tools(guard: EnforcementPoint, server: str, specs: Iterable[ToolSpec]) -> set[str]:
    """Compares the tools of a server with the accepted ones. Returns the names of those that may not be called."""
    specs = list(specs)
    guard.update_server_tools(server, specs)
    return {one.name for one in specs if guard.accepted.unaccepted(one.name) is not None}


def _address(toolset: Any) -> list[Any]:
    transport = getattr(getattr(toolset, "client", None), "transport", None)
    fields: Mapping[str, Any] = getattr(transport, "__dict__", {})
    return [fields.get(name) for name in ("url", "command", "args")]


def _has_module(thing: Any, module: str) -> bool:
    return any(f"{kind.__module__}.".startswith(f"{module}.") for kind in type(thing).__mro__)
