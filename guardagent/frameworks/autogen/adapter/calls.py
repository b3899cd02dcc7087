"""Judges and runs the calls of agents."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from guardagent._support.execution import adrive, drive
from guardagent.enforcement import EnforcementPoint, HostCall, Outcome
from guardagent.enforcement.hosts import awaited, noted_denial
from guardagent.errors import ToolDenied
from guardagent.frameworks.autogen.adapter.runs import SURROUNDINGS, UNNAMED, AutoGenScope, scope

ValidateEdit = Callable[[Mapping[str, Any]], Mapping[str, Any]]
HANDOFF = "handoff"


@dataclass(frozen=True, slots=True)
class PermittedCall:
    """A call that may run.

    Attributes:
        guard: records its outcome.
        call: the call.
        args: the judged arguments.
        inside: the surroundings of what it runs.
    """

    guard: EnforcementPoint
    call: HostCall
    args: Mapping[str, Any]
    inside: AutoGenScope

    async def run(self, work: Callable[[], Awaitable[Any]], outcome: Callable[[Any], Outcome]) -> Any:
        """Runs the tool and records its outcome."""
        running = SURROUNDINGS.within(self.inside, awaited(work))
        return await adrive(self.guard.lifecycle.execute(self.call, running, outcome))

    async def stream(
        self, results: AsyncGenerator[Any, None], outcome: Callable[[Any], Outcome]
    ) -> AsyncGenerator[Any, None]:
        """Yields the results of a tool, and records the last one as its outcome."""
        life, last = self.guard.lifecycle, None
        try:
            async with aclosing(SURROUNDINGS.stream_within(self.inside, results)) as events:
                async for last in events:
                    yield last
            ended = outcome(last)
        except BaseException as error:
            recorded = life.after(self.call, Outcome.of_error(error))
            if isinstance(error, Exception):
                await adrive(recorded)
            else:
                drive(recorded)  # not awaited: the task is cancelled
            raise
        await adrive(life.after(self.call, ended))


class AutoGenCalls:
    """Judges calls.

    Args:
        guard: decides.
        named: returns the operator's name of the conversation.
    """

    def __init__(self, guard: EnforcementPoint, named: Callable[[], str | None]) -> None:
        self.guard, self._named = guard, named

    async def authorize(self, name: str, args: Mapping[str, Any], validate_edit: ValidateEdit) -> PermittedCall:
        """Judges a call.

        Raises:
            ToolDenied: the call may not run.
        """
        around = self._around()
        call = self._call(name, args, around, validate_edit)
        try:
            call, judged = await adrive(self.guard.lifecycle.authorize(call))
        except ToolDenied as denied:
            raise noted_denial(denied, around, UNNAMED) from None
        inside = replace(around, conversation=call.conversation, call=call, turn=None, tool_id=None)
        return PermittedCall(self.guard, call, judged, inside)

    async def refusal(self, name: str, problem: str) -> ToolDenied:
        """Denies a call that cannot be judged as it stands."""
        around = self._around()
        verdict = await self.guard.arefuse(self._call(name, {}, around), problem)
        return noted_denial(ToolDenied(name, verdict), around, UNNAMED)

    def _around(self) -> AutoGenScope:
        return scope() or AutoGenScope(self._named())

    def _call(
        self, name: str, args: Mapping[str, Any], around: AutoGenScope, validate_edit: ValidateEdit | None = None
    ) -> HostCall:
        options: dict[str, Any] = {"validate_edit": validate_edit}
        if around.run is not None and around.turn is not None:
            turn = around.turn
            options |= {"step": f"{around.run.id}.{turn.id}.{turn.step}", "agent": turn.agent}
            if around.call is None:
                options |= {"messages": turn.messages, "seen": turn.seen}
        if around.tool_id:
            options["id"] = around.tool_id
        if name == HANDOFF:
            options["action"] = HANDOFF
        return HostCall(name, args, around.conversation, **options)
