"""Judges and runs the calls of an agent's tools, with the arguments that the host's validation leaves.

The hand-offs of a Swarm are judged as the event `handoff(to=..., message=..., context=...)`.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from strands.agent._agent_as_tool import _AgentAsTool
from strands.interrupt import InterruptException
from strands.multiagent import swarm
from strands.tools.decorator import DecoratedFunctionTool
from strands.types._events import ToolInterruptEvent, ToolResultEvent

from guardagent._support.arguments import ambiguous_names
from guardagent._support.execution import Procedure, adrive, drive
from guardagent._support.requirements import require_parts
from guardagent.enforcement import EnforcementPoint, HostCall, Outcome, ToolSpec
from guardagent.enforcement.calls import plain_arguments, plain_value
from guardagent.enforcement.enforcement_point import JudgedCall
from guardagent.enforcement.host_adapter import HostApproval, noted_denial, paused_calls
from guardagent.enforcement.schema import validate_arguments
from guardagent.enforcement.tool_arguments import copied_values, refuse_opaque, same_arguments
from guardagent.errors import InputError, ToolDenied, error_text
from guardagent.frameworks.strands.adapter.approvals import ask_host, explained, is_resumed
from guardagent.frameworks.strands.adapter.runs import RETURNED, UNNAMED, StrandsScope, outcome_of, scope, within
from guardagent.types import unchecked_verdict

# --- arguments


@dataclass(frozen=True, slots=True)
class StrandsArguments:
    """Reads the arguments of a tool, and gives them to it.

    Attributes:
        tool: the tool itself.
        declared: its declaration in the host's form.
        spec: its declaration.
        function: whether it is a function of this process, whose arguments the host validates.
    """

    tool: Any
    declared: Any
    spec: ToolSpec
    function: bool

    @classmethod
    def of(cls, tool: Any) -> StrandsArguments:
        """Reads the declaration of a tool.

        Raises:
            InputError: it has an argument of a type that no rule can read.
        """
        declared = tool.tool_spec
        schema = declared.get("inputSchema") or {}
        spec = ToolSpec(tool.tool_name, schema.get("json", schema), declared.get("description") or "")
        if not (isinstance(tool, DecoratedFunctionTool) and type(tool).stream is DecoratedFunctionTool.stream):
            return cls(tool, declared, spec, function=False)
        require_parts(tool, "_metadata", "_tool_func", "_wrap_tool_result")
        require_parts(tool._metadata, "validate_input", "input_model", "inject_special_parameters")  # noqa: SLF001 - the host's validation has no public name
        fields = tool._metadata.input_model.model_fields  # noqa: SLF001 - as above
        refuse_opaque(spec.name, {name: one.annotation for name, one in fields.items()})
        return cls(tool, declared, replace(spec, unlisted_arguments=frozenset(fields)), function=True)

    def bind(self, proposed: Any) -> dict[str, Any]:
        """Returns copies of the arguments that the tool will get, with defaults.

        Raises:
            InputError: they do not fit the tool, or one cannot be judged.
        """
        if not isinstance(proposed, Mapping):
            kind = type(proposed).__name__
            raise InputError(f"the arguments of {self.spec.name!r} are a {kind}; expected an object")
        if (found := ambiguous_names(proposed)) is not None:  # the host's validation may drop one of them
            raise InputError(f"the arguments of {self.spec.name!r} have {found}; expected only one of them")
        named = self._validated(dict(proposed)) if self.function else self._checked(proposed)
        return copied_values(named)

    def received(self, judged: Mapping[str, Any], own: dict[str, Any]) -> dict[str, Any]:
        """Returns the arguments that run: the judged copies, or those that a reviewer's edit leads to.

        Raises:
            InputError: the tool would get other arguments than the edited ones.
        """
        if same_arguments(plain_arguments(own), judged):
            return own
        edited = self.bind(judged)
        if not same_arguments(plain_arguments(edited), judged):
            raise InputError(f"{self.spec.name!r} would get other arguments than the judged ones")
        return edited

    def tool_with(self, named: Mapping[str, Any]) -> Any:
        """Returns the tool, so that it runs with these arguments, whatever its validation would make of them."""
        if not self.function:
            return self.tool
        created = copy.copy(self.tool)
        created._metadata = _JudgedMetadata(self.tool._metadata, named)  # noqa: SLF001 - the host's seam
        created._wrap_tool_result = self._wrap  # noqa: SLF001 - as above
        return created

    def _wrap(self, tool_use_id: str, result: Any, exception: Exception | None = None) -> Any:
        event = self.tool._wrap_tool_result(tool_use_id, result, exception=exception)  # noqa: SLF001 - as above
        setattr(event, RETURNED, result)
        return event

    def _validated(self, proposed: dict[str, Any]) -> dict[str, Any]:
        metadata = self.tool._metadata  # noqa: SLF001 - as above
        fields = metadata.input_model.model_fields
        if odd := [name for name in proposed if name not in fields]:
            expected = ", ".join(sorted(fields)) or "none"
            raise InputError(f"{self.spec.name!r} has no argument {str(odd[0])[:80]!r}; expected {expected}")
        try:
            return dict(metadata.validate_input(proposed))
        except ValueError as error:
            raise InputError(f"the arguments of {self.spec.name!r} do not fit: {error_text(error)}") from None

    def _checked(self, proposed: Mapping[str, Any]) -> dict[str, Any]:
        plain = {str(name): plain_value(value, str(name)) for name, value in proposed.items()}
        return validate_arguments(self.spec.name, plain, self.spec.schema)


class _JudgedMetadata:
    """The metadata of a tool whose arguments are validated already."""

    def __init__(self, metadata: Any, named: Mapping[str, Any]) -> None:
        self._metadata, self._named = metadata, named

    def __getattr__(self, name: str) -> Any:
        return getattr(self._metadata, name)

    def validate_input(self, _: Any) -> dict[str, Any]:
        return dict(self._named)


# --- hand-offs


def is_handoff(tool: Any) -> bool:
    """Whether a Swarm has given this tool to its agents."""
    function = getattr(tool, "_tool_func", None) if isinstance(tool, DecoratedFunctionTool) else None
    return bool(getattr(function, "__module__", None) == swarm.__name__ and tool.tool_name == "handoff_to_agent")


def as_judged(tool: Any, args: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the arguments as rules know them: the target of a hand-off is `to`."""
    if not is_handoff(tool):
        return args
    return {"to" if name == "agent_name" else name: value for name, value in args.items()}


