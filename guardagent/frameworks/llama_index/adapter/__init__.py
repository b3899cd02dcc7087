"""LlamaIndex: `agent = guarded(agent, guard)`.

    guarded(agent, guard)       tools, MCP tools and hand-offs of an agent, or of an AgentWorkflow
    conversation(id)            names the conversation of the runs inside it
    answer(ctx, event, decision)    a reviewer's answer to an InputRequiredEvent of the guard
    WorkflowHalted              raised by a run when a rule halts it

Extra: `guardagent[llama-index]`.

For the host's own approval, a step waits for a HumanResponseEvent, and runs again once it is there. Arguments are bound
to the tool's function, so that the judged ones are those that the function receives.
"""

from __future__ import annotations

import asyncio
import copy
import hashlib
import inspect
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from guardagent._support.requirements import require, require_parts
from guardagent.frameworks.llama_index.package import DISTRIBUTIONS, EXTRA, TRIED

require(DISTRIBUTIONS, EXTRA, TRIED)

from llama_index.core.agent.workflow import AgentWorkflow, BaseWorkflowAgent
from llama_index.core.agent.workflow.multi_agent_workflow import handoff
from llama_index.core.agent.workflow.workflow_events import (
    AgentInput,
    AgentOutput,
    AgentSetup,
    AgentStream,
    AgentStreamStructuredOutput,
    ToolCall,
    ToolCallResult,
)
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import AsyncBaseTool, FunctionTool, ToolMetadata, ToolOutput
from llama_index.core.tools.types import adapt_to_async_tool
from llama_index.core.workflow import Context, StopEvent, step
from workflows.errors import WorkflowCancelledByUser, WorkflowTimeoutError
from workflows.events import HumanResponseEvent, InputRequiredEvent
from workflows.runtime.types.results import WaitingForEvent

from guardagent._support.execution import Operation, Procedure, adrive, drive
from guardagent.enforcement import (
    Approval,
    ApprovalRequest,
    EnforcementPoint,
    HostCall,
    Outcome,
    ToolSpec,
    make_ids_unique,
    tool_arguments,
)
from guardagent.enforcement.host_adapter import (
    UNREAD,
    HostAdapter,
    ToolInvocation,
    answer_text,
    explained,
    last_user_text,
    plain_or_text,
    unaccepted_names,
    withheld,
)
from guardagent.enforcement.host_runs import HostScope, HostSurroundings, ModelRun, Named, awaited
from guardagent.enforcement.lifecycle import JudgedCall
from guardagent.errors import InputError, ToolDenied, error_text
from guardagent.types import Verdict, thaw

__all__ = ["WorkflowHalted", "answer", "conversation", "guarded"]

# --- approval

_RACED = "this call needs human approval only since another call is in flight; propose it again"


def answer(ctx: Any, event: Any, decision: Any) -> None:
    """Sends a reviewer's answer to a run that waits for it.

    Args:
        ctx: the run's context, such as `handler.ctx`.
        event: the guard's InputRequiredEvent.
        decision: an `Approval`, or a value that `Approval.read` accepts: `True`, `{"choice": "edit", "args": {...}}`,
            ... If it names a request as `of`, that must be the request of this event.

    Raises:
        InputError: the event is not one of a guard, or the answer is for another request.
    """
    digest = event.get("digest", None)
    if not isinstance(digest, str):
        raise InputError("this event is not an approval request of a guard; expected one with a 'digest'")
    approval = Approval.read(decision)
    if approval.of is not None and approval.of.partition(".")[0] != digest.partition(".")[0]:
        raise InputError("the answer is for another request than that of the event; request approval again")
    decided = {"choice": approval.choice, "reason": approval.reason, "by": approval.by, "of": approval.of or digest}
    edited = {"args": thaw(approval.args)} if approval.choice == "edit" else {}
    ctx.send_event(HumanResponseEvent(call=digest.partition(".")[0], decision={**decided, **edited}))


async def ask_reviewer(ctx: Any, request: ApprovalRequest, call: HostCall) -> Approval:
    """Asks a reviewer through the host, and returns the answer.

    The step runs again after the answer, here or in another process, and finds the request in the guard's ledger.
    """
    shown = InputRequiredEvent(prefix=request.text(), digest=request.digest, request=request.to_dict())
    response = await ctx.wait_for_event(
        HumanResponseEvent,
        waiter_event=shown,
        waiter_id=call.digest,
        requirements={"call": call.digest},
        timeout=None,
    )
    return Approval.read(response.get("decision", None))


