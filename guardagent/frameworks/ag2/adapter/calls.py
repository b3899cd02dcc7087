"""Judges and runs the calls of agents."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from guardagent._support.execution import adrive
from guardagent.enforcement import EnforcementPoint, HostCall, Outcome
from guardagent.enforcement.hosts import awaited, noted_denial
from guardagent.errors import ToolDenied
from guardagent.frameworks.ag2.adapter.approvals import judged
from guardagent.frameworks.ag2.adapter.runs import SURROUNDINGS, UNNAMED, Ag2Scope, scope

ValidateEdit = Callable[[Mapping[str, Any]], Mapping[str, Any]]
Named = str | Callable[[Any], str | None] | None


class Ag2Calls:
    """Judges and runs calls.

    Args:
        guard: decides.
        named: the conversation's id, or a function of the host's context that returns it.
    """

    def __init__(self, guard: EnforcementPoint, named: Named) -> None:
        self.guard, self._named = guard, named

    async def run(
        self,
        name: str,
        args: Mapping[str, Any],
        validate_edit: ValidateEdit,
        work: Callable[[Mapping[str, Any]], Awaitable[Any]],
        outcome: Callable[[Any], Outcome],
    ) -> Any:
        """Judges a call, and runs it with the judged arguments.

        Raises:
            ToolDenied: the call may not run.
        """
        around, life = self._around(), self.guard.lifecycle
        call = self._call(name, args, around, validate_edit)
        try:
            call, allowed = await adrive(life.authorize(call, judged(self.guard, call, around.context, around.tool_id)))
        except ToolDenied as denied:
            raise noted_denial(denied, around, UNNAMED) from None
        inside = Ag2Scope(call.conversation, around.run, call)
        running = SURROUNDINGS.within(inside, awaited(lambda: work(allowed)))
        return await adrive(life.execute(call, running, outcome))

    async def refusal(self, name: str, problem: str) -> ToolDenied:
        """Denies a call that cannot be judged as it stands."""
        around = self._around()
        verdict = await self.guard.arefuse(self._call(name, {}, around), problem)
        return noted_denial(ToolDenied(name, verdict), around, UNNAMED)

    def name_of(self, context: Any) -> str | None:
        """Returns the operator's name of the conversation."""
        return self._named(context) if callable(self._named) else self._named

    def _around(self) -> Ag2Scope:
        around = scope() or Ag2Scope(None)
        if around.inside or around.context is None:
            return around
        return replace(around, conversation=self.name_of(around.context) or around.conversation)

    def _call(
        self, name: str, args: Mapping[str, Any], around: Ag2Scope, validate_edit: ValidateEdit | None = None
    ) -> HostCall:
        options: dict[str, Any] = {"validate_edit": validate_edit}
        if (run := around.run) is not None:
            options |= {"agent": run.agent, **run.call_options(nested=around.call is not None)}
        if around.tool_id:
            options["id"] = around.tool_id
        return HostCall(name, args, around.conversation, **options)
