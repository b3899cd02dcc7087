"""Judges and runs the calls of an agent's tools, with the arguments that their functions receive."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from google.adk.tools.transfer_to_agent_tool import TransferToAgentTool
from google.adk.workflow._errors import NodeInterruptedError

from guardagent._support.arguments import ambiguous_names
from guardagent._support.execution import Procedure, adrive
from guardagent.enforcement import EnforcementPoint, HostCall, Outcome, ToolSpec
from guardagent.enforcement.approval import with_edits
from guardagent.enforcement.calls import plain_value
from guardagent.enforcement.host_adapter import HANDOFF, ToolInvocation, explained, plain_or_text
from guardagent.enforcement.host_runs import awaited
from guardagent.enforcement.lifecycle import JudgedCall
from guardagent.enforcement.schema import validate_arguments
from guardagent.enforcement.tool_arguments import JSON_SCALARS, copied_values, refuse_opaque, value_copy
from guardagent.errors import InputError, ToolDenied, error_text
from guardagent.frameworks.adk.adapter import runs
from guardagent.frameworks.adk.adapter.answers import approval_of
from guardagent.types import EMPTY, Decision

# --- arguments

ANY: Mapping[str, Any] = {"type": "object"}
_VARIADIC = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)


def require_distinct(name: str, args: Any) -> None:
    """Raises InputError if two names in the model's arguments are equal for some readers."""
    if isinstance(args, Mapping) and (doubled := ambiguous_names(args)) is not None:
        raise InputError(f"the arguments of {name!r} have {doubled}; expected only one of them")


Bound = tuple[dict[str, Any], dict[str, Any]]
"""Copies of the arguments that are judged, and those that the host or the operator fills in."""


def bind_function(tool: Any, args: Mapping[str, Any], unjudged: Collection[str]) -> Bound:
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
    return own, apart


def _require_fit(tool: Any, args: Mapping[str, Any]) -> None:
    """Raises InputError if a function lacks an argument, or does not take one; the host checks only the model's."""
    shape = shape_of(tool.func)
    unknown = [name for name in args if name not in shape.names] if shape.names is not None else []
    missing = [
        required_name
        for required_name in shape.required
        if required_name not in args and required_name not in tool._ignore_params  # noqa: SLF001
    ]
    if unknown or missing:
        problem = f"there is no {unknown[0]!r}" if unknown else f"{missing[0]!r} is missing"
        raise InputError(f"the arguments of {tool.name!r} do not fit: {problem}")