# --- arguments


def read_arguments(tool: Any, unjudged: Collection[str] = ()) -> tool_arguments.ToolArguments:
    """Reads the declaration of a tool.

    Raises:
        InputError: it has no readable signature, or an argument of a type that no rule can read.
    """
    name, schema = tool.metadata.get_name(), tool.metadata.get_parameters_dict()
    if not isinstance(tool, FunctionTool):
        spec = ToolSpec(name, schema, tool.metadata.description or "")
        return tool_arguments.ToolArguments(spec, None, frozenset(unjudged), schema)
    hidden = frozenset({*unjudged, *([tool.ctx_param_name] if tool.ctx_param_name else ())})
    signature = tool_arguments.read_signature(tool.real_fn, name)
    generic = tool_arguments.takes_any_name(signature)
    tool_arguments.refuse_opaque(name, tool_arguments.annotations_of(signature), hidden, may_hide=True)
    beyond = None if generic else frozenset(signature.parameters) - hidden
    spec = ToolSpec(name, schema, tool.metadata.description or "", unlisted_arguments=beyond)
    return tool_arguments.ToolArguments(spec, None if generic else signature, hidden, _closed(schema, tool))


def _closed(schema: Mapping[str, Any], tool: FunctionTool) -> Mapping[str, Any]:
    """Returns a schema that takes no other arguments, with those that the operator has filled in."""
    filled: dict[str, Any] = {name: {} for name in tool.partial_params}
    return {**schema, "properties": {**schema.get("properties", {}), **filled}}


# --- guarded copies


def guarded_tool(tool: Any, arguments: tool_arguments.ToolArguments, adapter: HostAdapter[LlamaScope]) -> Any:
    """Returns the guarded copy of a tool: of a FunctionTool, one with a guarded function.

    That copy does not refer to the tool, so that an attachment forgets both. A FunctionTool with another `acall`, which
    may do more than to call its function, is guarded as a whole.
    """
    own, host = (inspect.getattr_static(owner, "acall", None) for owner in (tool, FunctionTool))
    if not isinstance(tool, FunctionTool) or own is not host:
        return LlamaTool(adapt_to_async_tool(tool), arguments, adapter)
    require_parts(tool, "_fn", "_async_fn", "_real_fn", "requires_context", "ctx_param_name", "partial_params")
    created = copy.copy(tool)

    def call(*args: Any, **kwargs: Any) -> Any:
        return drive(LlamaInvocation(adapter, arguments, args, kwargs, awaited=False).steps(work))

    async def acall(*args: Any, **kwargs: Any) -> Any:
        return await adrive(LlamaInvocation(adapter, arguments, args, kwargs, awaited=True).steps(work))

    is_async, own_sync = inspect.iscoroutinefunction(tool.real_fn), tool.fn
    own_async = tool.async_fn if is_async or tool.real_fn is not tool.fn else None

    def work(args: Mapping[str, Any]) -> Operation:
        async def run() -> Any:
            if own_async is not None:
                return tool_arguments.finished(arguments.spec.name, await own_async(**args))
            return tool_arguments.finished(
                arguments.spec.name, await asyncio.to_thread(own_sync, **args)
            )  # with the run's context

        return Operation(lambda: tool_arguments.finished(arguments.spec.name, own_sync(**args)), run)

    created._fn, created._async_fn = call, acall  # noqa: SLF001 - the host's seam
    created.guardagent_guard, created.guardagent_name = adapter, arguments.spec.name
    return created


class LlamaTool(AsyncBaseTool):
    """Judges each call of a tool that is not a FunctionTool.

    Args:
        tool: the tool itself.
        arguments: reads its arguments.
        adapter: has the guard.
    """

    def __init__(self, tool: Any, arguments: tool_arguments.ToolArguments, adapter: HostAdapter[LlamaScope]) -> None:
        self._tool, self._arguments, self.guardagent_guard = tool, arguments, adapter
        self.guardagent_name = arguments.spec.name

    @property
    def metadata(self) -> Any:
        return self._tool.metadata

    def call(self, *args: Any, **kwargs: Any) -> Any:
        invocation = LlamaInvocation(self.guardagent_guard, self._arguments, args, kwargs, awaited=False)
        return drive(invocation.steps(self._work))

    async def acall(self, *args: Any, **kwargs: Any) -> Any:
        invocation = LlamaInvocation(self.guardagent_guard, self._arguments, args, kwargs, awaited=True)
        return await adrive(invocation.steps(self._work))

    def _work(self, args: Mapping[str, Any]) -> Operation:
        by_position = tuple(args.values()) if len(args) == 1 else ()
        named = {} if by_position else args  # as the host calls tools of one argument
        return Operation(
            lambda: self._tool.call(*by_position, **named), lambda: self._tool.acall(*by_position, **named)
        )


