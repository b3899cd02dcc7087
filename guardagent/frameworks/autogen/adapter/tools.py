"""The guarded forms of workbenches: of static ones, and of those whose tools can change, as those of MCP servers."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import partial
from typing import Any, Protocol

from autogen_core import CancellationToken
from autogen_core.tools import (
    StaticStreamWorkbench,
    StaticWorkbench,
    TextResultContent,
    ToolResult,
    ToolSchema,
    Workbench,
)

from guardagent._support.requirements import require_parts
from guardagent.enforcement import ToolSpec
from guardagent.enforcement.calls import plain_arguments
from guardagent.enforcement.hosts import UNREAD
from guardagent.enforcement.schema import validate_arguments
from guardagent.errors import InputError, ToolDenied
from guardagent.frameworks.autogen.adapter.calls import AutoGenCalls
from guardagent.frameworks.autogen.adapter.guarded_tool import undumped
from guardagent.frameworks.autogen.adapter.outcomes import outcome_of_result
from guardagent.types import thaw

_STATIC = ("list_tools", "call_tool", "call_tool_stream")


class ToolOwner(Protocol):
    """Guards the tools of one agent."""

    @property
    def calls(self) -> AutoGenCalls:
        """Judges its calls."""

    def tool(self, tool: Any, name: str, place: str) -> Any:
        """Returns the guarded form of a tool of a static workbench."""

    def listed(self, server: str, specs: list[ToolSpec], place: str) -> dict[str, bool]:
        """Compares a server's list with the accepted tools.

        Returns:
            The names of the agent's tools, and whether they may be called; without those that another workbench has.
        """

    def check_tools(self) -> None:
        """Compares new or changed tools with the rules."""


class _GuardedStatic(StaticWorkbench):
    """Offers the guarded forms of another workbench's tools, also of those that it gets later."""

    def __init__(self, workbench: StaticWorkbench, owner: ToolOwner, place: str) -> None:
        require_parts(workbench, "_tools", "_tool_overrides", "_override_name_to_original")
        self.guardagent_inner, self.guardagent_owner, self._place = workbench, owner, place

    @property
    def _tools(self) -> list[Any]:
        inner = self.guardagent_inner
        shown = {original: name for name, original in inner._override_name_to_original.items()}  # noqa: SLF001 - the host's seam
        tools = [(one, str(getattr(one, "name", ""))) for one in inner._tools]  # noqa: SLF001 - as above
        return [self.guardagent_owner.tool(one, shown.get(name, name), self._place) for one, name in tools]

    @property
    def _tool_overrides(self) -> Any:
        return self.guardagent_inner._tool_overrides  # noqa: SLF001 - as above

    @property
    def _override_name_to_original(self) -> Any:
        return self.guardagent_inner._override_name_to_original  # noqa: SLF001 - as above

    async def list_tools(self) -> list[ToolSchema]:
        found: list[ToolSchema] = await super().list_tools()
        self.guardagent_owner.check_tools()
        accepted = self.guardagent_owner.calls.guard.accepted
        return [_hidden(one["name"]) if accepted.unaccepted(one["name"]) else one for one in found]

    async def start(self) -> None:
        await self.guardagent_inner.start()

    async def stop(self) -> None:
        await self.guardagent_inner.stop()

    async def reset(self) -> None:
        await self.guardagent_inner.reset()

    def dump_component(self) -> Any:
        raise undumped("the workbench")


class _GuardedStaticStream(_GuardedStatic, StaticStreamWorkbench):
    """As above, for workbenches whose tools stream their results."""


