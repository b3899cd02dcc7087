"""Judges and runs the calls of an agent's tools, with the arguments that their functions receive."""

from __future__ import annotations

import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from google.adk.tools.transfer_to_agent_tool import TransferToAgentTool
from google.adk.workflow._errors import NodeInterruptedError

from guardagent._support.arguments import ambiguous_names
from guardagent._support.execution import Procedure, adrive
from guardagent.enforcement import EnforcementPoint, HostCall, Outcome, ToolSpec
from guardagent.enforcement.approval import with_edits
from guardagent.enforcement.calls import plain_arguments, plain_value
from guardagent.enforcement.host_adapter import explained_denial
from guardagent.enforcement.host_runs import awaited
from guardagent.enforcement.lifecycle import JudgedCall, PermitVoidError
from guardagent.enforcement.schema import validate_arguments
from guardagent.enforcement.tool_arguments import JSON_SCALARS, copied_values, refuse_opaque, value_copy
from guardagent.errors import GuardError, InputError, ToolDenied, error_text
from guardagent.frameworks.adk.adapter.answers import approval_of
from guardagent.frameworks.adk.adapter.runs import (
    SURROUNDINGS,
    UNNAMED,
    AdkRun,
    AdkRuns,
    AdkScope,
    calling_event,
    conversation_id,
    outcome_of,
    require_finished,
)
from guardagent.types import EMPTY, Decision, thaw, unchecked_verdict

_log = logging.getLogger("guardagent")


# --- arguments

ANY: Mapping[str, Any] = {"type": "object"}
_VARIADIC = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)


def require_distinct(name: str, args: Any) -> None:
    """Raises InputError if two names in the model's arguments are equal for some readers."""
    if isinstance(args, Mapping) and (found := ambiguous_names(args)) is not None:
        raise InputError(f"the arguments of {name!r} have {found}; expected only one of them")


@dataclass(frozen=True, slots=True)
class BoundArguments:
    """The arguments of one call.

    Attributes:
        own: copies of those that are judged.
        apart: those that the host or the operator fills in.
    """

    own: dict[str, Any]
    apart: dict[str, Any]


def bind_function(tool: Any, args: Mapping[str, Any], unjudged: Collection[str]) -> BoundArguments:
    """Returns the arguments of a FunctionTool, after the host's conversion, with the function's defaults.

    Raises:
        InputError: they do not fit, or one cannot be judged.
    """
    hidden = {tool._context_param_name, *unjudged}  # noqa: SLF001 - the host has no public name for it
    apart = {name: value for name, value in args.items() if name in hidden or _is_injected(tool, name, value)}
    own = copied_values({name: value for name, value in args.items() if name not in apart})
    _require_fit(tool, args)
    for name, default in shape_of(tool.func).defaults.items():
        if name not in args and name not in tool._ignore_params:  # noqa: SLF001 - as above
            own[name] = value_copy(default, name)
    return BoundArguments(own, apart)


def _require_fit(tool: Any, args: Mapping[str, Any]) -> None:
    """Raises InputError if a function lacks an argument, or does not take one; the host checks only the model's."""
    shape = shape_of(tool.func)
    unknown = [name for name in args if name not in shape.names] if shape.names is not None else []
    missing = [one for one in shape.required if one not in args and one not in tool._ignore_params]  # noqa: SLF001
    if unknown or missing:
        problem = f"there is no {unknown[0]!r}" if unknown else f"{missing[0]!r} is missing"
        raise InputError(f"the arguments of {tool.name!r} do not fit: {problem}")


def bind_schema(tool: Any, args: Any, unjudged: Collection[str]) -> BoundArguments:
    """Returns the arguments of another tool, which fit its declaration, with the declaration's defaults.

    Raises:
        InputError: they do not fit.
    """
    require_distinct(tool.name, args)
    apart = {name: value for name, value in args.items() if name in unjudged}
    own = {name: value for name, value in args.items() if name not in apart}
    schema = schema_of(tool)
    required = [one for one in schema.get("required", ()) if one not in apart]
    checked = validate_arguments(tool.name, own, {**schema, "required": required} if apart else schema)
    return BoundArguments(copied_values(checked), apart)


def spec_of(tool: Any, unjudged: Collection[str] = ()) -> ToolSpec:
    """Returns the declaration of a tool.

    Raises:
        InputError: an argument is of a type that no rule can read.
    """
    function = getattr(tool, "func", None)
    beyond = None if function is not None and shape_of(function).names is None else frozenset[str]()
    hints = getattr(getattr(tool, "_spec", None), "type_hints", {})
    refuse_opaque(tool.name, hints, {*getattr(tool, "_ignore_params", ()), *unjudged, "return"}, may_hide=True)
    return ToolSpec(tool.name, schema_of(tool), tool.description or "", unlisted_arguments=beyond)