# --- results


def outcome_of(result: Any) -> Outcome:
    """Returns a call's outcome from what its tool has returned: a value, a ToolOutput, or a result of MCP."""
    if isinstance(result, ToolOutput):
        return Outcome(result.content, failed=result.is_error, other_outputs=(plain_or_text(result.raw_output),))
    content = getattr(result, "content", None)
    error = getattr(result, "is_error", getattr(result, "isError", None))
    if isinstance(content, list) and isinstance(error, bool):
        parts = [text for part in content if isinstance(text := getattr(part, "text", None), str)]
        structured = getattr(result, "structured_content", getattr(result, "structuredContent", None))
        return Outcome("\n".join(parts), failed=error, other_outputs=(parts, plain_or_text(structured)))
    return Outcome(plain_or_text(result))


def failure_of(error: BaseException) -> Outcome:
    """Returns a call's outcome from what its tool has raised.

    A workflow in a tool that timed out or was cancelled may have done a part of its work.
    """
    if isinstance(error, WorkflowTimeoutError | WorkflowCancelledByUser):
        return Outcome(error_text(error), failed=None)
    return Outcome.of_error(error)


# --- runs

UNNAMED = (
    "this run names no conversation: run the agent inside 'with conversation(id):', with a memory=Memory that has a "
    "session_id, or pass conversation=..."
)


class WorkflowHalted(ToolDenied):
    """A rule has halted the run: awaiting its handler raises this. `verdict` says why."""


class LlamaRun(ModelRun):
    """One run of an agent or an AgentWorkflow."""

    halt_error = WorkflowHalted


@dataclass(frozen=True, slots=True)
class LlamaScope(HostScope):
    """The surroundings of a call or a run.

    Attributes:
        ctx: the context of the workflow, whose step calls a tool.
        agent: the name of the agent.
    """

    run: LlamaRun | None = None
    ctx: Any = None
    agent: str | None = None


SURROUNDINGS = HostSurroundings("llama_index", LlamaScope)
scope, enter, conversation = SURROUNDINGS.scope, SURROUNDINGS.enter, SURROUNDINGS.conversation


# --- calls

HANDOFF = handoff.__name__


class LlamaInvocation(ToolInvocation[LlamaScope]):
    """One call of a tool.

    Args:
        adapter: has the guard.
        arguments: reads the arguments of the tool.
        args: the arguments by position.
        kwargs: the arguments by name.
        awaited: whether the call is awaited, so that its step can wait for a reviewer.
    """

    edits_run = True
    pausing = (WaitingForEvent,)

    def __init__(
        self,
        adapter: HostAdapter[LlamaScope],
        arguments: tool_arguments.ToolArguments,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        *,
        awaited: bool,
    ) -> None:
        super().__init__(adapter, arguments.spec.name, adapter.around())
        self.target = "to_agent" if self.name == HANDOFF else None
        self._arguments, self._args, self._kwargs, self._awaited = arguments, args, kwargs, awaited

    def bind(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return self._arguments.bind(self._args, self._kwargs)

    def rebind(self, edited: Mapping[str, Any]) -> dict[str, Any]:
        return self._arguments.bind((), {**edited, **self.apart})[0]

    def options(self) -> dict[str, Any]:
        options = super().options()
        options["agent"] = self.around.agent
        if self.around.call is not None:
            options.pop("id", None)  # it is that of the outer call
        return options

    def judge(self, call: HostCall) -> Procedure[JudgedCall]:
        if self._awaited and self.around.ctx is not None and self.around.call is None:
            return (yield from self.judge_at_host(call, _RACED))
        verdict, call = yield from self.guard.lifecycle.judge(call)
        return explained(verdict, _RACED), call

    def host_answer(self, call: HostCall) -> Procedure[Approval | None]:
        request = yield from self.host_request(call)
        return None if request is None else (yield awaited(lambda: ask_reviewer(self.around.ctx, request, call)))

    def inside(self, call: HostCall) -> LlamaScope:
        return replace(self.around, conversation=call.conversation, call=call)

    def key(self, call: HostCall) -> Any:
        return call.tool, self.around.tool_id

    def outcome(self, output: Any) -> Outcome:
        return outcome_of(output)

    def failure(self, error: BaseException) -> Outcome:
        return failure_of(error)


# --- messages


def with_unique_ids(output: AgentOutput) -> AgentOutput:
    """Returns a model's output whose calls have unique ids, also in its message, which the agent keeps."""
    make_ids_unique(output.tool_calls, "tool_id")
    make_ids_unique(output.response.blocks, "tool_call_id")
    make_ids_unique(output.response.additional_kwargs.get("tool_calls") or (), "id")
    return output


def chat(messages: Iterable[Any]) -> list[dict[str, str]]:
    """Returns role and text of each message."""
    return [{"role": _role(message), "content": str(message.content or "")} for message in messages]


def result_ids(messages: Iterable[Any]) -> list[str]:
    """Returns the ids of the calls whose results are among the messages."""
    tool_call_ids = [message.additional_kwargs.get("tool_call_id") for message in messages if _role(message) == "tool"]
    return [tool_call_id for tool_call_id in tool_call_ids if isinstance(tool_call_id, str)]


def _role(message: Any) -> str:
    return str(getattr(message.role, "value", message.role))


# --- final answers


class HoldingContext:
    """A workflow's context that holds its events until they are released.

    Args:
        ctx: the context itself.
    """

    def __init__(self, ctx: Any) -> None:
        self._ctx, self._events = ctx, list[Any]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ctx, name)

    def write_event_to_stream(self, event: Any) -> None:
        self._events.append(event)

    def release(self, *, withheld: AgentOutput | None = None) -> None:
        """Writes the events; those with a denied answer not, and its output in the withheld form."""
        for event in self._events:
            if withheld is None or not isinstance(event, AgentStream | AgentOutput | AgentStreamStructuredOutput):
                self._ctx.write_event_to_stream(event)
        if withheld is not None:
            self._ctx.write_event_to_stream(withheld)
        self._events.clear()


