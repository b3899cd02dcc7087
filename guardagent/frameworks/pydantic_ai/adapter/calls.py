"""Judges and runs the calls of an agent's tools, with the arguments that the host's validation leaves."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, get_origin

from pydantic_ai import ApprovalRequired, RunContext, ToolFailed

from guardagent._support.execution import Procedure, adrive
from guardagent.enforcement import EnforcementPoint, HostCall, Outcome, ToolSpec
from guardagent.enforcement.calls import plain_arguments
from guardagent.enforcement.host_adapter import HostApproval, explained_denial
from guardagent.enforcement.host_runs import awaited
from guardagent.enforcement.lifecycle import JudgedCall
from guardagent.enforcement.schema import validate_arguments
from guardagent.enforcement.tool_arguments import copied_values, refuse_opaque, same_arguments
from guardagent.errors import InputError, ToolDenied
from guardagent.frameworks.pydantic_ai.adapter.approvals import (
    answered,
    answered_call,
    as_shown,
    ask_host,
    explained,
    shown_calls,
)
from guardagent.frameworks.pydantic_ai.adapter.runs import (
    SURROUNDINGS,
    UNNAMED,
    Permission,
    PydanticRun,
    PydanticScope,
    chat,
    failure_of,
    finished_output,
    outcome_of,
    proposal,
    result_ids,
    scope,
)
from guardagent.types import Decision, thaw, unchecked_verdict

# --- arguments


@dataclass(frozen=True, slots=True)
class PydanticArguments:
    """Reads the arguments of a tool.

    Attributes:
        spec: the tool's declaration.
        schema: the JSON schema, if the host does not validate by it.
        defaults: the defaults of the tool's function.
        validator: the host's.
        single: the name of the only parameter, if the model writes the fields of its value as arguments.
    """

    spec: ToolSpec
    schema: Mapping[str, Any] | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)
    validator: Any = None
    single: str | None = None

    @classmethod
    def of(cls, name: str, tool: Any) -> PydanticArguments:
        """Reads the declaration of a tool, as its toolset lists it.

        Raises:
            InputError: an argument has a type that no rule can read.
        """
        definition, made_of = tool.tool_def, schema_of(tool)
        schema, described = definition.parameters_json_schema, definition.description
        return cls.declared(name, schema, described, tool.args_validator, made_of)

    @classmethod
    def declared(
        cls, name: str, schema: Mapping[str, Any], description: str | None, validator: Any, made_of: Any
    ) -> PydanticArguments:
        """Reads the declaration of a tool.

        Args:
            name: as the model knows it.
            schema: the JSON schema of its arguments.
            description: for the model.
            validator: the host's.
            made_of: the host's description of its function; None for other tools.

        Raises:
            InputError: an argument has a type that no rule can read.
        """
        function = getattr(made_of, "function", None)
        single = getattr(made_of, "single_arg_name", None)
        parameters = [] if function is None else parameters_of(function)
        refuse_opaque(name, {one.name: one.annotation for one in parameters})
        defaults = {one.name: one.default for one in parameters if one.default is not one.empty}
        generic = function is None or any(one.kind is one.VAR_KEYWORD for one in parameters)
        beyond = None if generic else frozenset(one.name for one in parameters)
        shown = schema if single is None else {"type": "object", "properties": {single: schema}}
        spec = ToolSpec(name, shown, description or "", unlisted_arguments=beyond)
        strict = schema if _unvalidated(validator, function) else None
        return cls(spec, strict, defaults, validator, single)

    def bind(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Returns copies of the arguments that the tool will get, with defaults.

        Args:
            args: after the host's validation.

        Raises:
            InputError: they do not fit the tool, or one cannot be judged.
        """
        named = dict(args) if self.schema is None else validate_arguments(self.spec.name, args, self.schema)
        named = {**{name: one for name, one in self.defaults.items() if name not in named}, **named}
        return copied_values(named)

    def rebind(self, shown: Mapping[str, Any]) -> dict[str, Any]:
        """As `bind`, of arguments as rules read them, which a reviewer has edited.

        Raises:
            InputError: they do not fit the tool.
        """
        raw: Any = thaw(shown)
        if self.single is not None:
            raw = raw.get(self.single) if set(raw) == {self.single} else raw
        try:
            return self.bind(raw if self.validator is None else self.validator.validate_python(raw))
        except ValueError as error:
            raise InputError(f"the edited arguments of {self.spec.name!r} do not fit: {error}") from None

    def live(self, args: Mapping[str, Any], own: dict[str, Any]) -> dict[str, Any]:
        """Returns the arguments that run: the judged copies, or a reviewer's edits.

        Raises:
            InputError: the tool would read the edits in another way than they were judged.
        """
        if same_arguments(plain_arguments(own), args):
            return own
        edited = self.rebind(args)
        if not same_arguments(plain_arguments(edited), args):
            raise InputError(f"the edited arguments of {self.spec.name!r} have no unique form")
        return edited


