"""Judges and runs the calls of an agent's tools, and judges its final answers, also in the stream of events.

For the host's own approval, a step waits for a HumanResponseEvent, and runs again once it is there. Arguments are bound
to the tool's function, so that the judged ones are those that the function receives.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from llama_index.core.agent.workflow.multi_agent_workflow import handoff
from llama_index.core.agent.workflow.workflow_events import AgentOutput, AgentStream, AgentStreamStructuredOutput
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import AsyncBaseTool, FunctionTool, ToolOutput
from llama_index.core.tools.types import adapt_to_async_tool
from workflows.errors import WorkflowCancelledByUser, WorkflowTimeoutError
from workflows.events import HumanResponseEvent, InputRequiredEvent
from workflows.runtime.types.results import WaitingForEvent

from guardagent._support.execution import Operation, Procedure, adrive, drive
from guardagent._support.requirements import require_parts
from guardagent.enforcement import Approval, ApprovalRequest, HostCall, Outcome, ToolSpec, make_ids_unique
from guardagent.enforcement.host_adapter import (
    HostAdapter,
    ToolInvocation,
    answer_text,
    explained,
    last_user_text,
    plain_or_text,
    withheld,
)
from guardagent.enforcement.host_runs import HostScope, HostSurroundings, ModelRun, awaited
from guardagent.enforcement.lifecycle import JudgedCall
from guardagent.enforcement.tool_arguments import (
    ToolArguments,
    annotations_of,
    finished,
    read_signature,
    refuse_opaque,
    takes_any_name,
)
from guardagent.errors import InputError, ToolDenied, error_text
from guardagent.types import Verdict, thaw

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


def read_arguments(tool: Any, unjudged: Collection[str] = ()) -> ToolArguments:
    """Reads the declaration of a tool.

    Raises:
        InputError: it has no readable signature, or an argument of a type that no rule can read.
    """
    name, schema = tool.metadata.get_name(), tool.metadata.get_parameters_dict()
    if not isinstance(tool, FunctionTool):
        spec = ToolSpec(name, schema, tool.metadata.description or "")
        return ToolArguments(spec, None, frozenset(unjudged), schema)
    hidden = frozenset({*unjudged, *([tool.ctx_param_name] if tool.ctx_param_name else ())})
    signature = read_signature(tool.real_fn, name)
    generic = takes_any_name(signature)
    refuse_opaque(name, annotations_of(signature), hidden, may_hide=True)
    beyond = None if generic else frozenset(signature.parameters) - hidden
    spec = ToolSpec(name, schema, tool.metadata.description or "", unlisted_arguments=beyond)
    return ToolArguments(spec, None if generic else signature, hidden, _closed(schema, tool))


def _closed(schema: Mapping[str, Any], tool: FunctionTool) -> Mapping[str, Any]:
    """Returns a schema that takes no other arguments, with those that the operator has filled in."""
    filled: dict[str, Any] = {name: {} for name in tool.partial_params}
    return {**schema, "properties": {**schema.get("properties", {}), **filled}}


# --- guarded copies


def guarded_tool(tool: Any, arguments: ToolArguments, adapter: HostAdapter[LlamaScope]) -> Any:
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
                return finished(arguments.spec.name, await own_async(**args))
            return finished(arguments.spec.name, await asyncio.to_thread(own_sync, **args))  # with the run's context

        return Operation(lambda: finished(arguments.spec.name, own_sync(**args)), run)

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

    def __init__(self, tool: Any, arguments: ToolArguments, adapter: HostAdapter[LlamaScope]) -> None:
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
        arguments: ToolArguments,
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