def schema_of(tool: Any) -> Mapping[str, Any]:
    """Returns the JSON schema of a tool's arguments; that of any object if it declares none."""
    declaration = tool._get_declaration()  # noqa: SLF001 - the host has no public name for it
    schema = getattr(declaration, "parameters_json_schema", None)
    if isinstance(schema, Mapping):
        return schema
    parameters = getattr(declaration, "parameters", None)
    if parameters is None:
        return ANY
    found: Mapping[str, Any] = parameters.json_schema.model_dump(mode="json", exclude_none=True, by_alias=True)
    return found


@dataclass(frozen=True, slots=True)
class FunctionShape:
    """The parameters of a function.

    Attributes:
        names: their names; None if it takes any, or if it has no readable signature.
        required: those without a default.
        defaults: the others'. A default that rules cannot read is a constant of the operator's.
    """

    names: frozenset[str] | None
    required: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


def shape_of(function: Any) -> FunctionShape:
    """Returns the parameters of a function; reads each function once."""
    try:
        return _shape(function)
    except TypeError:  # not hashable
        return _shape.__wrapped__(function)


@lru_cache(maxsize=1024)
def _shape(function: Any) -> FunctionShape:
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return FunctionShape(None)
    named = {name: one.default for name, one in parameters.items() if one.kind not in _VARIADIC}
    takes_any = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values())
    return FunctionShape(
        None if takes_any else frozenset(parameters),
        tuple(name for name, one in named.items() if one is inspect.Parameter.empty),
        {name: one for name, one in named.items() if one is not inspect.Parameter.empty and _is_plain(one)},
    )


def _is_injected(tool: Any, name: str, value: Any) -> bool:
    """Whether the host has filled in an argument, such as a credential; the model can only write JSON."""
    return name in tool._ignore_params and type(value) not in {*JSON_SCALARS, dict, list}  # noqa: SLF001 - as above


def _is_plain(value: Any) -> bool:
    try:
        plain_value(value)
    except InputError:
        return False
    return True


# --- calls

HANDOFF = "handoff"
PENDING = {"error": "This call needs the approval of a person, who has been asked."}
_NOT_HERE = (
    "this call needs human approval, which ADK cannot request here: inside an agent that is a tool, in a tool node of "
    "a workflow, or in live mode; expected ToolGuard(approver=...)"
)
_TWICE = (
    "this call needs human approval, and ADK asks only once about a call: it has asked for the "
    "require_confirmation of the tool, or the edit of the reviewer needs approval, too; expected "
    "ToolGuard(approver=...), or another call"
)
_OTHERS = "the tool would get other arguments than the edited ones, which were judged"
_BEGUN = "this call has begun already, and its outcome is unknown; propose it again if it is still needed"


class AwaitedApprovalError(Exception):
    """The call waits for a reviewer: the host shows the request, and runs the tool again after the answer."""