def schema_of(tool: Any) -> Any:
    """Returns the host's description of a tool's function; None for a tool that it did not make of a function."""
    schema = getattr(getattr(tool, "call_func", None), "__self__", None)
    return schema if hasattr(schema, "function") else None


def parameters_of(function: Any) -> list[inspect.Parameter]:
    """Returns the parameters of a function that the model fills in."""
    try:
        parameters = list(inspect.signature(function, eval_str=True).parameters.values())
    except Exception:  # noqa: BLE001 - an annotation may name what is not there at run time
        try:
            parameters = list(inspect.signature(function).parameters.values())
        except (TypeError, ValueError):
            return []
    return [one for one in parameters if not _is_context(one.annotation)]


def _is_context(annotation: Any) -> bool:
    named = annotation.partition("[")[0].rpartition(".")[2] if isinstance(annotation, str) else None
    return annotation is RunContext or get_origin(annotation) is RunContext or named == "RunContext"


def _unvalidated(validator: Any, function: Any) -> bool:
    """Whether a validator takes anything: then the tool's JSON schema is applied strictly."""
    probes = (object(),) if function is not None else (object(), {"guardagent": object()})
    return any(_takes(validator, one) for one in probes)


def _takes(validator: Any, value: Any) -> bool:
    try:
        return bool(validator.validate_python(value) == value)
    except Exception:  # noqa: BLE001 - a validator of the host's or the program's
        return False


# --- calls

Work = Callable[[dict[str, Any]], Awaitable[Any]]
_NEEDS_APPROVAL = "its tool requires approval, and has not run"


