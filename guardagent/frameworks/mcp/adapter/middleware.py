"""The guards in one's own server: a middleware of FastMCP, and a middleware of the mcp library.

`server.add_middleware(GuardMiddleware(guard))`: the middleware of FastMCP only determines which session calls. The
guard itself is in the tools: a transform of the server returns copies of them whose functions judge their arguments
after every other middleware, after validation, coercion and defaults. So the tool receives exactly the judged
arguments.

`server.middleware.append(GuardServerMiddleware(guard))`: the middleware of the mcp library runs before the library's
own validation, since there is no later hook. So it validates the arguments against the tool's schema and adds its
defaults, without coercion: later validation has nothing left to change.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from fastmcp.exceptions import PromptError, ResourceError, ToolError
from fastmcp.server.context import Context
from fastmcp.server.middleware import Middleware, MiddlewareContext
from fastmcp.server.middleware.caching import ResponseCachingMiddleware
from fastmcp.server.middleware.tool_injection import ToolInjectionMiddleware
from fastmcp.server.providers.fastmcp_provider import FastMCPProviderTool
from fastmcp.server.transforms import Transform
from fastmcp.tools.base import InputRequiredToolResult, Tool, ToolResult
from fastmcp.tools.function_tool import FunctionTool
from fastmcp.tools.tool_transform import TransformedTool
from mcp.server.runner import ServerRunner
from mcp.shared.exceptions import MCPError
from mcp_types import CacheableResult, ListToolsResult, TextContent
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel

from guardagent.enforcement import Approval, ApprovalRequest, EnforcementPoint, HostCall, Outcome, ToolSpec, arun
from guardagent.enforcement.uri import normalised
from guardagent.errors import InputError, ToolDenied
from guardagent.frameworks.mcp.adapter import calls
from guardagent.frameworks.mcp.adapter.catalogue import Catalogue
from guardagent.frameworks.mcp.adapter.client_calls import ClientCalls, ClientRequest, ErrorResponseError
from guardagent.frameworks.mcp.adapter.guarded_tools import (
    MISSING,
    ClientSessions,
    Gate,
    GuardedTool,
    ask_by_form,
    captured,
    guarded_tool,
    noting_edits,
    require_plain,
)

_log = logging.getLogger("guardagent")


# --- FastMCP


async def from_elsewhere(tool: Tool) -> bool:
    """Whether a tool, or the tool that it wraps, belongs to a proxy or API rather than to a function here."""
    while isinstance(tool, GuardedTool | TransformedTool):
        tool = tool.inner if isinstance(tool, GuardedTool) else tool.parent_tool
    if isinstance(tool, FastMCPProviderTool):  # of a server in this process
        within = await tool._server.get_tool(tool._original_name)  # noqa: SLF001 - there is no public way to it
        return within is None or await from_elsewhere(within)
    return not isinstance(tool, FunctionTool)


class GuardMiddleware(Middleware):
    """Judges every call of a server's tools, its resources and its prompts.

    Args:
        guard: makes the decisions.
        conversation: returns the conversation id from the context of a request, if the transport has no
            sessions, or several sessions are one conversation.
    """

    def __init__(self, guard: EnforcementPoint, *, conversation: Callable[[Context], str | None] | None = None) -> None:
        self._gate = Gate(guard, conversation)
        self._guard = guard
        self._seen = False
        self._known: list[tuple[Any, ...]] = []

    def add_to(self, server: Any) -> None:
        """Adds the guard to a server, and at once to its tools.

        A middleware that is only added (`server.add_middleware`) learns its server with the first request: calls that
        the host itself makes before that, without the middleware, would not be judged.

        Raises:
            InputError: another middleware of the server answers in place of the guard.
        """
        server.add_middleware(self)
        self._require_place(server)
        self._install(server)

    async def attach(self, server: Any) -> None:
        """Checks the rules against the tools of a server. At its start this finds mistakes before a client does.

        Raises:
            InputError: as `ToolGuard.attach`; or a tool cannot be guarded.
        """
        self._install(server)
        await self._check_tools(list(await server.list_tools(run_middleware=False)), server)

    async def accept(self, server: Any) -> None:
        """Accepts the tools that mounted servers list now, after the operator has reviewed them.

        Raises:
            InputError: as `attach`.
        """
        tools = list(await server.list_tools(run_middleware=False))
        self._guard.accept((await _specs(tools))[1])
        self._seen = False
        await self._check_tools(tools, server)

    # --- hooks; FastMCP passes call_next by this name

    async def on_request(self, context: MiddlewareContext[Any], call_next: Any) -> Any:
        """Adds the guard to the tools with the first request."""
        if context.fastmcp_context is not None:
            self._install(context.fastmcp_context.fastmcp)
        return await call_next(context)

    async def on_call_tool(self, context: MiddlewareContext[Any], call_next: Any) -> Any:
        """Passes a call to the tool, which judges it, if the server's tools fit the rules."""
        try:
            await self._prepare(context)
        except InputError as error:
            call = HostCall(context.message.name, context.message.arguments or {}, self._gate.conversation())
            raise ToolError((await self._guard.arefuse(call, str(error))).feedback()) from None
        with noting_edits() as notes:
            try:
                output = await call_next(context)
            except ToolError as error:
                if notes:
                    raise ToolError("\n".join([str(error), *notes])) from error
                raise
        if not notes or isinstance(output, InputRequiredToolResult):
            return output
        content = [*output.content, *(TextContent(type="text", text=note) for note in notes)]
        return ToolResult(content, output.structured_content, output.meta, output.is_error)

    async def on_list_tools(self, context: MiddlewareContext[Any], call_next: Any) -> Any:
        """Checks the rules against a changed list; unaccepted tools are not shown."""
        tools = await call_next(context)
        try:
            await self._check_list(self._server_of(context))
        except InputError as error:
            _log.error("every call of a tool is denied: %s", error)
        conversation = self._gate.conversation()
        return [
            tool
            for tool in tools
            if self._guard.accepted.unaccepted(tool.name) is None and self._guard.may_call(tool.name, conversation)
        ]

    async def on_read_resource(self, context: MiddlewareContext[Any], call_next: Any) -> Any:
        """Judges `resource.read(uri=…)`, with the normal spelling of the URI, which is also the one that is read."""
        try:
            uri = normalised(str(context.message.uri))
        except InputError as error:
            call = HostCall("resource.read", {"uri": str(context.message.uri)}, self._gate.conversation())
            raise ResourceError((await self._guard.arefuse(call, str(error))).feedback()) from None
        judged = context.copy(message=context.message.model_copy(update={"uri": uri}))
        return await self._event(context, "resource.read", {"uri": uri}, ResourceError, lambda: call_next(judged))

    async def on_get_prompt(self, context: MiddlewareContext[Any], call_next: Any) -> Any:
        """Judges the event `prompt.get(name=…, arguments=…)`."""
        args = {"name": context.message.name, "arguments": dict(context.message.arguments or {})}
        return await self._event(context, "prompt.get", args, PromptError, lambda: call_next(context))

    # --- internals

    async def _event(self, context: Any, name: str, args: dict[str, Any], error: type[Exception], execute: Any) -> Any:
        call = HostCall(name, args, self._gate.conversation())
        try:
            self._require_place(self._server_of(context))
        except InputError as problem:
            raise error((await self._guard.arefuse(call, str(problem))).feedback()) from None
        try:
            return await arun(self._guard, call, lambda _: execute(), lambda _: Outcome())
        except ToolDenied as denied:
            raise error(str(denied)) from None

    def _install(self, server: Any) -> None:
        """Adds the guard to the tools as they are listed: a later transform may rename them.

        Clients may not cache what they read: a cache would answer in place of the guard.
        """
        server._mcp_server.cache_hints.pop("resources/read", None)  # noqa: SLF001 - there is no public way to it
        for transform in reversed(server.transforms):
            if isinstance(transform, _GuardTransform) and transform.gate is self._gate:
                return
            if not isinstance(transform, _GuardTransform):
                break
        server.add_transform(_GuardTransform(self._gate, server, self._check_list))

    async def _prepare(self, context: MiddlewareContext[Any]) -> None:
        """Checks the rules against the tools for the first time, or after a mistake. Later changes show at the tools.

        Raises:
            InputError: the tools do not fit the rules, or cannot be guarded.
        """
        server = self._server_of(context)
        self._require_place(server)
        if not self._seen or self._gate.problem is not None:
            await self._check_list(server)

    def _server_of(self, context: MiddlewareContext[Any]) -> Any:
        """Returns the server of a request, with the guard in its tools."""
        if context.fastmcp_context is None:
            raise InputError("this request has no context; expected one of a FastMCP server")
        self._install(context.fastmcp_context.fastmcp)
        return context.fastmcp_context.fastmcp

    async def _check_list(self, server: Any) -> None:
        await self._check_tools(list(await server.list_tools(run_middleware=False)), server)

    async def _check_tools(self, tools: list[Tool], server: Any) -> None:
        """Checks the rules against all tools. While there is a problem, the gate refuses every call.

        Raises:
            InputError: the tools do not fit the rules, or cannot be guarded.
        """
        try:
            await self._check(tools, server)
        except InputError as error:
            self._gate.problem = str(error)
            raise
        self._gate.problem = None

    async def _check(self, tools: list[Tool], server: Any) -> None:
        self._require_place(server)
        for tool in tools:
            require_plain(tool)
            if tool.task_config.supports_tasks():
                raise InputError(
                    f"the tool {tool.name!r} can run as a task in the background, past the guard; set task=False"
                )
        known: list[tuple[Any, ...]] = [(tool.key, tool.parameters, tool.description, tool.title) for tool in tools]
        if self._seen and known == self._known and self._gate.problem is None:
            return
        self._known, self._seen = known, True
        own, elsewhere = await _specs(tools)
        self._guard.attach([*own, *self._guard.update_server_tools("a server behind this one", elsewhere)])

    def _require_place(self, server: Any) -> None:
        """Requires that no other middleware of the server answers in place of the guard.

        Raises:
            InputError: one injects tools, or has a cache in front of the guard.
        """
        in_front = True
        for layer in server.middleware:
            in_front &= layer is not self
            if isinstance(layer, ToolInjectionMiddleware) and layer.injected_tools:
                raise InputError("a middleware injects tools, which cannot be guarded; add them to the server itself")
            if isinstance(layer, ResponseCachingMiddleware):
                _require_no_cache(layer, _CACHED if in_front else _CACHED[:1])