async def denial(adapter: HostAdapter[LlamaScope], *parts: Any) -> Verdict | None:
    """Returns the verdict that denies a run's final answer; None if the user may see it."""
    around = scope()
    if not adapter.guard.judges_answers or around is None or around.run is None or around.call is not None:
        return None  # the answer of an agent in a tool is for the agent that called it
    run, texts = around.run, [answer_text(part) for part in parts if part is not None]
    text = "\n".join(texts)
    if run.may_show(text):
        return None
    verdict = await adrive(adapter.answer_denial(around, last_user_text(run.messages), text))
    if verdict is None:
        run.passed.update(texts)  # the host shows them one by one
    return verdict


def without_answer(output: AgentOutput, verdict: Verdict) -> AgentOutput:
    """Takes the answer out of a model's output."""
    output.response = ChatMessage(role="assistant", content=withheld(verdict))
    output.raw = output.structured_response = None
    return output


def without_result(result: ToolOutput, verdict: Verdict) -> ToolOutput:
    """Returns the error in place of a tool's output that would have been the answer."""
    text = withheld(verdict)
    return ToolOutput(tool_name=result.tool_name, content=text, raw_input={}, raw_output=text, is_error=True)


# --- MCP servers


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


# --- guarded agents and workflows

ATTACHMENT = "guardagent_attachment"
PARTS = (
    "run",
    "get_tools",
    "call_tool",
    "_call_tool",
    "run_agent_step",
    "parse_agent_output",
    "aggregate_tool_results",
)


@cache
def guarded_class(base: Any) -> Any:
    """Returns the class of an agent or workflow with a guard."""
    return type(base)(base.__name__, (_GuardedWorkflow, base), {"__module__": base.__module__})


