"""AG2: `agent = guarded(agent, guard)`.

    guarded(agent, guard)    the tools, toolkits and sub-agents of an agent, in place
    conversation(id)         names the conversation of the turns inside it
    stream_id                names it by the stream: `guarded(agent, guard, conversation=stream_id)`
    AskHalted                raised by `agent.ask` when a rule halts the turn

Extra: `guardagent[ag2]`.

The executor of a guarded agent registers guarded copies of whatever tools a turn has. The outermost middleware of the
agent judges the answer of the turn.

The host's own approval is a question to the person behind `hitl_hook`.

The host copies tools deeply, and makes others out of them. So the guard of a tool is in plain functions, which a copy
keeps: one at the end of the tool's middleware, and one around its function, behind the host's casts and defaults.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import inspect
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from guardagent._support.execution import adrive
from guardagent._support.requirements import require, require_parts
from guardagent.frameworks.ag2.package import DISTRIBUTIONS, EXTRA, TRIED

require(DISTRIBUTIONS, EXTRA, TRIED)

from ag2 import Agent
from ag2.events import (
    ModelMessage,
    ModelMessageChunk,
    ModelReasoning,
    ModelRequest,
    ModelResponse,
    TextInput,
    ToolApprovalRequest,
    ToolErrorEvent,
    ToolResultEvent,
    ToolResultsEvent,
)
from ag2.exceptions import HumanInputError
from ag2.middleware import BaseMiddleware
from ag2.tools import Toolkit, ToolResult
from ag2.tools.builtin.tool_search import ToolSearchTool
from ag2.tools.final.function_tool import FunctionTool

from guardagent._support.execution import Operation, Procedure
from guardagent.enforcement import (
    Approval,
    ApprovalRequest,
    Approver,
    EnforcementPoint,
    HostCall,
    Outcome,
    ToolSpec,
    make_ids_unique,
)
from guardagent.enforcement.host_adapter import HostAdapter, ToolInvocation, last_user_text, plain_or_text, withheld
from guardagent.enforcement.host_runs import HostScope, HostSurroundings, ModelRun, awaited
from guardagent.enforcement.lifecycle import MAX_REQUESTS, JudgedCall
from guardagent.enforcement.schema import validate_arguments
from guardagent.enforcement.tool_arguments import copied_values, defaults_of, finished, refuse_opaque
from guardagent.errors import InputError, ToolDenied
from guardagent.types import Decision, Verdict, thaw

__all__ = ["AskHalted", "conversation", "guarded", "stream_id"]

# --- approval

_YES = ("y", "yes", "1", "approve")  # as those of the host's own `approval_required`


def _approver(context: Any, tool_id: str) -> Approver:
    async def ask(request: ApprovalRequest) -> Approval:
        question = ToolApprovalRequest(f"{request.text()}\nY/N?", tool_call_id=tool_id)
        try:
            return read_answer(await context.ask(question))
        except HumanInputError as error:
            return Approval("reject", reason=f"no reviewer has answered: {error}")

    return ask


def read_answer(text: str) -> Approval:
    """Reads a person's answer: a yes, or a JSON object that `Approval.read` accepts. Anything else rejects."""
    if text.strip().lower() in _YES:
        return Approval("approve")
    try:
        return Approval.read(json.loads(text))
    except ValueError:
        return Approval("reject")


# --- turns

UNNAMED = (
    "this turn names no conversation: call the agent inside 'with conversation(id):', or pass conversation=..., such "
    "as 'stream_id' if the program passes the stream"
)


class AskHalted(ToolDenied):
    """A rule has halted the turn: `agent.ask` raises this. `verdict` says why."""


@dataclass(slots=True, kw_only=True)
class Ag2Run(ModelRun):
    """One turn of an agent, from a request to the answer.

    Attributes:
        agent: the name of the agent.
    """

    halt_error = AskHalted

    agent: str

    def call_options(self, *, nested: bool) -> dict[str, Any]:
        return {**ModelRun.call_options(self, nested=nested), "agent": self.agent}