@dataclass(frozen=True, slots=True)
class ProposedCall:
    """A call, and how to run it.

    Attributes:
        tool: the tool.
        context: the host's context of the call.
        bind: binds arguments as the tool would get them.
        work: runs the tool with these arguments.
        convert: converts arguments that a reviewer has edited, as the host converts those of the model.
        lost: the outcome of a tool that raised an error.
    """

    tool: Any
    context: Any
    bind: Callable[[Mapping[str, Any]], BoundArguments]
    work: Callable[[dict[str, Any]], Awaitable[Any]]
    convert: Callable[[dict[str, Any]], dict[str, Any]] = dict
    lost: Callable[[BaseException], Outcome] = Outcome.of_error

    @property
    def is_handoff(self) -> bool:
        return isinstance(self.tool, TransferToAgentTool)

    @property
    def name(self) -> str:
        return HANDOFF if self.is_handoff else str(self.tool.name)

    def shown(self, bound: BoundArguments) -> Mapping[str, Any]:
        """Returns the arguments as rules know them: that of a hand-off is `to`.

        Raises:
            InputError: one has no form that rules can read.
        """
        shown = plain_arguments(bound.own)
        if not self.is_handoff:
            return shown
        return {"to" if name == "agent_name" else name: one for name, one in shown.items()}

    def rebind(self, edited: Mapping[str, Any]) -> BoundArguments:
        """Returns a reviewer's arguments as the tool would get them.

        Raises:
            InputError: they do not fit.
        """
        return self.bind(self.convert(self.received(edited)))

    def received(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the arguments as the tool knows them."""
        return {"agent_name" if self.is_handoff and name == "to" else name: one for name, one in args.items()}


class AdkCalls:
    """Judges and runs calls.

    Args:
        guard: decides.
        find_conversation: the operator's function that names the conversation of a context.
        unjudged: tool -> arguments that are neither judged nor logged.
        unguarded: the tools and agents that may run without a guard.
    """

    def __init__(
        self,
        guard: EnforcementPoint,
        find_conversation: Callable[[Any], str | None] | None,
        unjudged: Mapping[str, Collection[str]],
        unguarded: frozenset[str],
    ) -> None:
        self.guard, self.runs, self._find_conversation = guard, AdkRuns(), find_conversation
        self._unjudged, self.unguarded = unjudged, unguarded

    def unjudged(self, tool: Any) -> Collection[str]:
        return self._unjudged.get(tool.name, ())

    def run_of(self, context: Any) -> AdkRun:
        """Returns the run of a context, or of an invocation."""
        return self.runs.of(context, lambda: self._name(context))

    def _name(self, context: Any) -> str | None:
        if self._find_conversation is not None:
            try:
                return self._find_conversation(context)
            except Exception as error:  # noqa: BLE001 - a function of the operator
                _log.error("the conversation of a run is unknown, so its calls are denied: %s", error_text(error))
                return None
        session = context.session
        return conversation_id(session.app_name, session.user_id, session.id)

    def notes(self, run: AdkRun) -> dict[Any, Any]:
        """Returns the notes on the conversation; new ones if it cannot be read, since its calls are then denied."""
        if run.notes is None:
            try:
                run.notes = self.guard.notes(run.conversation) if run.conversation else {}
            except GuardError:
                return {}
        return run.notes

    def propose(self, context: Any) -> None:
        """Notes that a call has reached the guard."""
        run = self.run_of(context)
        if context.function_call_id and not run.nested:
            self.notes(run).setdefault("proposed", set()).add(context.function_call_id)

    async def refuse(self, tool: Any, context: Any, problem: str) -> dict[str, Any]:
        """Denies a call that cannot be judged. Returns the denial as the tool's error."""
        run = self.run_of(context)
        verdict = await self.guard.arefuse(self._call(ProposedCall(tool, context, _unbound, _unrun), {}, run), problem)
        return self._denied(ToolDenied(tool.name, verdict), run)

    async def invoke(self, proposed: ProposedCall, args: Mapping[str, Any]) -> Any:
        """Judges a call, and runs it with the judged arguments. Returns the tool's output, or its error.

        Raises:
            RunnerHalted: a rule halts the run.
        """
        run = self.run_of(proposed.context)
        try:
            bound = proposed.bind(args)
            shown = proposed.shown(bound)
        except Exception as error:  # noqa: BLE001 - a type of the operator's may raise anything
            problem = str(error) if isinstance(error, InputError) else error_text(error)
            return await self.refuse(proposed.tool, proposed.context, problem)
        call, notes = self._call(proposed, shown, run), self.notes(run)
        key, begun = (call.step, call.id, call.tool), notes.setdefault("begun", set())
        paused = notes.setdefault("paused", {}).pop(key, None)
        if paused is not None and paused.args == call.args:
            return await self._execute(proposed, paused, bound, run, key)
        if call.step is not None and key in begun:
            return await self.refuse(proposed.tool, proposed.context, _BEGUN)
        begun.add(key)
        try:
            call, bound = await self._authorized(proposed, call, bound, run)
        except BaseException as error:
            begun.discard(key)
            if isinstance(error, AwaitedApprovalError):
                return dict(PENDING)
            if isinstance(error, ToolDenied):
                return self._denied(error, run)
            raise
        return await self._execute(proposed, call, bound, run, key)

    async def _authorized(
        self, proposed: ProposedCall, call: HostCall, bound: BoundArguments, run: AdkRun
    ) -> tuple[HostCall, BoundArguments]:
        """Returns a call that may run, with its arguments.

        Raises:
            ToolDenied: it may not run.
            AwaitedApprovalError: it waits for a reviewer.
        """
        judged, args = await adrive(self.guard.lifecycle.authorize(call, self._judge(proposed, call, run)))
        return judged, bound if judged is call else await self._edited(proposed, judged, args, bound)

    # --- the parts of a call

    def _call(self, proposed: ProposedCall, args: Mapping[str, Any], run: AdkRun) -> HostCall:
        context = proposed.context
        event = calling_event(context.session, context.function_call_id)
        options: dict[str, Any] = {"agent": context.agent_name, "validate_edit": _validation(proposed)}
        if event is not None:
            options["step"] = event.id
        if context.function_call_id:
            options["id"] = context.function_call_id
        if not run.nested:
            run.shown.update(context.session.events, self.notes(run).get("proposed", set()), self.unguarded)
            options |= {"messages": run.shown.messages, "seen": run.shown.seen}
        if proposed.is_handoff:
            options["action"] = HANDOFF
        return HostCall(proposed.name, args, run.conversation, **options)

    def _judge(self, proposed: ProposedCall, call: HostCall, run: AdkRun) -> Procedure[JudgedCall]:
        """Judges a call, with a reviewer's answer if there is one. If a rule escalates it, the host asks.

        Raises:
            AwaitedApprovalError: the host has been told to ask.
        """
        life, context = self.guard.lifecycle, proposed.context
        approval = approval_of(context) if self.guard.approver is None and call.conversation else None
        if approval is None:
            verdict, call = yield from life.judge(call)
        else:
            approval = approval.validated(call.validate_edit)
            verdict = yield from life.resolve(call, approval)
            call = with_edits(call, approval)
        if verdict.decision is not Decision.ESCALATE or self.guard.approver is not None:
            return verdict, call
        if run.nested or call.step is None or context.get_invocation_context().live_request_queue is not None:
            return replace(verdict, errors=(*verdict.errors, _NOT_HERE)), call
        if context.tool_confirmation is not None:
            return replace(verdict, errors=(*verdict.errors, _TWICE)), call
        request = life.request(call, verdict)
        context.request_confirmation(hint=request.text(), payload=request.to_dict())
        context.actions.skip_summarization = True
        raise AwaitedApprovalError

    async def _edited(
        self, proposed: ProposedCall, judged: HostCall, args: Mapping[str, Any], bound: BoundArguments
    ) -> BoundArguments:
        """Returns the arguments that a reviewer has edited, as the tool gets them.

        Raises:
            PermitVoidError: the tool would get others.
        """
        try:
            edited = BoundArguments(proposed.rebind(args).own, bound.apart)
            if repr(thaw(proposed.shown(edited))) == repr(thaw(judged.args)):
                return edited
        except Exception as error:  # noqa: BLE001 - the host's conversion
            _log.error("an edited call cannot run: %s", error_text(error))
        await self.guard.awithdraw(judged, _OTHERS, used=True)
        raise PermitVoidError(judged.tool, unchecked_verdict(_OTHERS, checked_by="policy"))

    async def _execute(
        self, proposed: ProposedCall, call: HostCall, bound: BoundArguments, run: AdkRun, key: Any
    ) -> Any:
        notes, inside = self.notes(run), AdkScope(call.conversation, run, call, calls=self)

        async def work() -> Any:
            return require_finished(proposed.name, await proposed.work({**bound.own, **bound.apart}))

        def failure(error: BaseException) -> Outcome | None:
            if isinstance(
                error, NodeInterruptedError
            ):  # an agent in it waits for a person: it runs again, as this call
                notes.setdefault("paused", {})[key] = call
                return None
            return proposed.lost(error)

        def outcome(output: Any) -> Outcome | None:
            return None if inspect.isasyncgen(output) else outcome_of(output)

        running = SURROUNDINGS.within(inside, awaited(work))
        output = await adrive(self.guard.lifecycle.execute(call, running, outcome, failure))
        return self._streamed(call, output, inside) if inspect.isasyncgen(output) else output

    async def _streamed(self, call: HostCall, stream: Any, inside: AdkScope) -> AsyncIterator[Any]:
        """Yields the parts of a live tool's output, and records the outcome at its end."""
        try:
            async with aclosing(SURROUNDINGS.stream_within(inside, stream)) as parts:
                async for part in parts:
                    yield part
        except BaseException as error:
            self.guard.after(call, Outcome.of_error(error))
            raise
        await self.guard.aafter(call, Outcome())

    def _denied(self, denied: ToolDenied, run: AdkRun) -> dict[str, Any]:
        """Returns the denial as the tool's error, which the model reads.

        Raises:
            RunnerHalted: a rule halts the run.
        """
        run.note(denied.tool, denied.verdict)
        if run.halted is not None:
            raise run.halted from None
        return {"error": explained_denial(denied, run.conversation, UNNAMED).verdict.feedback()}


def _validation(proposed: ProposedCall) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    return lambda edited: proposed.shown(proposed.rebind(edited))


def _unbound(_: Mapping[str, Any]) -> BoundArguments:
    raise InputError("the arguments cannot be read")


async def _unrun(_: dict[str, Any]) -> Any:
    raise InputError("this call cannot run")