class _GuardedWorkflow:
    """Runs in a conversation, with guarded tools, and ends when its guard ends the run."""

    def run(self, *args: Any, **kwargs: Any) -> Any:
        memory = kwargs.get("memory") or (args[2] if len(args) > 2 else None)
        with enter(_attachment(self).begin_run(memory)):  # the tasks of the run inherit it
            return super().run(*args, **kwargs)  # type: ignore[misc]

    async def get_tools(self, *args: Any, **kwargs: Any) -> Sequence[Any]:
        attachment = _attachment(self)
        tools: list[Any] = attachment.tools(await super().get_tools(*args, **kwargs))  # type: ignore[misc]
        attachment.listed.check()
        return tools

    @step
    async def run_agent_step(self, ctx: Context, ev: AgentSetup) -> AgentOutput:
        attachment, (around, run) = _attachment(self), _surroundings()
        run.step, run.messages = run.step + 1, chat(ev.input)
        proposed = attachment.proposed(around)
        run.seen = [result_id for result_id in result_ids(ev.input) if result_id not in proposed]
        if not attachment.guard.judges_answers or around.call is not None:
            return with_unique_ids(await super().run_agent_step(ctx, ev))  # type: ignore[misc]
        held = HoldingContext(ctx)
        output = with_unique_ids(await super().run_agent_step(held, ev))  # type: ignore[misc]
        final = not (output.tool_calls or output.retry_messages)
        verdict = await denial(attachment, output.response.content or "") if final else None
        if verdict is not None:
            output = without_answer(output, verdict)
            await _forget_answer(ctx, _agent(self, output), output.response)
        held.release(withheld=output if verdict is not None else None)
        return output

    @step
    async def parse_agent_output(self, ctx: Context, ev: AgentOutput) -> StopEvent | AgentInput | ToolCall | None:
        attachment, (around, run) = _attachment(self), _surroundings()
        attachment.proposed(around).update(tool_call.tool_id for tool_call in ev.tool_calls)
        if not attachment.guard.judges_answers or around.call is not None:
            return await super().parse_agent_output(ctx, ev)  # type: ignore[misc]
        held = HoldingContext(ctx)
        result = await super().parse_agent_output(held, ev)  # type: ignore[misc]
        verdict = None
        if isinstance(result, StopEvent):
            text, structured = result.result.response.content or "", result.result.structured_response
            parts = [*([] if text in run.passed else [text]), *([] if structured is None else [structured])]
            verdict = await denial(attachment, *parts) if parts else None
        if verdict is not None:
            without_answer(result.result, verdict)
            await _forget_message(ctx, result.result.response)
        held.release(withheld=result.result if verdict is not None else None)
        return result

    @step
    async def call_tool(self, ctx: Context, ev: ToolCall) -> ToolCallResult:
        around, _ = _surroundings()
        agent = getattr(self, "name", None) or await ctx.store.get("current_agent_name", default=None)
        with enter(replace(around, ctx=ctx, tool_id=ev.tool_id, agent=agent)):
            return await super().call_tool(ctx, ev)  # type: ignore[misc]

    async def _call_tool(self, ctx: Any, tool: Any, tool_input: dict[str, Any]) -> Any:
        """Calls a tool. If its output would be the answer, it is judged before it is an event of the stream."""
        result = await super()._call_tool(ctx, tool, tool_input)  # type: ignore[misc]
        if not tool.metadata.return_direct or tool.metadata.name == HANDOFF or result.is_error:
            return result
        verdict = await denial(_attachment(self), result.content)
        return result if verdict is None else without_result(result, verdict)

    @step
    async def aggregate_tool_results(self, ctx: Context, ev: ToolCallResult) -> AgentInput | StopEvent | None:
        result = await super().aggregate_tool_results(ctx, ev)  # type: ignore[misc]
        _, run = _surroundings()
        if run.halted is not None:
            raise run.halted
        if result is None or run.final is None or isinstance(result, StopEvent):
            return result
        agent, memory = self._current_agent(result), await ctx.store.get("memory")
        message = ChatMessage(role="assistant", content=run.final)
        output = AgentOutput(response=message, tool_calls=[], current_agent_name=agent.name)
        output = await agent.finalize(ctx, output, memory)
        await memory.aput(message)
        await ctx.store.set("current_tool_calls", [])
        return StopEvent(result=output)

    def _current_agent(self, event: Any) -> Any:
        return _agent(self, event)


def _attachment(workflow: Any) -> Any:
    return vars(workflow)[ATTACHMENT]


def _surroundings() -> tuple[LlamaScope, LlamaRun]:
    around = scope() or LlamaScope(None)
    return around, around.run or LlamaRun()


def _agent(workflow: Any, event: Any) -> Any:
    agents = getattr(workflow, "agents", None)
    return agents[event.current_agent_name] if isinstance(agents, dict) else workflow


async def _forget_answer(ctx: Any, agent: Any, instead: ChatMessage) -> None:
    """Replaces a denied answer in what the agent puts into its memory at the end."""
    pad_key, reasoning_key = getattr(agent, "scratchpad_key", None), getattr(agent, "reasoning_key", None)
    if pad_key is not None and (pad := await ctx.store.get(pad_key, default=[])):
        await ctx.store.set(pad_key, [*pad[:-1], instead])
    if reasoning_key is not None:
        await ctx.store.set(reasoning_key, [])