@dataclass(frozen=True, slots=True)
class Ag2Scope(HostScope):
    """The surroundings of a call or a turn.

    Attributes:
        context: the host's context of the call that is about to run.
    """

    run: Ag2Run | None = None
    context: Any = None

    @property
    def inside(self) -> bool:
        return self.run is not None or self.call is not None


SURROUNDINGS = HostSurroundings("ag2", Ag2Scope)
scope, enter, conversation = SURROUNDINGS.scope, SURROUNDINGS.enter, SURROUNDINGS.conversation


def surroundings() -> Ag2Scope:
    """Returns the surroundings of the calling code."""
    return scope() or Ag2Scope(None)


# --- arguments


@dataclass(frozen=True, slots=True)
class Ag2Arguments:
    """Reads the arguments of a function.

    Attributes:
        spec: the tool's declaration.
        model: the host's model of the function, which casts arguments.
        injected: arguments that the host fills in; they are neither judged nor logged.
        names: the arguments that a model may pass; None if it may pass others.
        defaults: of the function.
    """

    spec: ToolSpec
    model: Any
    injected: frozenset[str]
    names: frozenset[str] | None
    defaults: Mapping[str, Any]

    @classmethod
    def of(cls, tool: Any) -> Ag2Arguments:
        """Reads the declaration of a function tool.

        Raises:
            InputError: its function takes arguments by position only, or of a type that no rule can read.
        """
        function, model = tool.schema.function, tool.model
        if model.args_name is not None:
            raise InputError(f"the tool {tool.name!r} takes arguments by position only; expected named parameters")
        injected = frozenset({*model.dependencies, *model.custom_fields})
        refuse_opaque(tool.name, {parameter.field_name: parameter.field_type for parameter in model.params}, injected)
        names = frozenset(parameter.field_name for parameter in model.params) - injected
        declared = frozenset(function.parameters.get("properties", {})) - injected
        spec = ToolSpec(tool.name, dict(function.parameters), function.description, unlisted_arguments=names)
        accepted = None if model.kwargs_name is not None else names | declared
        return cls(spec, model, injected, accepted, _defaults_of(model, injected))

    def check_names(self, args: Mapping[str, Any]) -> None:
        """Checks the names that a model has passed: the host would take them for what it fills in itself.

        Raises:
            InputError: one is unknown, or of an argument that the host fills in.
        """
        for name in args:
            if name in self.injected or (self.names is not None and name not in self.names):
                raise InputError(f"{self.spec.name!r} has no argument {name!r}")

    def bind(self, kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns copies of the arguments that the function will get, and what the host fills in.

        Raises:
            InputError: one cannot be judged.
        """
        apart = {name: value for name, value in kwargs.items() if name in self.injected}
        named = {name: value for name, value in kwargs.items() if name not in apart}
        left = {name: value for name, value in self.defaults.items() if name not in named}
        return copied_values({**left, **named}), apart

    def edited(self, args: Mapping[str, Any], apart: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the arguments that the function gets for a reviewer's edits.

        Raises:
            InputError: an argument is unknown; other errors of the host if one does not fit.
        """
        self.check_names(args)
        solved = {**args, **apart}
        cast = self.model.serializer(dict(solved)) if self.model.serializer is not None else {}
        merged = {**solved, **cast}
        return self.bind({name: value for name, value in merged.items() if name not in self.injected})[0]


@dataclass(frozen=True, slots=True)
class ServerArguments:
    """Reads the arguments of a tool that an MCP server runs: they are judged by its schema.

    Attributes:
        spec: the tool's declaration.
    """

    spec: ToolSpec

    def bind(self, kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns the arguments of a call, with defaults.

        Raises:
            InputError: they do not fit the schema.
        """
        return validate_arguments(self.spec.name, kwargs, self.spec.schema), {}

    def edited(self, args: Mapping[str, Any], _: Mapping[str, Any]) -> dict[str, Any]:
        """Binds the arguments that a reviewer has edited."""
        return self.bind(args)[0]


def _defaults_of(model: Any, injected: frozenset[str]) -> dict[str, Any]:
    try:
        defaults = defaults_of(inspect.signature(model.call))
    except (TypeError, ValueError):
        return {}
    return {name: default for name, default in defaults.items() if name not in injected}


# --- results


def outcome_of(output: Any) -> Outcome:
    """Returns a call's outcome from what its function has returned, or from the event of a tool of a server."""
    if isinstance(output, ToolErrorEvent):
        return Outcome(str(output.error), failed=True)
    value = output.result if isinstance(output, ToolResultEvent) else output
    if not isinstance(value, ToolResult):
        return Outcome(plain_or_text(value))
    parts = [
        part.content if isinstance(part, TextInput) else plain_or_text(getattr(part, "data", part))
        for part in value.parts
    ]
    return Outcome(parts[0] if len(parts) == 1 else parts, other_outputs=(parts,))


# --- calls


class Ag2Invocation(ToolInvocation[Ag2Scope]):
    """One call of a tool.

    Args:
        adapter: has the guard.
        arguments: reads the arguments.
        kwargs: the arguments.
    """

    def __init__(
        self, adapter: HostAdapter[Ag2Scope], arguments: Ag2Arguments | ServerArguments, kwargs: Mapping[str, Any]
    ) -> None:
        super().__init__(adapter, arguments.spec.name, adapter.around())
        self._arguments, self._kwargs = arguments, kwargs

    def bind(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return self._arguments.bind(self._kwargs)

    def rebind(self, edited: Mapping[str, Any]) -> dict[str, Any]:
        return self._arguments.edited(thaw(edited), self.apart)

    def judge(self, call: HostCall) -> Procedure[JudgedCall]:
        """Judges a call. If a rule escalates it and the guard has no approver, the host asks a person."""
        life, around = self.guard.lifecycle, self.around
        verdict, call = yield from life.judge(call)
        for _ in range(MAX_REQUESTS if self.guard.approver is None and around.context is not None else 0):
            if verdict.decision is not Decision.ESCALATE:
                break
            approver = _approver(around.context, around.tool_id or call.id)
            verdict, call = yield from life.ask_approver(call, verdict, approver)
        return verdict, call

    def inside(self, call: HostCall) -> Ag2Scope:
        return Ag2Scope(call.conversation, self.around.run, call)

    def tell(self, output: Any, line: str) -> Any:
        result = getattr(output, "result", output)
        if not isinstance(result, ToolResult):
            return super().tell(plain_or_text(output), line)
        result.parts = [*result.parts, TextInput(line)]
        return output

    def outcome(self, output: Any) -> Outcome:
        return outcome_of(output)


# --- guarded copies

MARK = "guardagent_adapter"


def adapter_of(tool: Any) -> HostAdapter[Ag2Scope] | None:
    """Returns what judges the calls of a tool; None if nothing does."""
    adapters = (getattr(hook, MARK, None) for hook in getattr(tool, "_middleware", ()))
    return next((adapter for adapter in adapters if adapter is not None), None)


def guarded_function_tool(tool: Any, arguments: Ag2Arguments, adapter: HostAdapter[Ag2Scope]) -> Any:
    """Returns the guarded copy of a function tool."""

    async def entry(call_next: Any, event: Any, context: Any) -> Any:
        with _about_to_run(event, context):
            try:
                arguments.check_names(event.serialized_arguments)
            except InputError as error:
                denied = await adrive(Ag2Invocation(adapter, arguments, {}).refusal(str(error)))
                return ToolErrorEvent.from_call(event, error=denied)
            return await call_next(event, context)

    created = _with_entry(tool, entry, adapter)
    created.model = copy.copy(tool.model)
    created.model.call = _guarded_function(arguments, adapter)
    return created


def guarded_server_tool(tool: Any, arguments: ServerArguments, adapter: HostAdapter[Ag2Scope]) -> Any:
    """Returns the guarded copy of a tool that an MCP server runs."""

    async def entry(call_next: Any, event: Any, context: Any) -> Any:
        def work(args: dict[str, Any]) -> Operation:
            judged = copy.copy(event)
            judged._serialized_arguments = args  # noqa: SLF001 - what the tool reads
            return awaited(partial(call_next, judged, context))

        with _about_to_run(event, context):
            try:
                return await adrive(Ag2Invocation(adapter, arguments, event.serialized_arguments).steps(work))
            except ToolDenied as denied:
                return ToolErrorEvent.from_call(event, error=denied)

    return _with_entry(tool, entry, adapter)


@contextmanager
def _about_to_run(event: Any, context: Any) -> Iterator[None]:
    """Code inside is on its way to the call of an event."""
    with enter(replace(surroundings(), tool_id=event.id or None, context=context)):
        yield


def _with_entry(tool: Any, entry: Any, adapter: HostAdapter[Ag2Scope]) -> Any:
    """Returns a copy of a tool with a hook at the end of its middleware."""
    setattr(entry, MARK, adapter)
    created = copy.copy(tool)
    created._middleware = (*tool._middleware, entry)  # noqa: SLF001 - the host's seam
    return created


def _guarded_function(arguments: Ag2Arguments, adapter: HostAdapter[Ag2Scope]) -> Any:
    function, name = arguments.model.call, arguments.spec.name

    async def run(args: dict[str, Any]) -> Any:
        return finished(name, await function(**args))

    @functools.wraps(function)
    async def call(**kwargs: Any) -> Any:
        return await adrive(Ag2Invocation(adapter, arguments, kwargs).steps(lambda args: awaited(partial(run, args))))

    return call


# --- the events of a stream, as rules read them


def chat(events: Iterable[Any]) -> list[dict[str, str]]:
    """Returns role and text of each message among the events."""
    return [message for event in events for message in _messages(event)]


def result_ids(events: Iterable[Any]) -> list[str]:
    """Returns the ids of the calls whose results are among the events."""
    return [result_event.parent_id for event in events for result_event in _results(event)]


def text_of(parts: Iterable[Any]) -> str:
    """Returns the text of inputs."""
    return "\n".join(
        part.content if isinstance(part, TextInput) else str(getattr(part, "data", part)) for part in parts
    )


def _messages(event: Any) -> Iterator[dict[str, str]]:
    if isinstance(event, ModelRequest):
        yield {"role": "user", "content": text_of(event.parts)}
    if isinstance(event, ModelResponse) and event.message is not None:
        yield {"role": "assistant", "content": event.message.content}
    for result_event in _results(event):
        yield {"role": "tool", "content": text_of(result_event.result.parts)}


def _results(event: Any) -> list[Any]:
    if isinstance(event, ToolResultsEvent):
        return list(event.results)
    return [event] if isinstance(event, ToolResultEvent) else []


# --- the tools of a turn


class GuardedToolExecutor:
    """Registers guarded tools for a turn.

    Args:
        executor: the executor itself.
        guard_tool: returns the guarded form of a tool.
        check_tools: compares new tools with the rules.
    """

    def __init__(self, executor: Any, guard_tool: Callable[[Any], Any], check_tools: Callable[[], None]) -> None:
        self._executor, self._guard_tool, self._check_tools = executor, guard_tool, check_tools

    def __getattr__(self, name: str) -> Any:
        if name == "_executor":
            raise AttributeError(name)
        return getattr(self._executor, name)

    def register(self, stack: Any, context: Any, *, tools: Iterable[Any] = (), **options: Any) -> None:
        """Registers the tools.

        Raises:
            InputError: one cannot be guarded.
        """
        guard_tools = [self._guard_tool(tool) for tool in tools]
        self._check_tools()
        self._executor.register(stack, context, tools=guard_tools, **options)


def with_members(tool: Any, guard_tool: Callable[[Any], Any]) -> Any:
    """Returns a copy of a toolkit with guarded members; None for other tools."""
    if not isinstance(tool, Toolkit | ToolSearchTool):
        return None
    created = copy.copy(tool)
    created._tools = {name: guard_tool(tool) for name, tool in tool._tools.items()}  # noqa: SLF001 - the host's seam
    return created


# --- a turn

_SPOKEN = (ModelMessage, ModelMessageChunk, ModelReasoning)


class TurnMiddleware(BaseMiddleware):
    """Runs a turn in its conversation, judges its answer, and ends it when the guard does.

    Args:
        event: the request.
        context: the host's context.
        attachment: guards the agent.
        agent: the name of the agent.
    """

    def __init__(self, event: Any, context: Any, attachment: Ag2Attachment, agent: str) -> None:
        super().__init__(event, context)
        self._attachment, self._agent = attachment, agent

    async def on_turn(self, call_next: Any, event: Any, context: Any) -> Any:
        around = self._attachment.begin_turn(self._agent, context)
        with enter(around):
            response = await call_next(event, context)
        if around.run is not None and around.run.halted is not None:
            raise around.run.halted
        return response

    async def on_llm_call(self, call_next: Any, events: Any, context: Any) -> Any:
        around, run = _turn()
        if run.halted is not None:
            raise run.halted
        if run.final is not None:
            return ModelResponse(ModelMessage(run.final))
        run.step, run.messages = run.step + 1, chat(events)
        proposed = self._attachment.proposed(around)
        run.seen = [call_id for call_id in result_ids(events) if call_id not in proposed]
        if self._judges(around):
            response = await self._judged(call_next, events, context)
        else:
            response = await call_next(events, context)
        proposed.update(make_ids_unique(response.tool_calls.calls, "id"))
        return response

    async def on_tool_execution(self, call_next: Any, event: Any, context: Any) -> Any:
        """Runs a call. If its output would be the answer, it is judged."""
        result = await call_next(event, context)
        around, _ = _turn()
        final = isinstance(result, ToolResultEvent) and result.result.final
        verdict = await self._denial(text_of(result.result.parts)) if final and self._judges(around) else None
        return result if verdict is None else ToolErrorEvent.from_call(event, error=ToolDenied(event.name, verdict))

    async def _judged(self, call_next: Any, events: Any, context: Any) -> Any:
        held = HoldingStream(context.stream)
        response = await call_next(events, replace(context, stream=held))
        if not response.tool_calls or response.response_force:
            reasoning = [event.content for event, _ in held.events if isinstance(event, ModelReasoning)]
            answer = response.message.content if response.message is not None else ""
            verdict = await self._denial("\n".join([*reasoning, answer]))
            if verdict is not None:
                return ModelResponse(ModelMessage(withheld(verdict)), usage=response.usage, model=response.model)
        await held.release()
        return response

    async def _denial(self, text: str) -> Verdict | None:
        around, run = _turn()
        return await adrive(self._attachment.answer_denial(around, last_user_text(run.messages), text))

    def _judges(self, around: Ag2Scope) -> bool:
        return self._attachment.guard.judges_answers and around.call is None


class HoldingStream:
    """A stream that holds what a model says until it is released.

    Args:
        stream: the stream itself.
    """

    def __init__(self, stream: Any) -> None:
        self._stream, self.events = stream, list[tuple[Any, Any]]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def send(self, event: Any, context: Any) -> None:
        if isinstance(event, _SPOKEN):
            self.events.append((event, context))
        else:
            await self._stream.send(event, context)

    async def release(self) -> None:
        """Sends the events."""
        for event, context in self.events:
            await self._stream.send(event, replace(context, stream=self._stream))


def _turn() -> tuple[Ag2Scope, Ag2Run]:
    around = surroundings()
    run = around.run or Ag2Run(agent="")
    return replace(around, run=run), run


# --- attaching

Named = str | Callable[[Any], str | None] | None
AnyAgent = TypeVar("AnyAgent", bound=Agent[Any])
ATTACHMENT = "guardagent_attachment"
PARTS = ("tools", "_additional_tools", "_middleware", "_tool_executor", "_task_config", "_drive_scope", "_run_subtask")
_DYNAMIC = "function:ag2.tools.dynamic."
_BACKGROUND = "function:ag2.tools.subagents."


def guarded(
    agent: AnyAgent, guard: EnforcementPoint, *, conversation: Named = None, unguarded: Collection[str] = ()
) -> AnyAgent:
    """Attaches a guard in place to an agent, and to the agents that its tools run.

    Args:
        agent: an agent without another guard.
        guard: decides.
        conversation: the conversation's id, or a function of the host's context that returns it, such as `stream_id`;
            by default that of the `with conversation(id):` around the turn.
        unguarded: names of tools that may run unguarded, such as those of the model's provider.

    Returns:
        The agent.

    Raises:
        InputError: a tool cannot be guarded, a rule names a tool that is probably a misspelling of one of the agent's,
            or the agent has another guard.
    """
    attachment = Ag2Attachment(guard, conversation, frozenset(unguarded))
    attachment.guard_agent(agent)
    attachment.check_tools()
    return agent


def stream_id(context: Any) -> str:
    """Names a conversation by its stream, for programs that pass `stream=`, or continue with `reply.ask`."""
    return str(context.stream.id)


class Ag2Attachment(HostAdapter[Ag2Scope]):
    """One guard, and the agents that it guards."""

    def __init__(self, guard: EnforcementPoint, named: Named, unguarded: frozenset[str]) -> None:
        super().__init__(guard, SURROUNDINGS, None, UNNAMED)
        self._named, self._unguarded = named, unguarded
        self._servers: dict[str, dict[str, ToolSpec]] = {}

    # --- agents

    def guard_agent(self, agent: Any) -> None:
        """Guards an agent. Does nothing to one that is guarded already."""
        if not isinstance(agent, Agent):
            raise InputError(f"this is a {type(agent).__name__}; expected an Agent of AG2")
        owner = vars(agent).get(ATTACHMENT)
        if not self.is_new(owner, "this agent"):
            self.listed.add(*owner.listed.specs.values())
            return
        require_parts(agent, *PARTS)
        vars(agent)[ATTACHMENT] = self
        self._guard_parts(agent)
        agent._middleware.insert(0, self._factory(agent.name))  # noqa: SLF001 - the host's seam
        agent._tool_executor = GuardedToolExecutor(agent._tool_executor, self.tool, self.check_tools)  # noqa: SLF001 - as above
        agent._run_subtask = self._subtask_runner(agent)  # noqa: SLF001 - as above

    def _subtask_runner(self, agent: Any) -> Any:
        """Returns what runs a subtask: its own agent has no guard, so each tool that it inherits must have one."""
        run = agent._run_subtask  # noqa: SLF001 - as above

        async def run_subtask(task: str, context: Any, config: Any) -> str:
            self._guard_parts(agent)
            self.check_tools()
            result: str = await run(task, context, agent._task_config or config)  # noqa: SLF001 - as above
            return result

        return run_subtask

    def _guard_parts(self, agent: Any) -> None:
        agent.tools[:] = [self.tool(tool) for tool in agent.tools]
        agent._additional_tools[:] = [self.tool(additional_tool) for additional_tool in agent._additional_tools]  # noqa: SLF001 - as above
        if (tasks := agent._task_config) is not None:  # noqa: SLF001 - as above
            extra = [self.tool(FunctionTool.ensure_tool(extra_tool)) for extra_tool in tasks.extra_tools]
            agent._task_config = replace(tasks, extra_tools=extra)  # noqa: SLF001 - as above

    def _factory(self, name: str) -> Any:
        return lambda event, context: TurnMiddleware(event, context, self, name)

    # --- tools

    def tool(self, tool: Any) -> Any:
        """Returns the guarded form of a tool.

        Raises:
            InputError: it cannot be guarded.
        """
        if tool.name in self._unguarded:
            return tool
        if not self.is_new(adapter_of(tool), f"the tool {tool.name!r}", "the tool itself"):
            return tool
        kind = next(
            (tool_type for tool_type in (Toolkit, ToolSearchTool, FunctionTool) if isinstance(tool, tool_type)), None
        )
        if kind is not None and not _overrides(type(tool), kind):
            return self._function_tool(tool) if kind is FunctionTool else with_members(tool, self.tool)
        if isinstance(inner := getattr(tool, "_tool", None), FunctionTool) and type(tool).__module__.startswith("ag2."):
            created = copy.copy(tool)
            created._tool = self.tool(inner)  # noqa: SLF001 - the host's seam
            return created
        if not tool.declared_in_code and callable(tool) and hasattr(tool, "_middleware"):
            return self._server_tool(tool)
        raise InputError(
            f"the tool {tool.name!r} is a {type(tool).__name__}, which runs elsewhere, or in a way of its own; "
            "expected a function, or name it in unguarded=..."
        )

    def _function_tool(self, tool: Any) -> Any:
        require_parts(tool, "model", "schema", "_middleware", "source")
        require_parts(tool.model, "call", "dependencies", "custom_fields", "params", "args_name", "kwargs_name")
        if tool.source.startswith(_DYNAMIC):
            raise InputError(
                f"the tool {tool.name!r} makes agents with tools of their own, which are not judged; expected agents "
                "with a guard, or name it in unguarded=..."
            )
        inner = getattr(tool, "agent", None)
        if inner is None and tool.source.startswith(_BACKGROUND):
            inner = inspect.getclosurevars(inspect.unwrap(tool.model.call)).nonlocals.get("agent")
        if isinstance(inner, Agent):
            self.guard_agent(inner)
        arguments = Ag2Arguments.of(tool)
        self.listed.add(arguments.spec)
        return guarded_function_tool(tool, arguments, self)

    def _server_tool(self, tool: Any) -> Any:
        function = tool.schema.function
        spec = ToolSpec(function.name, dict(function.parameters), function.description)
        self.listed.add(spec)
        self._servers.setdefault(_server_of(tool), {})[spec.name] = spec
        return guarded_server_tool(tool, ServerArguments(spec), self)

    def check_tools(self) -> None:
        """Compares new or changed tools with the rules, and the lists of servers with the accepted tools."""
        for server, specs in self._servers.items():
            self.guard.update_server_tools(server, list(specs.values()))
        self._servers.clear()
        self.listed.check()

    # --- a turn

    def around(self) -> Ag2Scope:
        around = surroundings()
        return self._in_conversation(around, around.context)

    def begin_turn(self, agent: str, context: Any) -> Ag2Scope:
        """Returns the surroundings of a new turn: within a tool, those of the call."""
        around = self._in_conversation(surroundings(), context)
        if around.conversation and not around.inside:
            self.guard.turn(around.conversation)
        return Ag2Scope(around.conversation, Ag2Run(around.run, agent=agent), around.call)

    def _in_conversation(self, around: Ag2Scope, context: Any) -> Ag2Scope:
        """Returns surroundings with the operator's name of the conversation, unless they are within a turn."""
        if around.inside or context is None:
            return around
        named = self._named(context) if callable(self._named) else self._named
        return replace(around, conversation=named or around.conversation)


def _overrides(kind: type, base: type) -> bool:
    """Whether a class of tools runs calls in a way of its own."""
    static = inspect.getattr_static
    return any(static(kind, name, None) is not static(base, name, None) for name in ("register", "__call__"))


def _server_of(tool: Any) -> str:
    """Returns the key of a tool's server: where it is, without what may change, such as tokens in headers."""
    config = getattr(tool, "_config", None)
    place = [getattr(config, name, None) for name in ("command", "args", "server_url")]
    return f"{type(tool).__name__.strip('_')} ({hashlib.sha256(repr(place).encode()).hexdigest()[:8]})"
