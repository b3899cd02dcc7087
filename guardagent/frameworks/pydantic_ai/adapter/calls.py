"""Judges and runs the calls of an agent's tools, with the arguments that the host's validation leaves."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, get_origin

from pydantic_ai import ApprovalRequired, RunContext, ToolFailed, ToolReturn

from guardagent._support.execution import Operation, Procedure, adrive
from guardagent.enforcement import HostCall, Outcome, ToolSpec
from guardagent.enforcement.calls import plain_arguments
from guardagent.enforcement.host_adapter import HostAdapter, ToolInvocation, explained, note_run, plain_or_text
from guardagent.enforcement.host_runs import awaited
from guardagent.enforcement.lifecycle import JudgedCall
from guardagent.enforcement.schema import validate_arguments
from guardagent.enforcement.tool_arguments import copied_values, refuse_opaque, same_arguments
from guardagent.errors import InputError, ToolDenied
from guardagent.frameworks.pydantic_ai.adapter import runs
from guardagent.frameworks.pydantic_ai.adapter.approvals import ENDS, OUTPUT, WAITS, answered, as_shown, ask_host
from guardagent.types import Decision, thaw

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
        refuse_opaque(name, {parameter.name: parameter.annotation for parameter in parameters})
        defaults = {
            parameter.name: parameter.default for parameter in parameters if parameter.default is not parameter.empty
        }
        generic = function is None or any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
        beyond = None if generic else frozenset(parameter.name for parameter in parameters)
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
        named = {**{name: default for name, default in self.defaults.items() if name not in named}, **named}
        return copied_values(named)

    def rebind(self, shown: Mapping[str, Any]) -> dict[str, Any]:
        """Binds arguments that a reviewer has edited, in the form that rules read.

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


def schema_of(tool: Any) -> Any:
    """Returns the host's description of a tool's function; None for a tool that it did not make of a function."""
    schema = getattr(getattr(tool, "call_func", None), "__self__", None)
    return schema if hasattr(schema, "function") else None


def parameters_of(function: Any) -> list[inspect.Parameter]:
    """Returns the parameters of a function that the model fills in."""
    try:
        parameters = list(inspect.signature(function, eval_str=True).parameters.values())
    except Exception:  # noqa: BLE001 - an annotation may refer to a name that does not exist at run time
        try:
            parameters = list(inspect.signature(function).parameters.values())
        except (TypeError, ValueError):
            return []
    return [parameter for parameter in parameters if not _is_context(parameter.annotation)]


def _is_context(annotation: Any) -> bool:
    named = annotation.partition("[")[0].rpartition(".")[2] if isinstance(annotation, str) else None
    return annotation is RunContext or get_origin(annotation) is RunContext or named == "RunContext"


def _unvalidated(validator: Any, function: Any) -> bool:
    """Whether a validator takes anything: then the tool's JSON schema is applied strictly."""
    probes = (object(),) if function is not None else (object(), {"guardagent": object()})
    return any(_takes(validator, probe) for probe in probes)


def _takes(validator: Any, value: Any) -> bool:
    try:
        return bool(validator.validate_python(value) == value)
    except Exception:  # noqa: BLE001 - a validator of the host's or the program's
        return False


# --- calls

_NEEDS_APPROVAL = "its tool requires approval, and has not run"