class _GuardedServer(Workbench):
    """Judges the calls of a workbench whose tools can change, by the schemas that it listed last."""

    def __init__(self, workbench: Workbench, owner: ToolOwner, place: str) -> None:
        require_parts(workbench, "list_tools", "call_tool")
        self.guardagent_inner, self.guardagent_owner = workbench, owner
        self._server, self._place, self._specs = _server_of(workbench, place), place, dict[str, ToolSpec]()

    def __getattr__(self, name: str) -> Any:
        if name == "guardagent_inner":
            raise AttributeError(name)
        return getattr(self.guardagent_inner, name)

    async def list_tools(self) -> list[ToolSchema]:
        schemas = {one["name"]: one for one in await self.guardagent_inner.list_tools()}
        specs = {
            name: ToolSpec(name, dict(one.get("parameters", {})), one.get("description", ""))
            for name, one in schemas.items()
        }
        allowed = self.guardagent_owner.listed(self._server, list(specs.values()), self._place)
        self._specs = {name: specs[name] for name in allowed}
        self.guardagent_owner.check_tools()
        return [schemas[name] if may_run else _hidden(name) for name, may_run in allowed.items()]

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        cancellation_token: CancellationToken | None = None,
        call_id: str | None = None,
    ) -> ToolResult:
        """Runs a call. A denial is a result with an error."""
        if name not in self._specs:
            await self.list_tools()
        calls = self.guardagent_owner.calls
        try:
            args = self._read(name, arguments or {})
        except InputError as error:
            return failure(name, str(await calls.refusal(name, str(error))))
        try:
            allowed = await calls.authorize(name, args, partial(self._read, name))
        except ToolDenied as denied:
            return failure(name, str(denied))
        call = self.guardagent_inner.call_tool
        result: ToolResult = await allowed.run(
            lambda: call(name, thaw(allowed.args), cancellation_token, call_id), outcome_of_result
        )
        return result

    def _read(self, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        if name not in self._specs:
            raise InputError(f"there is no tool {name!r}")
        return plain_arguments(validate_arguments(name, arguments, self._specs[name].schema))

    async def start(self) -> None:
        await self.guardagent_inner.start()

    async def stop(self) -> None:
        await self.guardagent_inner.stop()

    async def reset(self) -> None:
        await self.guardagent_inner.reset()

    async def save_state(self) -> Mapping[str, Any]:
        state: Mapping[str, Any] = await self.guardagent_inner.save_state()
        return state

    async def load_state(self, state: Mapping[str, Any]) -> None:
        await self.guardagent_inner.load_state(state)

    def dump_component(self) -> Any:
        raise undumped("the workbench")


def guarded_workbench(workbench: Any, owner: ToolOwner, place: str) -> Any:
    """Returns the guarded form of a workbench.

    Args:
        workbench: the workbench itself. It is not changed.
        owner: guards its agent's tools.
        place: names the workbench among those of its agent.

    Raises:
        InputError: it is not a workbench of AutoGen.
    """
    if not isinstance(workbench, Workbench):
        raise InputError(f"this is a {type(workbench).__name__}; expected a Workbench of AutoGen")
    for base, kind in ((StaticStreamWorkbench, _GuardedStaticStream), (StaticWorkbench, _GuardedStatic)):
        if isinstance(workbench, base) and not _overrides(type(workbench), base):
            return kind(workbench, owner, place)
    return _GuardedServer(workbench, owner, place)


def guard_of_workbench(workbench: Any) -> ToolOwner | None:
    """Returns the owner of a guarded workbench; None for others."""
    return workbench.guardagent_owner if isinstance(workbench, _GuardedStatic | _GuardedServer) else None


def guard_tools_of(workbench: Any) -> None:
    """Guards the tools of a guarded static workbench; those of others are known once they are listed.

    Raises:
        InputError: one cannot be guarded.
    """
    if isinstance(workbench, _GuardedStatic):
        list(workbench._tools)  # noqa: SLF001 - of this file


def failure(name: str, text: str) -> ToolResult:
    """Returns the host's error of a tool."""
    return ToolResult(name=name, result=[TextResultContent(content=text)], is_error=True)


def server_key(params: Any, shown: str) -> str:
    """Returns the key of a server: where it is, without what may change, such as tokens in headers."""
    place = [getattr(params, name, None) for name in ("command", "args", "url")]
    return f"{shown} ({hashlib.sha256(repr(place).encode()).hexdigest()[:8]})"


def _hidden(name: str) -> ToolSchema:
    """Returns the schema of a tool without its server's unreviewed description."""
    return ToolSchema(name=name, description=UNREAD)


def _server_of(workbench: Any, place: str) -> str:
    params = getattr(workbench, "server_params", None)
    return place if params is None else server_key(params, type(workbench).__name__)


def _overrides(kind: type, base: type) -> bool:
    return any(getattr(kind, name, None) is not getattr(base, name, None) for name in _STATIC)
