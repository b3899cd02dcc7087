"""Judges and runs the calls of an agent's tools, with the arguments that the host's validation leaves.

The hand-offs of a Swarm are judged as the event `handoff(to=..., message=..., context=...)`.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from strands.agent._agent_as_tool import _AgentAsTool
from strands.interrupt import InterruptException
from strands.multiagent import swarm
from strands.tools.decorator import DecoratedFunctionTool
from strands.types._events import ToolInterruptEvent, ToolResultEvent

from guardagent._support.arguments import ambiguous_names
from guardagent._support.execution import Procedure
from guardagent._support.requirements import require_parts
from guardagent.enforcement import Approval, HostCall, Outcome, ToolSpec
from guardagent.enforcement.calls import plain_value
from guardagent.enforcement.host_adapter import HANDOFF, HostAdapter, ToolInvocation, explained
from guardagent.enforcement.lifecycle import JudgedCall
from guardagent.enforcement.schema import validate_arguments
from guardagent.enforcement.tool_arguments import copied_values, refuse_opaque
from guardagent.errors import InputError, error_text
from guardagent.frameworks.strands.adapter.approvals import interrupt, is_resumed, recorded_answer
from guardagent.frameworks.strands.adapter.runs import RETURNED, StrandsScope, outcome_of

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
        refuse_opaque(spec.name, {name: field.annotation for name, field in fields.items()})
        return cls(tool, declared, replace(spec, unlisted_arguments=frozenset(fields)), function=True)

    def bind(self, proposed: Any) -> dict[str, Any]:
        """Returns copies of the arguments that the tool will get, with defaults.

        Raises:
            InputError: they do not fit the tool, or one cannot be judged.
        """
        if not isinstance(proposed, Mapping):
            kind = type(proposed).__name__
            raise InputError(f"the arguments of {self.spec.name!r} are a {kind}; expected an object")
        if (problem := ambiguous_names(proposed)) is not None:  # the host's validation may drop one of them
            raise InputError(f"the arguments of {self.spec.name!r} have {problem}; expected only one of them")
        named = self._validated(dict(proposed)) if self.function else self._checked(proposed)
        return copied_values(named)

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


# --- calls

_HOSTS = frozenset({"agent", "model", "messages", "system_prompt", "tool_config"})  # what the host itself puts there
_RACED = "this call needs human approval only since another call is in flight; propose it again"
_DIRECT = "a direct call cannot be interrupted for human approval; let the agent call the tool, or set an approver"


class StrandsInvocation(ToolInvocation[StrandsScope]):
    """One call of a tool.

    Args:
        adapter: has the guard.
        around: the surroundings of the call.
        context: the host's context of the tool.
        tool: the tool.
        proposed: the arguments as the model wrote them.
        options: the host's other arguments of the tool; in the background they have a context of their own.
        read: reads the declaration of the tool.
    """

    pausing = (ToolInterruptEvent, InterruptException)

    def __init__(
        self,
        adapter: HostAdapter[StrandsScope],
        around: StrandsScope,
        context: Any,
        tool: Any,
        proposed: Any,
        options: Mapping[str, Any],
        read: Callable[[], StrandsArguments],
    ) -> None:
        handoff = is_handoff(tool)
        super().__init__(adapter, HANDOFF if handoff else str(tool.tool_name), around)
        self.target = "agent_name" if handoff else None
        self._tool, self._context, self._proposed, self._options, self._read = tool, context, proposed, options, read

    @property
    def arguments(self) -> StrandsArguments:
        """Reads the arguments of the tool."""
        return self._read()

    def bind(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return self.arguments.bind(self._proposed), {}

    def rebind(self, edited: Mapping[str, Any]) -> dict[str, Any]:
        return self.arguments.bind(edited)

    def options(self) -> dict[str, Any]:
        call_id, agent = str(self._context.tool_use.get("toolUseId")), self._context.agent.name
        attempts = self._attempts.get(call_id, 0)  # of hooks that retry; each is a call of its own
        return {**super().options(), "id": f"{call_id}.{attempts}" if attempts else call_id, "agent": agent}

    @property
    def _attempts(self) -> dict[str, int]:
        """The number of attempts that have ended, by the host's id of the call."""
        notes = self.guard.notes(self.around.conversation) if self.around.conversation else {}
        attempts: dict[str, int] = notes.setdefault("attempts", {})
        return attempts

    def _ended(self, call: HostCall, read: Callable[[Any], Outcome | None], result: Any) -> Outcome | None:
        ended = super()._ended(call, read, result)
        if ended is not None and self.around.call is None:
            call_id = str(self._context.tool_use.get("toolUseId"))
            self._attempts[call_id] = self._attempts.get(call_id, 0) + 1
        return ended

    def judge(self, call: HostCall) -> Procedure[JudgedCall]:
        if is_direct(self._context.invocation_state):
            verdict, call = yield from self.guard.lifecycle.judge(call)
            return explained(verdict, _DIRECT), call
        return (yield from self.judge_at_host(call, _RACED))

    def host_answer(self, call: HostCall) -> Procedure[Approval | None]:
        answer = recorded_answer(call, self._context, self._options)
        if answer is None:
            request = yield from self.host_request(call)
            if request is None:
                return None
            interrupt(call, request, self._context)
        approval = Approval.read(answer)
        return replace(approval, of=approval.of or call.digest)

    def inside(self, call: HostCall) -> StrandsScope:
        delegated = isinstance(self._tool, _AgentAsTool) and self._tool.delegate
        return replace(super().inside(call), delegated=delegated)

    def resumed(self, call: HostCall) -> HostCall | None:
        started = super().resumed(call)
        return started if is_resumed(self._context, self._options) else None

    def tell(self, output: Any, line: str) -> Any:
        if isinstance(output, ToolResultEvent):
            output.tool_result["content"] = [*output.tool_result["content"], {"text": line}]
        return output

    def outcome(self, output: Any) -> Outcome:
        return outcome_of(output)


def is_result(event: Any) -> bool:
    """Whether an event is the last one of a tool."""
    return isinstance(event, ToolInterruptEvent | ToolResultEvent)


def is_direct(state: Mapping[str, Any]) -> bool:
    """Whether a program makes the call, by `agent.tool.NAME(...)`; the host tells them apart in the same way."""
    return "event_loop_cycle_id" not in state


async def tool_events(
    arguments: StrandsArguments, own: dict[str, Any], tool_use: Any, state: dict[str, Any], options: dict[str, Any]
) -> AsyncGenerator[Any, None]:
    """Yields the events of a tool that runs with the judged arguments. It is shown no others."""
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