class PydanticCalls:
    """Judges and runs calls.

    Args:
        guard: decides.
    """

    def __init__(self, guard: EnforcementPoint) -> None:
        self.guard = guard
        self._host_approval = HostApproval(guard)

    async def invoke(
        self, run: PydanticRun | None, arguments: PydanticArguments, args: Any, ctx: Any, tool: Any, work: Work
    ) -> Any:
        """Judges a call, and runs it with the judged arguments.

        Raises:
            ToolFailed: the call is denied; the model reads why.
            AgentRunHalted: a rule has halted the run.
            ApprovalRequired: the run ends, and waits for a reviewer.
        """
        run = run or PydanticRun()
        run.read(ctx)
        try:
            return await adrive(self._steps(run, arguments, args, ctx, tool, work))
        except ToolDenied as denied:
            run.note(denied.tool, denied.verdict)
            if run.halted is not None:
                raise run.halted from None
            raise ToolFailed(str(explained_denial(denied, run.conversation, UNNAMED))) from None

    async def ask_first(self, run: PydanticRun, arguments: PydanticArguments, args: Any, ctx: Any) -> None:
        """Judges a call whose tool requires approval, before the host asks a reviewer.

        Raises:
            ToolFailed, AgentRunHalted, ApprovalRequired: as of `invoke`.
        """
        run.read(ctx)
        try:
            call = self._call(run, arguments, plain_arguments(arguments.bind(args)), ctx)
            verdict = await adrive(ask_host(self.guard, call, by_host=True))
            if verdict.label:
                verdict = await self.guard.abefore(call)  # again, so that it is recorded
        except InputError as error:
            call = self._call(run, arguments, {}, ctx)
            verdict = await self.guard.arefuse(call, str(error))
        if verdict.label:
            run.note(call.tool, verdict)
            if run.halted is not None:
                raise run.halted
            raise ToolFailed(str(explained_denial(ToolDenied(call.tool, verdict), run.conversation, UNNAMED)))
        await self.guard.awithdraw(call, _NEEDS_APPROVAL)

    async def invoke_output(
        self, run: PydanticRun, arguments: PydanticArguments, args: Mapping[str, Any], ctx: Any, work: Work
    ) -> Any:
        """As `invoke`, for an output function, which cannot wait for a reviewer.

        Raises:
            ToolDenied: the call is denied.
        """
        run.read(ctx)
        try:
            return await adrive(self._steps(run, arguments, args, ctx, None, work))
        except ToolDenied as denied:
            run.note(denied.tool, denied.verdict)
            if run.halted is not None:
                raise run.halted from None
            raise

    async def reject(self, run: PydanticRun) -> None:
        """Records the reviewers' rejections, so that no later answer approves these calls."""
        for call_id, metadata in run.rejected.items() if run.conversation else ():
            shown = shown_calls(self.guard, str(run.conversation))
            call = answered_call(str(run.conversation), call_id, metadata, shown)
            if call is not None:
                await self.guard.aresolve(call, "reject")

    def may_pass(self, name: str, args: Any) -> bool:
        """Uses the permission of the call around, if it is for this tool and for these arguments."""
        around = scope()
        held = around.permission if around is not None else None
        if held is None or held.used or held.tool != name:
            return False
        try:
            held.used = same_arguments(plain_arguments(args), held.args)
        except InputError:
            return False
        return held.used

    # --- the life of a call

    def _steps(
        self, run: PydanticRun, arguments: PydanticArguments, args: Any, ctx: Any, tool: Any, work: Work
    ) -> Procedure[Any]:
        name, life = arguments.spec.name, self.guard.lifecycle
        try:
            own = arguments.bind(args)
            call = self._call(run, arguments, plain_arguments(own), ctx)
        except InputError as error:
            verdict = yield from life.refuse(self._call(run, arguments, {}, ctx), str(error))
            raise ToolDenied(name, verdict) from None
        call, allowed = yield from life.authorize(call, self._judge(call, run, arguments, ctx, tool))
        try:
            live = arguments.live(allowed, own)
        except InputError as error:
            yield from life.withdraw(call, str(error), used=True)
            raise ToolDenied(name, unchecked_verdict(str(error), checked_by="policy")) from None
        inside = PydanticScope(call.conversation, run, call, permission=Permission(name, call.args))

        async def finish() -> Any:
            return finished_output(name, await work(live))

        running = SURROUNDINGS.within(inside, awaited(finish))

        def failure(error: BaseException) -> Outcome | None:
            return None if isinstance(error, ApprovalRequired) else failure_of(error)

        try:
            return (yield from life.execute(call, running, outcome_of, failure))
        except ApprovalRequired:  # the tool itself asks a person: it has not run
            yield from life.withdraw(call, _NEEDS_APPROVAL, used=True)
            yield from life.record_host_request(as_shown(call))
            raise

    def _judge(
        self, call: HostCall, run: PydanticRun, arguments: PydanticArguments, ctx: Any, tool: Any
    ) -> Procedure[JudgedCall]:
        """Judges a call. If a rule escalates it and the guard has no approver, the host asks a reviewer."""
        waits = run.waits and tool is not None and bool(call.conversation)
        if waits and ctx.tool_call_approved:
            original = self._original(call, arguments, ctx, tool)
            return (yield from answered(self.guard, call, original, ctx.tool_call_metadata))
        if waits and self._host_approval.may_be_needed:
            yield from ask_host(self.guard, call)
        verdict, call = yield from self.guard.lifecycle.judge(call)
        if verdict.decision is Decision.ESCALATE and waits and self._host_approval.may_be_needed:
            yield from ask_host(self.guard, call)  # only since another call is in flight
        return explained(verdict, output=tool is None), call

    def _original(self, call: HostCall, arguments: PydanticArguments, ctx: Any, tool: Any) -> HostCall:
        """Returns an approved call as the model proposed it, before the reviewer's edits."""
        part = proposal(ctx.messages, call.id)
        if part is None:
            return call
        validator, options = tool.args_validator, {"context": ctx.validation_context}
        try:
            if isinstance(part.args, str):
                raw = validator.validate_json(part.args or "{}", **options)
            else:
                raw = validator.validate_python(part.args or {}, **options)
            return replace(call, args=plain_arguments(arguments.bind(raw)))
        except Exception:  # noqa: BLE001 - a stored call that fits no more; then the call itself needs a request
            return call

    def _call(self, run: PydanticRun, arguments: PydanticArguments, args: Mapping[str, Any], ctx: Any) -> HostCall:
        options: dict[str, Any] = {"agent": getattr(ctx.agent, "name", None)}
        if ctx.tool_call_id:
            options["id"] = ctx.tool_call_id
        if (
            run.call is None and run.step == 0
        ):  # continued with the answers of reviewers, without a message of the model
            run.messages = chat(ctx.messages)
            run.seen = [one for one in result_ids(ctx.messages) if one not in run.proposed(self.guard)]
        options |= run.call_options(nested=run.call is not None)
        run.proposed(self.guard).add(options.get("id", ""))

        def validate(edited: Mapping[str, Any]) -> Mapping[str, Any]:
            return plain_arguments(arguments.rebind(edited))

        return HostCall(arguments.spec.name, args, run.conversation, validate_edit=validate, **options)
