"""Judges and runs the calls of an agent's tools."""

from __future__ import annotations

import copy
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from strands.agent._agent_as_tool import _AgentAsTool
from strands.interrupt import InterruptException
from strands.types._events import ToolInterruptEvent, ToolResultEvent

from guardagent._support.execution import Procedure, adrive, drive
from guardagent.enforcement import EnforcementPoint, HostCall, Outcome
from guardagent.enforcement.calls import plain_arguments
from guardagent.enforcement.enforcement_point import JudgedCall
from guardagent.enforcement.hosts import HostApproval, noted_denial, paused_calls
from guardagent.errors import InputError, ToolDenied, error_text
from guardagent.frameworks.strands.adapter.approvals import ask_host, explained, is_resumed
from guardagent.frameworks.strands.adapter.arguments import StrandsArguments
from guardagent.frameworks.strands.adapter.handoffs import as_judged, as_received, is_handoff
from guardagent.frameworks.strands.adapter.outcomes import outcome_of
from guardagent.frameworks.strands.adapter.runs import UNNAMED, StrandsScope, scope, within
from guardagent.types import unchecked_verdict

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