_CACHED = (("call_tool", "tools"), ("read_resource", "resources"), ("get_prompt", "prompts"))
"""The settings of a cache in front of the guard, which judges tools behind all middlewares, and their subjects."""


def _require_no_cache(layer: Any, settings: Sequence[tuple[str, str]]) -> None:
    for name, subject in settings:
        if getattr(layer, f"_{name}_settings", {}).get("enabled") is not False:
            order = "" if name == "call_tool" else ", or add it after the guard"
            raise InputError(
                f"a ResponseCachingMiddleware answers for {subject} in place of the guard; "
                f"expected {name}_settings={{'enabled': False}}{order}"
            )


async def _specs(tools: Sequence[Tool]) -> tuple[list[ToolSpec], list[ToolSpec]]:
    """Returns the tools of this server's own code, and those of mounted servers."""
    tool_specs: tuple[dict[str, ToolSpec], dict[str, ToolSpec]] = ({}, {})
    for tool in tools:
        more = {"title": tool.title} if tool.title else {}
        spec = ToolSpec(tool.name, tool.parameters, tool.description or "", more, _parameters(tool))
        tool_specs[await from_elsewhere(tool)][tool.name] = spec
    return list(tool_specs[0].values()), list(tool_specs[1].values())


def _parameters(tool: Tool) -> frozenset[str]:
    """Returns the names by which the tool's function gets its arguments: its schema may use aliases."""
    try:
        return frozenset(inspect.signature(tool.fn).parameters) if hasattr(tool, "fn") else frozenset()
    except (TypeError, ValueError):
        return frozenset()


