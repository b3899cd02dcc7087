"""The guarded forms of tools, of workbenches, and of code executors.

A workbench is static, or its tools can change, as those of MCP servers. Code that a CodeExecutorAgent runs without a
tool call is judged as the call `execute_code(language=..., code=...)`.
"""

from __future__ import annotations

import asyncio
import contextvars
import copy
import hashlib
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any

from autogen_agentchat.agents import BaseChatAgent
from autogen_agentchat.base import Team
from autogen_core import CancellationToken
from autogen_core.code_executor import CodeBlock, CodeExecutor, CodeResult
from autogen_core.tools import (
    BaseStreamTool,
    BaseTool,
    FunctionTool,
    StaticStreamWorkbench,
    StaticWorkbench,
    TextResultContent,
    ToolResult,
    ToolSchema,
    Workbench,
)
from pydantic import BaseModel

from guardagent._support.execution import adrive
from guardagent._support.requirements import require_parts
from guardagent.enforcement import ToolSpec
from guardagent.enforcement.host_adapter import UNREAD, HostAdapter
from guardagent.enforcement.host_runs import awaited
from guardagent.enforcement.schema import validate_arguments
from guardagent.enforcement.tool_arguments import finished
from guardagent.errors import InputError, ToolDenied
from guardagent.frameworks.autogen.adapter.calls import MODEL, AutoGenArguments, AutoGenInvocation, NamedArguments
from guardagent.frameworks.autogen.adapter.runs import AutoGenScope, outcome_of, outcome_of_code, outcome_of_result
from guardagent.frameworks.autogen.package import PARTS

_log = logging.getLogger("guardagent")

# --- tools


class AutoGenTool(BaseTool[BaseModel, Any]):
    """Judges each call of a tool, and runs the tool with the judged arguments.

    Args:
        tool: the tool itself. It is not changed.
        arguments: reads its arguments.
        adapter: has the guard.
        target: the agent to which the tool hands the conversation over; None for other tools.
    """

    def __init__(
        self, tool: Any, arguments: AutoGenArguments, adapter: HostAdapter[AutoGenScope], target: str | None = None
    ) -> None:
        super().__init__(tool.args_type(), tool.return_type(), tool.name, tool.description)
        self.guardagent_adapter = adapter
        self.guardagent_inner, self._arguments, self._target = tool, arguments, target
        self._outcome = partial(outcome_of, as_string=self.return_value_as_string)
        self._schema: ToolSchema = tool.schema  # made once: models see what was compared with the rules

    @property
    def guardagent_spec(self) -> ToolSpec:
        """The tool's declaration, under the name by which models call it."""
        return self._arguments.spec

    @property
    def schema(self) -> ToolSchema:
        return self._schema

    def return_value_as_string(self, value: Any) -> str:
        return str(self.guardagent_inner.return_value_as_string(value))

    async def save_state_json(self) -> Mapping[str, Any]:
        state: Mapping[str, Any] = await self.guardagent_inner.save_state_json()
        return state

    async def load_state_json(self, state: Mapping[str, Any]) -> None:
        await self.guardagent_inner.load_state_json(state)

    def dump_component(self) -> Any:
        raise undumped(f"the tool {self.name!r}")

    async def run(self, args: BaseModel, cancellation_token: CancellationToken) -> Any:
        async def work(own: BaseModel) -> Any:
            return finished(self.name, await _in_this_context(self.guardagent_inner).run(own, cancellation_token))

        steps = self._invocation(args).steps(lambda own: awaited(lambda: work(own[MODEL])))
        return await adrive(steps)

    def _invocation(
        self, proposed: Any, arguments: AutoGenArguments | NamedArguments | None = None
    ) -> AutoGenInvocation:
        reader, name = arguments or self._arguments, self._arguments.spec.name
        return AutoGenInvocation(self.guardagent_adapter, name, proposed, reader, self._outcome, self._target)


class AutoGenStreamTool(AutoGenTool, BaseStreamTool[BaseModel, Any, Any]):
    """As AutoGenTool, for a tool that streams its results, such as an agent or a team."""

    async def run_stream(self, args: BaseModel, cancellation_token: CancellationToken) -> AsyncGenerator[Any, None]:
        invocation = self._invocation(args)
        call, own = await adrive(invocation.allowed())
        results = self.guardagent_inner.run_stream(own[MODEL], cancellation_token)
        async with aclosing(invocation.stream(call, results)) as events:
            async for event in events:
                yield event