async def _forget_message(ctx: Any, instead: ChatMessage) -> None:
    """Replaces a denied answer in the memory."""
    memory = await ctx.store.get("memory")
    messages = await memory.aget_all()
    if messages and str(getattr(messages[-1].role, "value", messages[-1].role)) == "assistant":
        await memory.aset([*messages[:-1], instead])


# --- attaching

AnyAgent = TypeVar("AnyAgent", bound=BaseWorkflowAgent | AgentWorkflow)


def guarded(
    agent: AnyAgent,
    guard: EnforcementPoint,
    *,
    conversation: Named = None,
    unjudged: Mapping[str, Collection[str]] | None = None,
) -> AnyAgent:
    """Attaches a guard in place to an agent, or to an AgentWorkflow and its agents.

    Args:
        agent: an agent or a workflow without another guard.
        guard: decides.
        conversation: the conversation's id, or a function that returns it; by default that of the
            `with conversation(id):` around the run, or the `session_id` of the memory that is passed to the run.
        unjudged: tool -> arguments that the program supplies and no rule needs; they are passed on unchanged, and
            neither judged nor logged.

    Returns:
        The agent.

    Raises:
        InputError: a tool cannot be guarded, a rule names a tool that is probably a misspelling of one of the agent's,
            or the agent has another guard.
    """
    attachment = LlamaAttachment(guard, conversation, dict(unjudged or {}))
    attachment.guard_agent(agent)
    attachment.listed.check()
    return agent


class LlamaAttachment(HostAdapter[LlamaScope]):
    """One guard, and the agents that it guards."""

    def __init__(self, guard: EnforcementPoint, named: Named, unjudged: Mapping[str, Collection[str]]) -> None:
        super().__init__(guard, SURROUNDINGS, named, UNNAMED)
        self._unjudged = unjudged
        self._guarded: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()  # tool -> its guarded copy

    def guard_agent(self, agent: Any) -> None:
        """Guards an agent, or a workflow and its agents. Does nothing to what is guarded already."""
        if not isinstance(agent, BaseWorkflowAgent | AgentWorkflow):
            raise InputError(f"this is a {type(agent).__name__}; expected an agent of LlamaIndex, or an AgentWorkflow")
        if self.is_new(vars(agent).get(ATTACHMENT), "this agent"):
            require_parts(agent, *PARTS)
            kind: Any = type(agent)
            agent.__class__ = guarded_class(kind)
            vars(agent)[ATTACHMENT] = self
        for inner in agent.agents.values() if isinstance(agent, AgentWorkflow) else ():
            self.guard_agent(inner)
        self.tools(getattr(agent, "tools", None) or ())

    def tools(self, tools: Iterable[Any]) -> list[Any]:
        """Returns the guarded tools, after a comparison with the rules.

        Raises:
            InputError: a tool cannot be guarded.
        """
        own = [tool for tool in tools if getattr(tool, "guardagent_guard", None) is not self]
        if any(getattr(tool, "guardagent_guard", None) is not None for tool in own):
            raise InputError("a tool has another guard already; expected the tool itself")
        made = {id(tool): self._copy(tool) for tool in own}
        late = update_servers(self.guard, own, self.listed.specs)
        return [
            _without_description(made.get(id(tool), tool)) if tool.metadata.name in late else made.get(id(tool), tool)
            for tool in tools
        ]

    def _copy(self, tool: Any) -> Any:
        """Returns the guarded copy of a tool, which is made again if the tool has another name now."""
        known = self._guarded.get(tool)
        if known is None or known.guardagent_name != tool.metadata.get_name():
            known = self._tool(tool)
            if isinstance(known, FunctionTool):  # another one refers to its tool, which would never be forgotten
                self._guarded[tool] = known
        return known

    def _tool(self, tool: Any) -> Any:
        name = tool.metadata.get_name()
        arguments = read_arguments(tool, self._unjudged.get(name, ()))
        if name != HANDOFF:
            self.listed.add(arguments.spec)
        return guarded_tool(tool, arguments, self)

    def begin_run(self, memory: Any) -> LlamaScope:
        """Returns the surroundings of a new run."""
        session = getattr(memory, "session_id", None)
        return self.begin(LlamaRun, session if isinstance(session, str) else None)


def _without_description(tool: Any) -> Any:
    """Returns a tool without its server's unreviewed description and schema."""
    if not isinstance(tool, FunctionTool):
        return tool
    created = copy.copy(tool)
    created._metadata = ToolMetadata(description=UNREAD, name=tool.metadata.name)  # noqa: SLF001 - it has no setter
    return created