class _GuardTransform(Transform):
    """Returns the tools of a server with the guard in them; if several have the same gate, the outermost.

    Args:
        gate: judges their calls.
        server: the server.
        check: compares all tools of a server with the rules, after one of them has changed.
    """

    def __init__(self, gate: Gate, server: Any, check: Callable[[Any], Awaitable[None]]) -> None:
        self.gate, self._server, self._check = gate, server, check
        self._listed: dict[str, tuple[Any, ...]] = {}

    async def list_tools(self, tools: Sequence[Tool]) -> Sequence[Tool]:
        if not self._outermost():
            return tools
        self._listed = {tool.key: _declaration(tool) for tool in tools}
        return [guarded_tool(tool, self.gate) for tool in tools]

    async def get_tool(self, name: str, call_next: Any, *, version: Any = None) -> Tool | None:
        tool = await call_next(name, version=version)
        if tool is None or not self._outermost():
            return tool
        if self._listed.get(tool.key) != _declaration(tool):
            with suppress(InputError):  # the gate knows it, and refuses every call
                await self._check(self._server)
        return guarded_tool(tool, self.gate)

    def _outermost(self) -> bool:
        ours = [
            transform
            for transform in self._server.transforms
            if isinstance(transform, _GuardTransform) and transform.gate is self.gate
        ]
        return ours[-1] is self


