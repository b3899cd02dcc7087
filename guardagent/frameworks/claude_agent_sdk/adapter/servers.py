"""The MCP servers of this process: the guard stands at the tool itself, behind the hook."""

from __future__ import annotations

import copy
import inspect
import logging
import re
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from claude_agent_sdk import create_sdk_mcp_server

from guardagent._support.execution import Operation, adrive
from guardagent._support.requirements import require_parts
from guardagent.enforcement import Outcome, ToolSpec
from guardagent.enforcement.host_runs import HostScope
from guardagent.errors import InputError
from guardagent.frameworks.claude_agent_sdk.adapter.calls import ClaudeCalls, enter, outcome_of_result, plain_result
from guardagent.types import thaw

_CALL, _LIST = "tools/call", "tools/list"
_ID = "claudecode/toolUseId"
_BUILT_BY_SDK = "build_tool_server.<locals>.on_call_tool"
_log = logging.getLogger("guardagent")
_raised: ContextVar[list[BaseException] | None] = ContextVar("guardagent_claude_agent_sdk_raised", default=None)

Listed = Callable[[str, list[ToolSpec]], list[ToolSpec]]
"""Takes note of the complete list of a server. Returns the tools that may be called."""


def full_name(server: str, tool: str) -> str:
    """Returns the name by which the host calls a tool of a server."""
    return "__".join(["mcp", *(re.sub(r"[^a-zA-Z0-9_-]", "_", part) for part in (server, tool))])


@dataclass(frozen=True, slots=True)
class GuardedServer:
    """A server of this process.

    Attributes:
        name: the key of the server in the options.
        instance: the server itself; it is not changed.
        tools: those of `create_sdk_mcp_server`; None for another server, which lists them when it is asked.
        entry: its handler of calls.
    """

    name: str
    instance: Any
    tools: Mapping[str, Any] | None
    entry: Any

    @classmethod
    def of(cls, name: str, instance: Any) -> GuardedServer:
        """Reads a server.

        Raises:
            InputError: it has no place for a guard.
        """
        require_parts(instance, "middleware", "get_request_handler", "add_request_handler", "_request_handlers")
        entry = instance.get_request_handler(_CALL)
        return cls(name, instance, _tools_of(entry), entry)

    def specs(self) -> list[ToolSpec]:
        """Returns the declarations of the tools that are known before the server runs."""
        if not self.tools:
            return []
        listing = inspect.getclosurevars(self.instance.get_request_handler(_LIST).handler).nonlocals["tools"]
        return [spec_of(self.name, tool.model_dump(by_alias=True, mode="json", exclude_none=True)) for tool in listing]

    def guarded(self, calls: ClaudeCalls, listed: Listed) -> Any:
        """Returns a copy of the server whose tools run only what the guard has released."""
        created = copy.copy(self.instance)
        created._request_handlers = dict(created._request_handlers)  # noqa: SLF001 - of the copy
        if self.tools is not None:
            noting = [replace(tool, handler=_noting(tool.handler)) for tool in self.tools.values()]
            handler = create_sdk_mcp_server(self.name, tools=noting)["instance"].get_request_handler(_CALL)
            created.add_request_handler(_CALL, handler.params_type, handler.handler)
        seen = listed if self.tools is None else None
        created.middleware = [*self.instance.middleware, _CallGate(self.name, calls, seen)]
        return created


def spec_of(server: str, tool: Mapping[str, Any]) -> ToolSpec:
    """Returns the declaration of a tool as its server lists it."""
    return ToolSpec(full_name(server, tool["name"]), tool.get("inputSchema") or {}, tool.get("description") or "")


class _CallGate:
    """Stands innermost in a server. Runs a call that was released, once, and records its outcome."""

    def __init__(self, server: str, calls: ClaudeCalls, listed: Listed | None) -> None:
        self._server, self._calls, self._listed = server, calls, listed
        self._pages: list[Any] = []

    async def __call__(self, context: Any, call_next: Any) -> Any:
        if context.method == _CALL:
            return await self._call(context, call_next)
        result = await call_next(context)
        return result if context.method != _LIST or self._listed is None else self._list(context, result)

    async def _call(self, context: Any, call_next: Any) -> Any:
        params = dict(context.params or {})
        name, meta = full_name(self._server, str(params.get("name"))), params.get("_meta") or {}
        try:
            call = self._calls.take(str(meta.get(_ID)), name, params.get("arguments") or {})
        except InputError as error:
            _log.warning("a call was not run: %s", error)
            return {"content": [{"type": "text", "text": str(error)}], "isError": True}
        raised: list[BaseException] = []
        judged = replace(context, params={**params, "arguments": thaw(call.args)})

        async def work() -> Any:
            token = _raised.set(raised)
            try:
                with enter(HostScope(call.conversation, call=call)):
                    return await call_next(judged)
            finally:
                _raised.reset(token)

        def outcome(result: Any) -> Outcome:
            return Outcome.of_error(raised[0]) if raised else outcome_of_result(result)

        return await adrive(self._calls.guard.lifecycle.execute(call, Operation(work, work), outcome))

    def _list(self, context: Any, result: Any) -> Any:
        """Takes note of a list of tools, and hides those that are not accepted."""
        plain, first = plain_result(result), not (context.params or {}).get("cursor")
        self._pages = [*([] if first else self._pages), *plain.get("tools", ())]
        if plain.get("nextCursor"):
            return result
        assert self._listed is not None
        accepted = {
            spec.name for spec in self._listed(self._server, [spec_of(self._server, spec) for spec in self._pages])
        }
        return {
            **plain,
            "tools": [tool for tool in plain["tools"] if full_name(self._server, tool["name"]) in accepted],
        }


def _tools_of(entry: Any) -> Mapping[str, Any] | None:
    """Returns the tools of a server that the SDK has built, by name; None for another server.

    Raises:
        InputError: this version of the SDK builds servers in another way.
    """
    if entry is None or entry.handler.__qualname__ != _BUILT_BY_SDK:
        return None
    run_tool = inspect.getclosurevars(entry.handler).nonlocals.get("run_tool")
    tools = inspect.getclosurevars(run_tool).nonlocals.get("tools_by_name") if inspect.isfunction(run_tool) else None
    if not isinstance(tools, Mapping):
        raise InputError(
            "create_sdk_mcp_server has no 'tools_by_name' in this version, so failures of tools would not be known; "
            "install a version that the adapter was tried with"
        )
    return tools


def _noting(handler: Any) -> Any:
    """Returns a tool's function that notes what it raises, since the SDK turns that into a text."""
    return partial(_noted, handler)


async def _noted(handler: Any, args: Any) -> Any:
    try:
        return await handler(args)
    except Exception as error:
        raised = _raised.get()
        if raised is not None:
            raised.append(error)
        raise
