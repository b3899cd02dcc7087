"""The MCP server of a tool: its later tools are told from the accepted ones, and no call is sent twice."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Iterable, Sequence
from typing import Any

from agent_framework import FunctionTool

from guardagent._support.requirements import require_parts
from guardagent.enforcement import EnforcementPoint, ToolSpec
from guardagent.errors import InputError
from guardagent.frameworks.agent_framework.adapter.host_names import SERVER_MARKS, MCPTool
from guardagent.frameworks.agent_framework.adapter.outcomes import ServerAnswerLostError
from guardagent.frameworks.agent_framework.adapter.runs import scope

_SERVER_PARTS = ("_functions", "_recover_connection_after_loss")


def server_of(tool: FunctionTool) -> Any:
    """Returns the MCP server of a tool; None for other tools, also for those that load tools of a server.

    Raises:
        InputError: the host says that it is the tool of a server, and hides which.
    """
    if not any(one in (tool.additional_properties or {}) for one in SERVER_MARKS):
        return None
    function = tool.func
    server = inspect.getclosurevars(function).nonlocals.get("mcp_tool") if inspect.isfunction(function) else None
    if not isinstance(server, MCPTool):
        raise InputError(f"{tool.name!r} does not tell its server; install a version that the adapter was tried with")
    return server


def update_servers(guard: EnforcementPoint, tools: Sequence[FunctionTool], known: Iterable[Any]) -> set[str]:
    """Compares the tools of servers with the accepted ones. Returns the names of those that may not be called.

    Args:
        guard: holds the accepted tools.
        tools: those of a run.
        known: the servers of the agent, also those that have no tools.
    """
    servers = {id(server): server for server in (*known, *map(server_of, tools)) if server is not None}
    for server in servers.values():
        guard.update_server_tools(_key(server), [_spec(one) for one in server._functions])  # noqa: SLF001 - all of them
    return {one.name for one in tools if guard.accepted.unaccepted(one.name) is not None}


def send_once(tool: FunctionTool) -> None:
    """Makes the server of a tool fail where it would send a judged call again over a new connection."""
    server = server_of(tool)
    if server is None or hasattr(server, "guardagent_sends_once"):
        return
    require_parts(server, *_SERVER_PARTS)
    recover = server._recover_connection_after_loss  # noqa: SLF001 - the host has no switch for its retry

    async def recovered(**options: Any) -> None:
        await recover(**options)
        around = scope()
        if options.get("operation") == "tool call" and around is not None and around.call is not None:
            raise ServerAnswerLostError(
                "The connection to the server broke during the call, which may have done its work; it is not repeated."
            )

    server._recover_connection_after_loss, server.guardagent_sends_once = recovered, True  # noqa: SLF001


def _spec(tool: FunctionTool) -> ToolSpec:
    return ToolSpec(tool.name, tool.parameters(), tool.description or "")


def _key(server: Any) -> str:
    """Returns a server's name, which may not be unique, with a digest of its address."""
    where = [getattr(server, name, None) for name in ("command", "args", "url")]
    return f"{server.name} ({hashlib.sha256(repr(where).encode()).hexdigest()[:8]})"