class AutoGenJsonTool(AutoGenTool):
    """As AutoGenTool, for a tool with a `run_json` of its own: it is judged by its schema."""

    async def run_json(
        self, args: Mapping[str, Any], cancellation_token: CancellationToken, call_id: str | None = None
    ) -> Any:
        async def work(own: Mapping[str, Any]) -> Any:
            return finished(self.name, await self.guardagent_inner.run_json(own, cancellation_token, call_id=call_id))

        invocation = self._invocation(args, NamedArguments(self._by_schema))
        return await adrive(invocation.steps(lambda own: awaited(lambda: work(own))))

    def _by_schema(self, args: Mapping[str, Any]) -> Mapping[str, Any]:
        return validate_arguments(self.name, args, self._arguments.spec.schema)


def guarded_tool(tool: Any, name: str, adapter: HostAdapter[AutoGenScope], target: str | None = None) -> AutoGenTool:
    """Returns the guarded form of a tool.

    Args:
        tool: a tool of AutoGen.
        name: the name by which models call it.
        adapter: has the guard.
        target: see AutoGenTool.

    Raises:
        InputError: the tool cannot be guarded.
    """
    if not isinstance(tool, BaseTool):
        raise InputError(f"the tool {name!r} is a {type(tool).__name__}; expected a BaseTool of AutoGen")
    require_parts(tool, *PARTS["tool"].split())
    arguments = AutoGenArguments.of(tool, name)
    streams = isinstance(tool, BaseStreamTool)
    if type(tool).run_json is not BaseTool.run_json or (
        streams and type(tool).run_json_stream is not BaseStreamTool.run_json_stream
    ):
        return AutoGenJsonTool(tool, arguments, adapter, target)
    return (AutoGenStreamTool if streams else AutoGenTool)(tool, arguments, adapter, target)


def _in_this_context(tool: Any) -> Any:
    """Returns a tool whose function inherits the context of this call, since the host runs it in a thread."""
    if type(tool) is not FunctionTool or asyncio.iscoroutinefunction(tool._func):  # noqa: SLF001 - the host's seam
        return tool
    created = copy.copy(tool)
    created._func = partial(contextvars.copy_context().run, tool._func)  # noqa: SLF001 - as above
    return created


def undumped(what: str) -> InputError:
    return InputError(
        f"{what} has a guard, and its dump would have none; dump it before the guard is attached, and attach the "
        "guard to what is loaded"
    )


# --- workbenches

_STATIC = ("list_tools", "call_tool", "call_tool_stream")


class _GuardedWorkbench(Workbench):
    """Runs as long as another workbench."""

    guardagent_inner: Any

    async def start(self) -> None:
        await self.guardagent_inner.start()

    async def stop(self) -> None:
        await self.guardagent_inner.stop()

    async def reset(self) -> None:
        await self.guardagent_inner.reset()

    def dump_component(self) -> Any:
        raise undumped("the workbench")


class _GuardedStatic(_GuardedWorkbench, StaticWorkbench):
    """Offers the guarded forms of another workbench's tools, also of those that it gets later."""

    def __init__(self, workbench: StaticWorkbench, owner: AssistantTools, place: str) -> None:
        require_parts(workbench, *PARTS["StaticWorkbench"].split())
        self.guardagent_inner, self.guardagent_owner, self._place = workbench, owner, place

    @property
    def _tools(self) -> list[Any]:
        inner = self.guardagent_inner
        shown = {original: name for name, original in inner._override_name_to_original.items()}  # noqa: SLF001 - the host's seam
        tools = [(tool, str(getattr(tool, "name", ""))) for tool in inner._tools]  # noqa: SLF001 - as above
        return [self.guardagent_owner.tool(tool, shown.get(name, name), self._place) for tool, name in tools]

    @property
    def _tool_overrides(self) -> Any:
        return self.guardagent_inner._tool_overrides  # noqa: SLF001 - as above

    @property
    def _override_name_to_original(self) -> Any:
        return self.guardagent_inner._override_name_to_original  # noqa: SLF001 - as above

    async def list_tools(self) -> list[ToolSchema]:
        schemas: list[ToolSchema] = await super().list_tools()
        self.guardagent_owner.tools.check()
        accepted = self.guardagent_owner.adapter.guard.accepted
        return [_hidden(schema["name"]) if accepted.unaccepted(schema["name"]) else schema for schema in schemas]


class _GuardedStaticStream(_GuardedStatic, StaticStreamWorkbench):
    """As above, for workbenches whose tools stream their results."""