class PydanticInvocation(ToolInvocation[runs.PydanticScope]):
    """One call of a tool, or of an output function, which cannot wait for a reviewer.

    Args:
        adapter: has the guard.
        run: the run.
        arguments: reads the arguments.
        args: those after the host's validation.
        ctx: the host's context of the call.
        tool: the tool; None for an output function.
    """

    def __init__(
        self,
        adapter: HostAdapter[runs.PydanticScope],
        run: runs.PydanticRun,
        arguments: PydanticArguments,
        args: Mapping[str, Any],
        ctx: Any,
        tool: Any = None,
    ) -> None:
        run.read(ctx)
        super().__init__(adapter, arguments.spec.name, run.around(ctx.tool_call_id or None))
        self._run, self._arguments, self._args, self._ctx, self._tool = run, arguments, args, ctx, tool

    def bind(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return self._arguments.bind(self._args), {}

    def rebind(self, edited: Mapping[str, Any]) -> dict[str, Any]:
        return self._arguments.rebind(edited)

    def options(self) -> dict[str, Any]:
        run, proposed = self._run, self.adapter.proposed(self.around)
        if run.call is None and run.step == 0:  # continued with answers of reviewers, without a message of the model
            run.show(self._ctx.messages, proposed)
        proposed.add(self.around.tool_id or "")
        note_run(self.guard, self.around.conversation, self._ctx.usage, self._ctx.usage.total_tokens)
        return {**super().options(), "agent": getattr(self._ctx.agent, "name", None)}

    def inside(self, call: HostCall) -> runs.PydanticScope:
        return runs.PydanticScope(call.conversation, self._run, call, permission=runs.Permission(call.tool, call.args))

    def tell(self, output: Any, line: str) -> Any:
        if self._tool is None:
            return output  # the run ends with it
        if isinstance(output, ToolReturn):
            return replace(output, return_value=super().tell(output.return_value, line))
        return super().tell(plain_or_text(output), line)

    def outcome(self, output: Any) -> Outcome:
        return runs.outcome_of(output)

    def failure(self, error: BaseException) -> Outcome | None:
        return None if isinstance(error, ApprovalRequired) else runs.failure_of(error)

    def run(self, call: HostCall, work: Operation) -> Procedure[Any]:
        async def finish() -> Any:
            return runs.finished_output(self.name, await work.async_call())

        life = self.guard.lifecycle
        try:
            return (yield from super().run(call, awaited(finish)))
        except ApprovalRequired:  # the tool itself asks a person: it has not run
            yield from life.withdraw(call, _NEEDS_APPROVAL, used=True)
            yield from life.record_host_request(as_shown(call))
            raise

    # --- approval

    def judge(self, call: HostCall) -> Procedure[JudgedCall]:
        """Judges a call. If a rule escalates it and the guard has no approver, the host asks a reviewer."""
        approval, output = self.adapter.approval, self._tool is None
        ends = self._run.ends(self._ctx.messages)
        waits = self._run.waits and not (output or ends) and bool(call.conversation)
        if waits and self._ctx.tool_call_approved:
            original = self._original(call)
            verdict, call = yield from answered(self.guard, call, original, self._ctx.tool_call_metadata)
            self.note_edit(original, call)
            return verdict, call
        if waits and approval.may_be_needed:
            yield from ask_host(self.guard, call)
        verdict, call = yield from self.guard.lifecycle.judge(call)
        why = OUTPUT if output else ENDS if ends else WAITS
        if verdict.decision is Decision.ESCALATE and waits and approval.may_be_needed:
            previewed = yield from ask_host(self.guard, call)  # only since another call is in flight
            why = "; ".join(previewed.errors) or why  # such as an approval of this id that was used
        return explained(verdict, why), call

    def ask_first(self) -> Procedure[None]:
        """Judges a call whose tool requires approval, before the host asks a reviewer.

        Raises:
            ToolDenied: the call is denied.
            ApprovalRequired: the run ends, and waits for a reviewer.
        """
        life = self.guard.lifecycle
        if self._run.ends(self._ctx.messages):
            raise (yield from self.refusal(ENDS))
        try:
            self.own, _ = self.bind()
            call = self.call(self.plain(), self._validated)
            verdict = yield from ask_host(self.guard, call, by_host=True)
        except InputError as error:
            raise (yield from self.refusal(str(error))) from None
        if verdict.label:
            verdict, _ = yield from life.judge(call)  # again, so that it is recorded
        if verdict.label:
            raise self.noted(ToolDenied(call.tool, verdict))
        yield from life.withdraw(call, _NEEDS_APPROVAL)

    def _original(self, call: HostCall) -> HostCall:
        """Returns an approved call as the model proposed it, before the reviewer's edits."""
        part = runs.proposal(self._ctx.messages, call.id)
        if part is None:
            return call
        validator, options = self._tool.args_validator, {"context": self._ctx.validation_context}
        try:
            if isinstance(part.args, str):
                raw = validator.validate_json(part.args or "{}", **options)
            else:
                raw = validator.validate_python(part.args or {}, **options)
            return replace(call, args=plain_arguments(self._arguments.bind(raw)))
        except Exception:  # noqa: BLE001 - a stored call that fits no more; then the call itself needs a request
            return call


async def drive_call(run: runs.PydanticRun, steps: Procedure[Any]) -> Any:
    """Runs the steps of a call. Of a denial, the model reads why.

    Raises:
        ToolFailed: the call is denied.
        AgentRunHalted: a rule has halted the run.
        ApprovalRequired: the run ends, and waits for a reviewer.
    """
    try:
        return await adrive(steps)
    except ToolDenied as denied:
        run.note(denied.tool, denied.verdict)
        if run.halted is not None:
            raise run.halted from None
        raise ToolFailed(str(denied)) from None


def may_pass(name: str, args: Mapping[str, Any]) -> bool:
    """Uses the permission of the call around, if it is for this tool and for these arguments."""
    around = runs.scope()
    held = around.permission if around is not None else None
    if held is None or held.used or held.tool != name:
        return False
    try:
        held.used = same_arguments(plain_arguments(args), held.args)
    except InputError:
        return False
    return held.used
