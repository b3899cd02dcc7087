"""The tools of the agents: compared with the rules, and those of MCP servers with the accepted ones."""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Callable, Collection, Iterable
from typing import Any

from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.set_model_response_tool import SetModelResponseTool
from google.adk.tools.transfer_to_agent_tool import TransferToAgentTool

from guardagent.enforcement import EnforcementPoint, ToolSpec
from guardagent.enforcement.hosts import UNREAD, ListedTools, unaccepted_names
from guardagent.errors import InputError
from guardagent.frameworks.adk.adapter.arguments import spec_of
from guardagent.frameworks.adk.adapter.inspection import declared_tools

MAX_KNOWN = 4096


class ToolLists:
    """The tools that the agents of one plugin have.

    Args:
        guard: compares them with its rules.
        unjudged: returns the arguments of a tool that are not judged.
        unguarded: the tools that may run without a guard.
    """

    def __init__(
        self, guard: EnforcementPoint, unjudged: Callable[[Any], Collection[str]], unguarded: frozenset[str]
    ) -> None:
        self._guard, self._unjudged, self._unguarded = guard, unjudged, unguarded
        self._listed = ListedTools(guard)
        self._read: dict[tuple[Any, ...], ToolSpec] = {}
        self._roots: dict[int, weakref.ref[Any]] = {}  # an agent built per request goes with it, and so do its toolsets
        self._unlisted: weakref.WeakSet[Any] = weakref.WeakSet()

    def check_declared(self, root: Any) -> None:
        """Compares the tools that agents declare with the rules, once. Toolsets are compared once they are listed.

        Raises:
            InputError: a tool cannot be guarded, or a rule names one that is probably a misspelling.
        """
        known = self._roots.get(id(root))
        if root is None or (known is not None and known() is root):  # None: the agents come one by one
            return
        tools, sets = declared_tools(root)
        self._list(tools)
        self._unlisted.update(sets)
        if not self._unlisted:
            self._listed.check()
        self._roots[id(root)] = weakref.ref(root)

    async def update(self, context: Any, request: Any) -> None:
        """Compares the tools in a request to a model. The model does not read unaccepted descriptions of servers.

        Raises:
            InputError: as `check_declared`.
        """
        agent, tools = context.get_invocation_context().agent, list(request.tools_dict.values())
        self._list(tools)
        late = self._update_servers(agent, tools)
        try:
            self._listed.check()
        except InputError:
            if not self._unlisted:
                raise
            await self._list_all(context)  # the rule may name a tool of another agent
        for declared in getattr(request.config, "tools", None) or () if late else ():
            for one in getattr(declared, "function_declarations", None) or ():
                if one.name in late:
                    one.description, one.parameters, one.parameters_json_schema = UNREAD, None, None

    async def _list_all(self, context: Any) -> None:
        """Lists the toolsets of all agents."""
        reader = ReadonlyContext(context.get_invocation_context())
        for one in list(self._unlisted):
            self._list(await one.get_tools_with_prefix(reader))
            self._unlisted.discard(one)
        self._listed.check()

    def _list(self, tools: Iterable[Any]) -> None:
        for tool in tools:
            if isinstance(tool, SetModelResponseTool | TransferToAgentTool) or tool.name in self._unguarded:
                continue
            self._listed.specs[tool.name] = self._spec(tool)

    def _spec(self, tool: Any) -> ToolSpec:
        """Returns the declaration of a tool; that of a function is read once, as the host builds its tool anew."""
        if type(tool).__name__ != FunctionTool.__name__:
            return spec_of(tool, self._unjudged(tool))
        key = (tool.name, _identity(tool.func))
        if key not in self._read:
            if len(self._read) >= MAX_KNOWN:
                self._read.clear()
            self._read[key] = spec_of(tool, self._unjudged(tool))
        return self._read[key]

    def _update_servers(self, agent: Any, tools: Iterable[Any]) -> set[str]:
        keys = [server_of(one) for one in getattr(agent, "tools", None) or ()]  # a server may have no tool yet
        servers: dict[str, list[ToolSpec]] = {f"{key} of {agent.name}": [] for key in keys if key is not None}
        for tool in tools:
            if (server := server_of(tool)) is not None and tool.name not in self._unguarded:
                servers.setdefault(f"{server} of {agent.name}", []).append(self._listed.specs[tool.name])
        return unaccepted_names(self._guard, servers)


def server_of(tool: Any) -> str | None:
    """Returns the key of the server of an MCP tool, or of a toolset; None for others."""
    manager = getattr(tool, "_mcp_session_manager", None)
    if manager is None:
        return None
    parameters = getattr(manager, "_connection_params", None)
    inner = getattr(parameters, "server_params", parameters)
    shown = getattr(inner, "url", None) or getattr(inner, "command", None) or type(inner).__name__
    address = [shown, getattr(inner, "args", None)]
    return f"{shown} ({hashlib.sha256(repr(address).encode()).hexdigest()[:8]})"


def _identity(function: Any) -> Any:
    try:
        hash(function)
    except TypeError:
        return id(function)
    return function
