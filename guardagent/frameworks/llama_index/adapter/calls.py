"""Judges and runs the calls of an agent's tools, and judges its final answers, also in the stream of events.

For the host's own approval, a step waits for a HumanResponseEvent, and runs again once it is there. Arguments are bound
to the tool's function, so that the judged ones are those that the function receives.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import json
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

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
from guardagent.enforcement import Approval, ApprovalRequest, EnforcementPoint, HostCall, Outcome, ToolSpec
from guardagent.enforcement.approval import with_edits
from guardagent.enforcement.calls import plain_arguments, plain_value
from guardagent.enforcement.host_adapter import HostApproval, noted_denial, paused_calls, withheld
from guardagent.enforcement.host_runs import HostScope, HostSurroundings, ModelRun
from guardagent.enforcement.lifecycle import MAX_REQUESTS, JudgedCall
from guardagent.enforcement.schema import validate_arguments
from guardagent.enforcement.tool_arguments import (
    annotations_of,
    as_judged,
    bound_by_name,
    copied_values,
    finished,
    named_by_schema,
    read_signature,
    refuse_opaque,
    takes_any_name,
)
from guardagent.errors import InputError, ToolDenied, error_text
from guardagent.types import Decision, Verdict, thaw

# --- approval

_ELSEWHERE = Verdict(Decision.ESCALATE, reasons=("the approval was requested before, and has the reasons",))
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


def ask_host(guard: EnforcementPoint, call: HostCall, ctx: Any) -> Procedure[JudgedCall | None]:
    """Asks a reviewer through the host if a rule escalates the call. Returns None if none does.

    The step runs again after the answer, here or in another process, and finds the request in the guard's ledger.
    """
    life, edits = guard.lifecycle, guard.notes(str(call.conversation)).setdefault("edits", {})
    for _ in range(MAX_REQUESTS):
        if call.digest in edits:  # in an earlier run of the step
            call = with_edits(call, edits[call.digest])
            continue
        verdict = _ELSEWHERE if guard.has_request(call) else (yield from life.preview(call))
        if verdict.decision is not Decision.ESCALATE:
            return None
        request = life.request(call, verdict)
        response = yield Operation(_no_sync, lambda request=request, shown=call: _wait(ctx, request, shown))  # type: ignore[misc]
        approval = Approval.read(response.get("decision", None)).validated(call.validate_edit)
        verdict = yield from life.resolve(call, approval)
        edited = with_edits(call, approval)
        if verdict.decision is not Decision.ESCALATE:
            return verdict, edited
        edits[call.digest], call = approval, edited
    return Verdict(Decision.DENY, reasons=("it was edited too often",)), call


async def _wait(ctx: Any, request: ApprovalRequest, call: HostCall) -> Any:
    shown = InputRequiredEvent(prefix=request.text(), digest=request.digest, request=request.to_dict())
    return await ctx.wait_for_event(
        HumanResponseEvent,
        waiter_event=shown,
        waiter_id=call.digest,
        requirements={"call": call.digest},
        timeout=None,
    )


def explained(verdict: Verdict) -> Verdict:
    """Returns the verdict on a call that escalates, though it did not when it was judged ahead of its tool."""
    return replace(verdict, errors=(*verdict.errors, _RACED)) if verdict.decision is Decision.ESCALATE else verdict


def _no_sync() -> Any:
    raise InputError("a call that needs human approval has to be awaited; expected acall(), or an approver")


# --- arguments


@dataclass(frozen=True, slots=True)
class LlamaArguments:
    """Reads the arguments of a tool.

    Attributes:
        spec: the tool's declaration.
        signature: of its function; None if it takes whatever its schema declares.
        schema: the JSON schema, if there is no signature.
        unjudged: arguments that the host or the operator fills in; they are neither judged nor logged.
    """

    spec: ToolSpec
    signature: inspect.Signature | None
    schema: Mapping[str, Any]
    unjudged: frozenset[str] = frozenset()

    @classmethod
    def of(cls, tool: Any, unjudged: Collection[str] = ()) -> LlamaArguments:
        """Reads the declaration of a tool.

        Raises:
            InputError: it has no readable signature, or an argument of a type that no rule can read.
        """
        name = tool.metadata.get_name()
        schema = tool.metadata.get_parameters_dict()
        if not isinstance(tool, FunctionTool):
            return cls(ToolSpec(name, schema, tool.metadata.description or ""), None, schema, frozenset(unjudged))
        hidden = frozenset({*unjudged, *([tool.ctx_param_name] if tool.ctx_param_name else ())})
        signature = read_signature(tool.real_fn, name)
        generic = takes_any_name(signature)
        refuse_opaque(name, annotations_of(signature), hidden, may_hide=True)
        beyond = None if generic else frozenset(signature.parameters) - hidden
        spec = ToolSpec(name, schema, tool.metadata.description or "", unlisted_arguments=beyond)
        return cls(spec, None if generic else signature, _closed(schema, tool), hidden)

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns the arguments that the tool will get, with defaults, and the unjudged ones.

        Raises:
            InputError: they do not fit the tool, or one cannot be judged.
        """
        named = self._named(args, kwargs)
        apart = {name: named.pop(name) for name in self.unjudged & named.keys()}
        if self.signature is None:
            named = validate_arguments(self.spec.name, named, self.schema)
        return copied_values(named), apart

    def _named(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        if self.signature is None:
            return named_by_schema(self.schema, args, kwargs, self.spec.name)
        return bound_by_name(self.signature, args, kwargs, self.spec.name)


def _closed(schema: Mapping[str, Any], tool: FunctionTool) -> Mapping[str, Any]:
    """Returns a schema that takes no other arguments, with those that the operator has filled in."""
    filled: dict[str, Any] = {name: {} for name in tool.partial_params}
    return {**schema, "properties": {**schema.get("properties", {}), **filled}}


# --- guarded copies

Work = Callable[..., Operation]
"""The work of a tool with these arguments."""


class LlamaInvoker(Protocol):
    """Judges and runs calls, in both forms."""

    def invoke(
        self, arguments: LlamaArguments, args: tuple[Any, ...], kwargs: Mapping[str, Any], work: Work
    ) -> Any: ...

    def ainvoke(
        self, arguments: LlamaArguments, args: tuple[Any, ...], kwargs: Mapping[str, Any], work: Work
    ) -> Awaitable[Any]: ...


def guarded_tool(tool: Any, arguments: LlamaArguments, invoker: LlamaInvoker) -> Any:
    """Returns the guarded copy of a tool: of a FunctionTool, one with a guarded function.

    That copy does not refer to the tool, so that an attachment forgets both. A FunctionTool with another `acall`, which
    may do more than to call its function, is guarded as a whole.
    """
    own, host = (inspect.getattr_static(one, "acall", None) for one in (tool, FunctionTool))
    if not isinstance(tool, FunctionTool) or own is not host:
        return LlamaTool(adapt_to_async_tool(tool), arguments, invoker)
    require_parts(tool, "_fn", "_async_fn", "_real_fn", "requires_context", "ctx_param_name", "partial_params")
    created = copy.copy(tool)

    def call(*args: Any, **kwargs: Any) -> Any:
        return invoker.invoke(arguments, args, kwargs, work)

    async def acall(*args: Any, **kwargs: Any) -> Any:
        return await invoker.ainvoke(arguments, args, kwargs, work)

    is_async, own_sync = inspect.iscoroutinefunction(tool.real_fn), tool.fn
    own_async = tool.async_fn if is_async or tool.real_fn is not tool.fn else None

    def work(**kwargs: Any) -> Operation:
        async def run() -> Any:
            if own_async is not None:
                return finished(arguments.spec.name, await own_async(**kwargs))
            return finished(arguments.spec.name, await asyncio.to_thread(own_sync, **kwargs))  # with the run's context

        return Operation(lambda: finished(arguments.spec.name, own_sync(**kwargs)), run)

    created._fn, created._async_fn = call, acall  # noqa: SLF001 - the host's seam
    created.guardagent_guard, created.guardagent_name = invoker, arguments.spec.name
    return created


class LlamaTool(AsyncBaseTool):
    """Judges each call of a tool that is not a FunctionTool.

    Args:
        tool: the tool itself.
        arguments: reads its arguments.
        invoker: judges and runs.
    """

    def __init__(self, tool: Any, arguments: LlamaArguments, invoker: LlamaInvoker) -> None:
        self._tool, self._arguments, self.guardagent_guard = tool, arguments, invoker
        self.guardagent_name = arguments.spec.name

    @property
    def metadata(self) -> Any:
        return self._tool.metadata

    def call(self, *args: Any, **kwargs: Any) -> Any:
        return self.guardagent_guard.invoke(self._arguments, args, kwargs, self._work)

    async def acall(self, *args: Any, **kwargs: Any) -> Any:
        return await self.guardagent_guard.ainvoke(self._arguments, args, kwargs, self._work)

    def _work(self, **kwargs: Any) -> Operation:
        by_position = tuple(kwargs.values()) if len(kwargs) == 1 else ()
        named = {} if by_position else kwargs  # as the host calls tools of one argument

        return Operation(
            lambda: self._tool.call(*by_position, **named), lambda: self._tool.acall(*by_position, **named)
        )


# --- results


def outcome_of(result: Any) -> Outcome:
    """Returns a call's outcome from what its tool has returned: a value, a ToolOutput, or a result of MCP."""
    if isinstance(result, ToolOutput):
        return Outcome(result.content, failed=result.is_error, other_outputs=(_plain(result.raw_output),))
    content = getattr(result, "content", None)
    error = getattr(result, "is_error", getattr(result, "isError", None))
    if isinstance(content, list) and isinstance(error, bool):
        parts = [text for one in content if isinstance(text := getattr(one, "text", None), str)]
        structured = getattr(result, "structured_content", getattr(result, "structuredContent", None))
        return Outcome("\n".join(parts), failed=error, other_outputs=(parts, _plain(structured)))
    return Outcome(_plain(result))


def failure_of(error: BaseException) -> Outcome:
    """Returns a call's outcome from what its tool has raised.

    A workflow in a tool that timed out or was cancelled may have done a part of its work.
    """
    if isinstance(error, WorkflowTimeoutError | WorkflowCancelledByUser):
        return Outcome(error_text(error), failed=None)
    return Outcome.of_error(error)


def _plain(value: Any) -> Any:
    try:
        return plain_value(value)
    except InputError:
        return str(value)


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
        tool_id: the host's id of that call.
        agent: the name of the agent.
    """

    run: LlamaRun | None = None
    ctx: Any = None
    tool_id: str | None = None
    agent: str | None = None


SURROUNDINGS = HostSurroundings("llama_index", LlamaScope)
scope, enter, conversation = SURROUNDINGS.scope, SURROUNDINGS.enter, SURROUNDINGS.conversation


def surroundings(named: str | None, memory: Any) -> LlamaScope:
    """Returns the surroundings of a new run: within a tool, those of the call.

    Args:
        named: the conversation that the operator names, if any.
        memory: the memory that is passed to the run, if any.
    """
    around = scope()
    if around is not None and around.call is not None:
        return LlamaScope(around.conversation, LlamaRun(around.run), around.call)
    outside = around.conversation if around is not None else None
    session = getattr(memory, "session_id", None)
    return LlamaScope(named or outside or (session if isinstance(session, str) else None), LlamaRun())


# --- calls

HANDOFF = handoff.__name__


class LlamaCalls:
    """Judges and runs calls.

    Args:
        guard: decides.
        named: returns the operator's name of the conversation.
    """

    def __init__(self, guard: EnforcementPoint, named: Callable[[], str | None]) -> None:
        self.guard, self._named = guard, named
        self._host_approval = HostApproval(guard)

    def invoke(self, arguments: LlamaArguments, args: tuple[Any, ...], kwargs: Mapping[str, Any], work: Work) -> Any:
        """Judges a call, and runs it with the judged arguments.

        Raises:
            ToolDenied: the call may not run.
        """
        return drive(self._steps(arguments, args, kwargs, work, awaited=False))

    async def ainvoke(
        self, arguments: LlamaArguments, args: tuple[Any, ...], kwargs: Mapping[str, Any], work: Work
    ) -> Any:
        """As `invoke`, for coroutine functions."""
        return await adrive(self._steps(arguments, args, kwargs, work, awaited=True))

    def _steps(
        self, arguments: LlamaArguments, args: tuple[Any, ...], kwargs: Mapping[str, Any], work: Work, *, awaited: bool
    ) -> Procedure[Any]:
        around = scope() or LlamaScope(self._named())
        name, life = arguments.spec.name, self.guard.lifecycle
        try:
            own, apart = arguments.bind(args, kwargs)
            shown = _shown(name, own)
            plain = plain_arguments(shown)
            call = self._call(name, plain, around, _validation(arguments, apart))
        except InputError as error:
            verdict = yield from life.refuse(self._call(name, {}, around), str(error))
            raise noted_denial(ToolDenied(name, verdict), around, UNNAMED) from None
        paused = paused_calls(self.guard, call.conversation)
        started = paused.pop((name, around.tool_id), None)
        if started is not None and started.args == call.args:
            call, judged = started, shown
        else:
            try:
                call, judged = yield from life.authorize(call, self._judge(call, around, awaited=awaited))
            except ToolDenied as denied:
                raise noted_denial(denied, around, UNNAMED) from None
        live = _received(name, as_judged(judged, shown, plain))
        inside = replace(around, conversation=call.conversation, call=call)

        def failure(error: BaseException) -> Outcome | None:
            if isinstance(error, WaitingForEvent):  # the tool asks a person itself: it runs again, as the same call
                paused[name, around.tool_id] = call
                return None
            return failure_of(error)

        return (yield from life.execute(call, SURROUNDINGS.within(inside, work(**live, **apart)), outcome_of, failure))

    def _judge(self, call: HostCall, around: LlamaScope, *, awaited: bool) -> Procedure[JudgedCall]:
        """Judges a call. If a rule escalates it and the guard has no approver, the host asks a reviewer."""
        can_ask = awaited and around.ctx is not None and around.call is None and bool(call.conversation)
        if can_ask and self._host_approval.may_be_needed:
            judged = yield from ask_host(self.guard, replace(call, step=None, messages=None, seen=None), around.ctx)
            if judged is not None:
                return judged
        verdict, call = yield from self.guard.lifecycle.judge(call)
        return explained(verdict), call

    def _call(self, name: str, args: Mapping[str, Any], around: LlamaScope, validate_edit: Any = None) -> HostCall:
        options: dict[str, Any] = {"validate_edit": validate_edit}
        if around.run is not None:
            options |= around.run.call_options(nested=around.call is not None)
        if around.tool_id is not None and around.call is None:
            options["id"] = around.tool_id
        action = {"action": HANDOFF} if name == HANDOFF else {}
        return HostCall(name, args, around.conversation, agent=around.agent, **action, **options)


def _validation(
    arguments: LlamaArguments, apart: Mapping[str, Any]
) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    name = arguments.spec.name

    def validated(edited: Mapping[str, Any]) -> Mapping[str, Any]:
        own, _ = arguments.bind((), {**_received(name, edited), **apart})
        return plain_arguments(_shown(name, own))

    return validated


def _shown(name: str, args: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments as rules know them: those of a hand-off are `to` and `reason`."""
    if name != HANDOFF or "to_agent" not in args:
        return dict(args)
    return {"to" if key == "to_agent" else key: value for key, value in args.items()}


def _received(name: str, args: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments as the tool knows them."""
    if name != HANDOFF:
        return dict(args)
    return {"to_agent" if key == "to" else key: value for key, value in args.items()}


# --- messages


def chat(messages: Iterable[Any]) -> list[dict[str, str]]:
    """Returns role and text of each message."""
    return [{"role": _role(one), "content": str(one.content or "")} for one in messages]


def result_ids(messages: Iterable[Any]) -> list[str]:
    """Returns the ids of the calls whose results are among the messages."""
    found = [one.additional_kwargs.get("tool_call_id") for one in messages if _role(one) == "tool"]
    return [one for one in found if isinstance(one, str)]


def last_user_text(messages: Iterable[dict[str, str]]) -> str:
    """Returns the text of the user's last message; empty if there is none."""
    return next((one["content"] for one in reversed(list(messages)) if one["role"] == "user"), "")


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


async def denial(guard: EnforcementPoint, *parts: Any) -> Verdict | None:
    """Returns the verdict that denies a run's final answer; None if the user may see it."""
    around = scope()
    run = around.run if around is not None else None
    if not guard.judges_answers or around is None or run is None or around.call is not None:
        return None  # the answer of an agent in a tool is for the agent that called it
    text = "\n".join(_text(one) for one in parts if one is not None)
    if text in run.passed or (run.final is not None and text == run.final):
        return None
    verdict = await guard.aanswer(around.conversation or "", last_user_text(run.messages), text)
    run.passed.update([withheld(verdict)] if verdict.label else [text, *map(_text, parts)])
    if verdict.label:
        run.note("answer", verdict)
        if run.halted is not None:
            raise run.halted
    return verdict if verdict.label else None


def without_answer(output: AgentOutput, verdict: Verdict) -> AgentOutput:
    """Takes the answer out of a model's output."""
    output.response = ChatMessage(role="assistant", content=withheld(verdict))
    output.raw = output.structured_response = None
    return output


def without_result(result: ToolOutput, verdict: Verdict) -> ToolOutput:
    """Returns the error in place of a tool's output that would have been the answer."""
    text = withheld(verdict)
    return ToolOutput(tool_name=result.tool_name, content=text, raw_input={}, raw_output=text, is_error=True)


def _text(answer: Any) -> str:
    if isinstance(answer, str):
        return answer
    try:
        return json.dumps(plain_value(answer), ensure_ascii=False, default=str)
    except (InputError, TypeError, ValueError):
        return str(answer)