def _declaration(tool: Tool) -> tuple[Any, ...]:
    """Returns all of a tool that is compared with the rules."""
    function, in_background = getattr(tool, "fn", None), tool.task_config.supports_tasks()
    return tool.parameters, tool.description, tool.title, function, in_background


# --- the mcp library


class GuardServerMiddleware:
    """Judges every call of a server's tools, its resources and its prompts. Append it last (innermost).

    Args:
        guard: makes the decisions.
        conversation: returns the conversation id from the context of a request, if the transport has no
            sessions, or several sessions are one conversation.
    """

    def __init__(self, guard: EnforcementPoint, *, conversation: Callable[[Any], str | None] | None = None) -> None:
        self._conversation = conversation
        self._catalogue = Catalogue(guard)
        self._calls, self._sessions = ClientCalls(guard, self._catalogue), ClientSessions(guard)

    async def __call__(self, context: Any, call_next: Any) -> Any:
        """Handles one message of a client; `context` is a `ServerRequestContext`."""
        if context.method not in calls.OF_CLIENT or context.request_id is None:
            return await call_next(context)
        answer: Any = None
        plain: dict[str, Any] = {}

        async def forward(params: Mapping[str, Any]) -> dict[str, Any]:
            nonlocal answer, plain
            answer = await call_next(replace(context, params=params))
            if isinstance(answer, CacheableResult):
                answer = answer.model_copy(update={"ttl_ms": 0, "cache_scope": "private"})
            elif isinstance(answer, Mapping) and context.method == "resources/read":  # else the server's hint is added
                answer = calls.uncached({"ttlMs": 0, **answer})
            plain = _plain(answer)
            return plain

        async def ask(request: ApprovalRequest) -> Approval | None:
            client_capabilities = context.session.client_capabilities
            if modern or client_capabilities is None or not calls.can_ask(_plain(client_capabilities)):
                return None
            return await ask_by_form(context, request)

        params, conversation = context.params or {}, self._session(context)
        modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
        message = {"method": context.method, "params": params}
        request = ClientRequest(message, conversation, ask, calls.asks_by_result(params), modern)
        try:
            problem = await self._problem(context, call_next, conversation)
            if problem is not None:
                return await self._calls.refuse(request, problem)
            shown = await self._calls.answer(request, forward)
        except ErrorResponseError as refused:
            raise MCPError(refused.error["code"], refused.error["message"], refused.error.get("data")) from None
        return answer if shown is plain else shown

    async def _problem(self, context: Any, call_next: Any, conversation: str | None) -> str | None:
        """Returns why a request cannot be judged; None if it can."""
        if not conversation:
            return MISSING
        try:
            if context.method == calls.TOOL:
                await self._list(context, call_next)
        except InputError as error:
            return str(error)
        return None

    async def _list(self, context: Any, call_next: Any) -> None:
        """Lists the tools again as the client sees them, since they may have changed.

        Raises:
            InputError: the answer has no list of tools, or they do not fit the rules.
        """
        meta = (context.params or {}).get("_meta")
        cursor = None
        while True:
            params = {**({"_meta": meta} if meta else {}), **({"cursor": cursor} if cursor is not None else {})}
            answer = await _tools(replace(context, method="tools/list", params=params), call_next)
            if not isinstance(answer.get("tools"), list):
                raise InputError("the server does not list its tools")
            self._catalogue.page(cursor, answer)
            cursor = answer.get("nextCursor")
            if cursor is None:
                return

    def _session(self, context: Any) -> str | None:
        if self._conversation is not None:
            return self._conversation(context)
        return self._sessions.name(context.session, context.request)


async def _tools(context: Any, call_next: Any) -> dict[str, Any]:
    """Returns the server's answer to `tools/list`.

    If no other middleware comes between, this calls the server's handler: to validate and shape a typed answer for the
    client takes the library several times as long, and changes nothing of a tool that is judged.
    """
    runner = captured(call_next, "self")
    ready = isinstance(runner, ServerRunner) and runner.connection.initialize_accepted  # else the library refuses
    entry = runner.server.get_request_handler(context.method) if ready else None
    if entry is not None:
        answer = await entry.handler(context, entry.params_type.model_validate(context.params, by_name=False))
        if isinstance(answer, ListToolsResult):
            return _plain(answer)
    return _plain(await call_next(context))


def _plain(answer: Any) -> dict[str, Any]:
    if isinstance(answer, BaseModel):
        return answer.model_dump(by_alias=True, mode="json", exclude_none=True)
    return dict(answer or {})