class _GuardedChangingWorkbench(_GuardedWorkbench):
    """Judges the calls of a workbench whose tools can change, by the schemas that it listed last."""

    def __init__(self, workbench: Workbench, owner: AssistantTools, place: str) -> None:
        require_parts(workbench, *PARTS["Workbench"].split())
        self.guardagent_inner, self.guardagent_owner = workbench, owner
        self._server, self._place, self._specs = _server_of(workbench, place), place, dict[str, ToolSpec]()

    def __getattr__(self, name: str) -> Any:
        if name == "guardagent_inner":
            raise AttributeError(name)
        return getattr(self.guardagent_inner, name)

    async def list_tools(self) -> list[ToolSchema]:
        schemas = {tool["name"]: tool for tool in await self.guardagent_inner.list_tools()}
        specs = {
            name: ToolSpec(name, dict(schema.get("parameters", {})), schema.get("description", ""))
            for name, schema in schemas.items()
        }
        allowed = self.guardagent_owner.list_server(self._server, list(specs.values()), self._place)
        self._specs = {name: specs[name] for name in allowed}
        self.guardagent_owner.tools.check()
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
        adapter, work = self.guardagent_owner.adapter, self.guardagent_inner.call_tool
        reader = NamedArguments(partial(self._read, name))
        invocation = AutoGenInvocation(adapter, name, arguments or {}, reader, outcome_of_result)
        try:
            call, own = await adrive(invocation.allowed())
        except ToolDenied as denied:
            return failure(name, str(denied))
        running = awaited(lambda: work(name, own, cancellation_token, call_id))
        result: ToolResult = await adrive(invocation.run(call, running))
        return result

    def _read(self, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        if name not in self._specs:
            raise InputError(f"there is no tool {name!r}")
        return validate_arguments(name, arguments, self._specs[name].schema)

    async def save_state(self) -> Mapping[str, Any]:
        state: Mapping[str, Any] = await self.guardagent_inner.save_state()
        return state

    async def load_state(self, state: Mapping[str, Any]) -> None:
        await self.guardagent_inner.load_state(state)


def guarded_workbench(workbench: Any, owner: AssistantTools, place: str) -> Any:
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
    return _GuardedChangingWorkbench(workbench, owner, place)


def guard_of_workbench(workbench: Any) -> AssistantTools | None:
    """Returns the owner of a guarded workbench; None for others."""
    return workbench.guardagent_owner if isinstance(workbench, _GuardedStatic | _GuardedChangingWorkbench) else None


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


# --- the tools of agents


class AutoGenTools:
    """The tools of the agents of an adapter, with their guarded forms.

    Args:
        adapter: has the guard.
        guard_inner: guards an agent or a team that runs as a tool.
    """

    def __init__(self, adapter: HostAdapter[AutoGenScope], guard_inner: Callable[[Any], None]) -> None:
        self.adapter, self._guard_inner = adapter, guard_inner
        self._guarded: dict[
            tuple[int, str], tuple[Any, AutoGenTool]
        ] = {}  # with the tool, so that its id stays its own
        self._servers: dict[str, dict[str, ToolSpec]] = {}

    def guarded(self, tool: Any, name: str, target: str | None = None) -> Any:
        """Returns the guarded form of a tool.

        Raises:
            InputError: it has another guard, or cannot be guarded.
        """
        owner = tool.guardagent_adapter if isinstance(tool, AutoGenTool) else None
        if not self.adapter.is_new(owner, f"the tool {name!r}", "the tool itself"):
            return tool
        key = (id(tool), name)
        if key not in self._guarded:
            created = guarded_tool(tool, name, self.adapter, target)
            self._guarded[key] = (tool, created)
            self._list(tool, created.guardagent_spec, target)
            if isinstance(inner := getattr(tool, "_task_runner", None), BaseChatAgent | Team):
                self._guard_inner(inner)
        return self._guarded[key][1]

    def _list(self, tool: Any, spec: ToolSpec, target: str | None) -> None:
        if target is None:
            self.adapter.listed.add(spec)
        if (params := getattr(tool, "_server_params", None)) is not None:
            self._servers.setdefault(server_key(params, type(tool).__name__), {})[spec.name] = spec

    def check(self) -> None:
        """Compares new or changed tools with the rules."""
        if self.adapter.listed.changed:
            for server, specs in self._servers.items():
                self.adapter.guard.update_server_tools(server, list(specs.values()))
            self.adapter.listed.check()


class AssistantTools:
    """Guards the tools of one agent.

    Args:
        tools: those of all agents.
        agent: the agent.

    Attributes:
        adapter: has the guard.
    """

    def __init__(self, tools: AutoGenTools, agent: Any) -> None:
        self.tools, self.adapter, self._agent = tools, tools.adapter, agent
        self._places: dict[str, str] = {}  # name -> its workbench

    def workbench(self, workbench: Any, place: str) -> Any:
        """Returns the guarded form of a workbench.

        Raises:
            InputError: it has another guard, or a tool that cannot be guarded.
        """
        owner = guard_of_workbench(workbench)
        if self.adapter.is_new(None if owner is None else owner.adapter, "a workbench", "the workbench itself"):
            workbench = guarded_workbench(workbench, self, place)
        guard_tools_of(workbench)
        return workbench

    def handoff(self, tool: Any) -> Any:
        """Returns the guarded form of a hand-off."""
        handoff = self._agent._handoffs.get(tool.name)  # noqa: SLF001 - there is no public way to it
        if handoff is None:
            raise InputError(f"the hand-off {tool.name!r} of {self._agent.name!r} has no target; expected a Handoff")
        return self.tools.guarded(tool, tool.name, handoff.target)

    def tool(self, tool: Any, name: str, place: str) -> Any:
        """Returns the guarded form of a tool of a static workbench."""
        if self._places.setdefault(name, place) != place:
            raise InputError(f"two workbenches of {self._agent.name!r} have a tool {name!r}; expected different names")
        return self.tools.guarded(tool, name)

    def list_server(self, server: str, specs: list[ToolSpec], place: str) -> dict[str, bool]:
        """Compares a server's list with the accepted tools.

        Returns:
            The names of the agent's tools, and whether they may be called; without those that another workbench has.
        """
        own = [spec for spec in specs if self._places.setdefault(spec.name, place) == place]
        for spec in specs:
            if spec not in own:
                _log.warning("the tool %r of %s has the name of another tool, and is left out", spec.name, server)
        self.adapter.listed.add(*own)
        allowed = {spec.name for spec in self.adapter.guard.update_server_tools(server, own)}
        return {spec.name: spec.name in allowed for spec in own}


# --- executed code

EXECUTE = ToolSpec(
    "execute_code",
    {"type": "object", "properties": {"language": {"type": "string"}, "code": {"type": "string"}}},
    "Runs a block of code.",
)


class GuardedExecutor(CodeExecutor):
    """Judges each block of code, and runs it with another executor.

    Args:
        executor: the executor itself. It is not changed.
        adapter: has the guard.
    """

    def __init__(self, executor: Any, adapter: HostAdapter[AutoGenScope]) -> None:
        if not isinstance(executor, CodeExecutor):
            raise InputError(f"this is a {type(executor).__name__}; expected a CodeExecutor of AutoGen")
        self._executor, self.guardagent_adapter = executor, adapter

    def __getattr__(self, name: str) -> Any:
        if name == "_executor":
            raise AttributeError(name)
        return getattr(self._executor, name)

    async def execute_code_blocks(
        self, code_blocks: list[CodeBlock], cancellation_token: CancellationToken
    ) -> CodeResult:
        """Runs blocks until one fails. A denial is a failure with the reason as its output."""
        result, outputs = CodeResult(exit_code=0, output=""), list[str]()
        for block in code_blocks:
            result = await self._execute(block, cancellation_token)
            outputs.append(result.output)
            if result.exit_code != 0:
                break
        result.output = "\n".join(outputs)
        return result

    async def _execute(self, block: CodeBlock, cancellation_token: CancellationToken) -> CodeResult:
        args = {"language": str(block.language), "code": str(block.code)}
        invocation = AutoGenInvocation(self.guardagent_adapter, EXECUTE.name, args, _CODE, outcome_of_code)
        try:
            call, own = await adrive(invocation.allowed())
        except ToolDenied as denied:
            return CodeResult(exit_code=1, output=str(denied))
        judged = CodeBlock(code=own["code"], language=own["language"])
        running = awaited(lambda: self._executor.execute_code_blocks([judged], cancellation_token))
        result: CodeResult = await adrive(invocation.run(call, running))
        return result

    async def start(self) -> None:
        await self._executor.start()

    async def stop(self) -> None:
        await self._executor.stop()

    async def restart(self) -> None:
        await self._executor.restart()

    def dump_component(self) -> Any:
        raise undumped("the code executor")


def _validated(edited: Mapping[str, Any]) -> Mapping[str, Any]:
    if edited.keys() != {"language", "code"} or not all(isinstance(value, str) for value in edited.values()):
        raise InputError("expected a 'language' and a 'code', each a string")
    return edited


_CODE = NamedArguments(_validated)