def bind_schema(tool: Any, args: Any, unjudged: Collection[str]) -> Bound:
    """Returns the arguments of another tool, which fit its declaration, with the declaration's defaults.

    Raises:
        InputError: they do not fit.
    """
    require_distinct(tool.name, args)
    apart = {name: value for name, value in args.items() if name in unjudged}
    own = {name: value for name, value in args.items() if name not in apart}
    schema = schema_of(tool)
    required = [required_name for required_name in schema.get("required", ()) if required_name not in apart]
    checked = validate_arguments(tool.name, own, {**schema, "required": required} if apart else schema)
    return copied_values(checked), apart


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
    parameters_schema: Mapping[str, Any] = parameters.json_schema.model_dump(
        mode="json", exclude_none=True, by_alias=True
    )
    return parameters_schema


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
    named = {name: parameter.default for name, parameter in parameters.items() if parameter.kind not in _VARIADIC}
    takes_any = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values())
    return FunctionShape(
        None if takes_any else frozenset(parameters),
        tuple(name for name, default in named.items() if default is inspect.Parameter.empty),
        {
            name: default
            for name, default in named.items()
            if default is not inspect.Parameter.empty and _is_plain(default)
        },
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
_BEGUN = "this call has begun already, and its outcome is unknown; propose it again if it is still needed"


_TRANSFERRED = (
    "this call needs human approval, which ADK cannot request beside a transfer to another agent in the same message; "
    "propose it by itself"
)


async def refuse_unasked(guard: EnforcementPoint, run: runs.AdkRun, event: Any) -> None:
    """Denies the calls of an event that wait for a reviewer if it hands over: the host then asks nobody."""
    if not event.actions.transfer_to_agent:
        return
    for response in event.get_function_responses():
        if (call := run.asking.pop(response.id, None)) is not None:
            response.response = {"error": (await guard.arefuse(call, _TRANSFERRED)).feedback()}
            event.actions.requested_tool_confirmations.pop(response.id, None)


class AwaitedApprovalError(Exception):
    """The call waits for a reviewer: the host shows the request, and runs the tool again after the answer."""


class AdkInvocation(ToolInvocation[runs.AdkScope]):
    """One call of a tool.

    Args:
        adapter: has the guard.
        tool: the tool.
        context: the host's context of the call.
        args: the arguments: of a function, after the host's conversion.
        of_function: whether they are those of the tool's function, which runs here.
    """

    pausing = (NodeInterruptedError,)
    around: runs.AdkScope

    def __init__(
        self,
        adapter: runs.AdkAdapter,
        tool: Any,
        context: Any,
        args: Mapping[str, Any] = EMPTY,
        *,
        of_function: bool = False,
    ) -> None:
        run, is_handoff = adapter.run_of(context), isinstance(tool, TransferToAgentTool)
        name = HANDOFF if is_handoff else str(tool.name)
        super().__init__(adapter, name, runs.AdkScope(run.conversation, run, adapter=adapter))
        self.target = "agent_name" if is_handoff else None
        self._tool, self._context, self._args, self._of_function = tool, context, args, of_function
        self._notes = adapter.notes(run)
        self._begun_key: Any = None
        self._streams = False

    async def answered(self, work: Callable[[dict[str, Any]], Awaitable[Any]]) -> Any:
        """Judges the call, and runs it with the judged arguments. Returns the tool's output, or its error.

        Raises:
            RunnerHalted: a rule halts the run.
        """
        try:
            call, args = await adrive(self.allowed())
        except BaseException as error:
            if self._begun_key is not None:
                self._notes["begun"].discard(self._begun_key)
            if isinstance(error, AwaitedApprovalError):
                return dict(PENDING)
            if isinstance(error, ToolDenied):
                return self._error(error)
            raise

        async def finished() -> Any:
            return runs.require_finished(self.name, await work(args))

        output = await adrive(self.run(call, awaited(finished)))
        return self.stream(call, output) if self._streams else output

    async def refused(self, problem: str) -> dict[str, Any]:
        """Denies the call, which cannot be judged. Returns the denial as the tool's error."""
        return self._error(await adrive(self.refusal(problem)))

    def _error(self, denied: ToolDenied) -> dict[str, Any]:
        """Returns a denial as the tool's error, which the model reads.

        Raises:
            RunnerHalted: a rule halts the run.
        """
        if self.around.run.halted is not None:
            raise self.around.run.halted from None
        return {"error": denied.verdict.feedback()}

    # --- how the calls look

    def bind(self) -> Bound:
        return self._bound(self._args)

    def rebind(self, edited: Mapping[str, Any]) -> dict[str, Any]:
        args = dict(edited)
        return self._bound(self._tool._preprocess_args(args) if self._of_function else args)[0]  # noqa: SLF001 - the host's conversion

    def _bound(self, args: Mapping[str, Any]) -> Bound:
        bind = bind_function if self._of_function else bind_schema
        return bind(self._tool, args, self.around.adapter.unjudged(self._tool))

    def options(self) -> dict[str, Any]:
        context, run, adapter = self._context, self.around.run, self.around.adapter
        event = runs.calling_event(context.session, context.function_call_id)
        options: dict[str, Any] = {"agent": context.agent_name}
        if event is not None:
            options["step"] = event.id
        if context.function_call_id:
            options["id"] = context.function_call_id
        if not run.nested:
            run.shown.update(context.session.events, self._notes.get("proposed", set()), adapter.unguarded)
            options |= {"messages": run.shown.messages, "seen": run.shown.seen}
        return options

    def judge(self, call: HostCall) -> Procedure[JudgedCall]:
        """Judges a call, with a reviewer's answer if there is one. If a rule escalates it, the host asks.

        Raises:
            AwaitedApprovalError: the host has been told to ask.
        """
        key, begun = self.key(call), self._notes.setdefault("begun", set())
        if call.step is not None and key in begun:
            return (yield from self.guard.lifecycle.refuse(self.call({}), _BEGUN)), call
        begun.add(key)
        self._begun_key = key
        life, context, asks = self.guard.lifecycle, self._context, self.guard.approver is None
        approval = approval_of(context) if asks and call.conversation else None
        if approval is None:
            verdict, call = yield from life.judge(call)
        else:
            approval = approval.validated(call.validate_edit)
            verdict = yield from life.resolve(call, approval)
            call = with_edits(call, approval)
        if verdict.decision is not Decision.ESCALATE or not asks:
            return verdict, call
        live = context.get_invocation_context().live_request_queue is not None
        if self.around.run.nested or call.step is None or live:
            return explained(verdict, _NOT_HERE), call
        if context.tool_confirmation is not None:
            return explained(verdict, _TWICE), call
        request = life.request(call, verdict)
        context.request_confirmation(hint=request.text(), payload=request.to_dict())
        context.actions.skip_summarization = True
        self.around.run.asking[context.function_call_id] = call
        raise AwaitedApprovalError

    def outcome(self, output: Any) -> Outcome | None:
        if self._streams:
            return Outcome()
        self._streams = inspect.isasyncgen(output)
        return None if self._streams else runs.outcome_of(output)

    def tell(self, output: Any, line: str) -> Any:
        if self._streams:
            return output
        return (
            {**output, "reviewer": line} if isinstance(output, Mapping) else super().tell(plain_or_text(output), line)
        )

    def failure(self, error: BaseException) -> Outcome:
        """Returns the outcome: a tool that runs elsewhere may have done its work before its connection broke."""
        lost = isinstance(error, Exception) and not (self._of_function or self._streams)
        return Outcome(error_text(error), failed=None) if lost else Outcome.of_error(error)

    # --- calls in which an agent waits for a person

    def resumed(self, call: HostCall) -> HostCall | None:
        return super().resumed(call) if "paused" in self._notes else None

    def key(self, call: HostCall) -> Any:
        return call.step, call.id, call.tool
