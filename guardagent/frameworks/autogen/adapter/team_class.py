"""The class of a guarded team: a subclass of its own."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from functools import cache
from typing import Any

from autogen_agentchat.base import TerminationCondition
from autogen_agentchat.messages import StopMessage
from autogen_agentchat.teams import BaseGroupChat

from guardagent.frameworks.autogen.adapter.agents import ATTACHMENT
from guardagent.frameworks.autogen.adapter.answers import AnswerHold
from guardagent.frameworks.autogen.adapter.guarded_tool import undumped
from guardagent.frameworks.autogen.adapter.runs import SURROUNDINGS, scope

TEAM_PARTS = (
    "run_stream",
    "_participants",
    "_embedded_runtime",
    "_initialized",
    "_termination_condition",
    "_max_turns",
)


@cache
def guarded_team_class(base: Any) -> Any:
    """Returns the class of a team with a guard."""
    return type(base)(base.__name__, (_GuardedTeam, base), {"__module__": base.__module__, "__doc__": base.__doc__})


class _GuardedTeam(BaseGroupChat):
    """Runs in a conversation, which its agents share, and ends when its guard ends the run."""

    async def run_stream(self, *, task: Any = None, **kwargs: Any) -> AsyncGenerator[Any, None]:
        attachment = vars(self)[ATTACHMENT]
        attachment.refresh(self)
        outermost, around = attachment.begin(None)
        events = SURROUNDINGS.stream_within(around, super().run_stream(task=task, **kwargs))
        if outermost and attachment.guard.judges_answers:
            messages = [] if task is None else [task] if not isinstance(task, list | tuple) else task
            events = AnswerHold(attachment.guard, around, self.name, messages).judged(events)
        try:
            async with aclosing(events) as found:
                async for event in found:
                    yield event
        except Exception:
            if around.run.halted is not None:
                raise around.run.halted from None  # the host raises it as a RuntimeError
            raise

    def dump_component(self) -> Any:
        raise undumped("the team")


class GuardTermination(TerminationCondition):
    """Ends a team's run once its guard has ended it, or if another condition does.

    Args:
        condition: the other one; None if the team has none.
    """

    component_type = "termination"

    def __init__(self, condition: TerminationCondition | None) -> None:
        self._condition = condition

    @property
    def terminated(self) -> bool:
        return self._condition is not None and self._condition.terminated

    async def __call__(self, messages: Sequence[Any]) -> StopMessage | None:
        around = scope()
        if around is not None and around.run is not None and around.run.final is not None:
            return StopMessage(content=around.run.final, source="guardagent")
        return await self._condition(messages) if self._condition is not None else None

    async def reset(self) -> None:
        if self._condition is not None:
            await self._condition.reset()