def as_received(tool: Any, args: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the arguments as the tool knows them."""
    if not is_handoff(tool):
        return args
    return {"agent_name" if name == "to" else name: value for name, value in args.items()}


# --- calls

HANDOFF = "handoff"
_HOSTS = frozenset({"agent", "model", "messages", "system_prompt", "tool_config"})  # what the host itself puts there


class StrandsCalls:
    """Judges and runs calls.

    Args:
        guard: decides.
        arguments_of: reads the arguments of a tool of this agent.
        surroundings_of: returns the surroundings of a call of this agent outside of its runs.
    """

    def __init__(
        self,
        guard: EnforcementPoint,
        arguments_of: Callable[[Any, Any], StrandsArguments],
        surroundings_of: Callable[[Any], StrandsScope],
    ) -> None:
        self.guard, self._arguments_of, self._surroundings_of = guard, arguments_of, surroundings_of
        self._host_approval = HostApproval(guard)

    async def stream(
        self, context: Any, tool: Any, tool_use: Any, state: dict[str, Any], options: dict[str, Any]
    ) -> AsyncIterator[Any]:
        """Yields the events of a judged call; those of a denied one are the host's own tool error."""
        around = scope()
        if around is None or (around.run is None and around.call is None):
            around = self._surroundings_of(context.agent)  # a direct call
        try:
            call, arguments, own = await self._allowed(context, tool, tool_use, around, options)
        except ToolDenied as denied:
            yield self._denied(denied, around, tool_use)
            return
        delegated = isinstance(tool, _AgentAsTool) and tool.delegate
        inside = StrandsScope(call.conversation, around.run, call, delegated=delegated)
        events = within(inside, _run(arguments, own, tool_use, state, options))
        async with aclosing(self._recorded(call, events)) as recorded:
            async for event in recorded:
                yield event

    async def _allowed(
        self, context: Any, tool: Any, tool_use: Any, around: StrandsScope, options: dict[str, Any]
    ) -> tuple[HostCall, StrandsArguments, dict[str, Any]]:
        """Judges a call. Returns it as it may run, and the arguments for its tool.

        Raises:
            ToolDenied: it may not run.
            InterruptException: it waits for an answer.
        """
        name = HANDOFF if is_handoff(tool) else str(tool.tool_name)
        try:
            arguments = self._arguments_of(context.agent, tool)
            own = arguments.bind(tool_use.get("input"))
            validate = _validation(arguments, tool)
            call = self._call(name, as_judged(tool, plain_arguments(own)), around, context, validate)
        except Exception as error:  # noqa: BLE001 - whatever the host's validation raises
            call = self._call(name, {}, around, context)
            verdict = await adrive(self.guard.lifecycle.refuse(call, error_text(error)))
            raise ToolDenied(name, verdict) from None
        started = paused_calls(self.guard, call.conversation).pop((name, call.id), None)
        if started is not None and started.args == call.args and is_resumed(context, options):
            return started, arguments, own
        call, judged = await adrive(self.guard.lifecycle.authorize(call, self._judge(call, context, options)))
        return call, arguments, await self._received(arguments, tool, call, judged, own)

    async def _received(
        self, arguments: StrandsArguments, tool: Any, call: HostCall, judged: Mapping[str, Any], own: dict[str, Any]
    ) -> dict[str, Any]:
        """Returns the arguments that the tool gets.

        Raises:
            ToolDenied: they would not be the judged ones.
        """
        try:
            return arguments.received(as_received(tool, judged), own)
        except InputError as error:
            await adrive(self.guard.lifecycle.withdraw(call, error_text(error), used=True))
            raise ToolDenied(call.tool, unchecked_verdict(error_text(error), checked_by="policy")) from None

    async def _recorded(self, call: HostCall, events: AsyncGenerator[Any, None]) -> AsyncGenerator[Any, None]:
        """Yields the events of a running tool. Its outcome is recorded before its result is shown."""
        life, last = self.guard.lifecycle, None
        try:
            async with aclosing(events):
                async for event in events:
                    last = event
                    if isinstance(event, ToolInterruptEvent | ToolResultEvent):
                        break
                    yield event
        except InterruptException:
            paused_calls(self.guard, call.conversation)[call.tool, call.id] = call
            raise
        except Exception as error:
            await adrive(life.after(call, Outcome.of_error(error)))
            raise
        except BaseException as error:
            drive(life.after(call, Outcome.of_error(error)))  # not awaited: the task is cancelled
            raise
        if isinstance(last, ToolInterruptEvent):  # it asks a person itself: it runs again, as the same call
            paused_calls(self.guard, call.conversation)[call.tool, call.id] = call
        else:
            await adrive(life.after(call, outcome_of(last)))
        if isinstance(last, ToolInterruptEvent | ToolResultEvent):
            yield last

    def _judge(self, call: HostCall, context: Any, options: Mapping[str, Any]) -> Procedure[JudgedCall]:
        """Judges a call. If a rule escalates it and the guard has no approver, the host asks a reviewer."""
        direct = is_direct(context.invocation_state)
        if not direct and call.conversation and self._host_approval.may_be_needed:
            shown = replace(call, step=None, messages=None, seen=None)
            judged = yield from ask_host(self.guard, shown, context, options)
            if judged is not None:
                return judged
        verdict, call = yield from self.guard.lifecycle.judge(call)
        return explained(verdict, direct=direct), call

    def _call(
        self, name: str, args: Mapping[str, Any], around: StrandsScope, context: Any, validate_edit: Any = None
    ) -> HostCall:
        options: dict[str, Any] = {"validate_edit": validate_edit, "id": str(context.tool_use.get("toolUseId"))}
        if around.run is not None:
            options |= around.run.call_options(nested=around.call is not None)
        if name == HANDOFF:
            options["action"] = HANDOFF
        return HostCall(name, args, around.conversation, agent=context.agent.name, **options)

    def _denied(self, denied: ToolDenied, around: StrandsScope, tool_use: Any) -> Any:
        """Returns the host's own error of a tool, with the reason and the remedy."""
        denied = noted_denial(denied, around, UNNAMED)
        result = {"toolUseId": str(tool_use.get("toolUseId")), "status": "error", "content": [{"text": str(denied)}]}
        return ToolResultEvent(result, exception=denied)


def is_direct(state: Mapping[str, Any]) -> bool:
    """Whether a program makes the call, by `agent.tool.NAME(...)`; the host tells them apart in the same way."""
    return "event_loop_cycle_id" not in state


async def _run(
    arguments: StrandsArguments, own: dict[str, Any], tool_use: Any, state: dict[str, Any], options: dict[str, Any]
) -> AsyncGenerator[Any, None]:
    """Runs a tool with the judged arguments, and shows it no others."""
    tool_use = {**tool_use, "name": arguments.spec.name, "input": own}
    if is_direct(state):  # the host puts the proposed arguments there, too
        state = {name: value for name, value in state.items() if name not in own or name in _HOSTS}
    if "_tool_context" in options:
        shown = copy.copy(options["_tool_context"])
        shown.tool_use = tool_use
        options = {**options, "_tool_context": shown}
    events = arguments.tool_with(own).stream(tool_use, state, **options)
    try:
        async for event in events:
            yield event
    finally:
        if (close := getattr(events, "aclose", None)) is not None:
            await close()


def _validation(arguments: StrandsArguments, tool: Any) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    def validated(edited: Mapping[str, Any]) -> Mapping[str, Any]:
        return as_judged(tool, plain_arguments(arguments.bind(as_received(tool, edited))))

    return validated
