"""The runs of agents and teams, and the conversation that each belongs to."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from guardagent.enforcement import HostCall
from guardagent.enforcement.tool_guard import gave_up
from guardagent.errors import ToolDenied
from guardagent.types import Decision, Verdict

UNNAMED = "this run names no conversation: run the agent inside 'with conversation(id):', or pass conversation=..."


class TeamHalted(ToolDenied):
    """A rule has halted the run of an agent or a team: the run raises this. `verdict` says why."""


@dataclass(slots=True)
class AutoGenRun:
    """One run that a program or a tool has started; the agents of a team share the team's.

    Attributes:
        outer: the run around it, whose tool has started it; None for a run of a program.
        call: the call of that tool.
        final: the guard's answer, which ends the run.
        halted: the halt that ends the run.
    """

    outer: AutoGenRun | None = None
    call: HostCall | None = None
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    final: str | None = None
    halted: TeamHalted | None = None

    def note(self, tool: str, verdict: Verdict) -> None:
        """Notes a denial. After a halt, or once the agent gave up, this run and those around it end."""
        halted = TeamHalted(tool, verdict) if verdict.decision is Decision.HALT else None
        final = f"{verdict.feedback()}\n{verdict.reasons[-1]}" if gave_up(verdict) else None
        run: AutoGenRun | None = self
        while run is not None:
            run.final, run.halted = run.final or final, run.halted or halted
            run = run.outer


@dataclass(slots=True)
class AutoGenTurn:
    """An agent's part of a run: from the messages that it gets to its response.

    Attributes:
        agent: its name.
        proposed: the ids of the calls that models have proposed in this conversation.
        step: the number of the model's messages.
        messages: the messages that the model has read, as rules read them.
        seen: the ids of the calls whose results are among these, and that no model has proposed here.
    """

    agent: str
    proposed: set[str]
    id: str = field(default_factory=lambda: secrets.token_hex(4))
    step: int = 0
    messages: Sequence[dict[str, str]] = ()
    seen: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class AutoGenScope:
    """The surroundings of a call or a run.

    Attributes:
        conversation: its id; None if there is none.
        run: the run; None outside of one.
        turn: the agent's part of it; None outside of an agent.
        call: the running call; runs inside it are parts of its conversation.
        tool_id: the host's id of the call that is about to run.
    """

    conversation: str | None
    run: AutoGenRun | None = None
    turn: AutoGenTurn | None = None
    call: HostCall | None = None
    tool_id: str | None = None


_scope: ContextVar[AutoGenScope | None] = ContextVar("guardagent_autogen", default=None)


def scope() -> AutoGenScope | None:
    """Returns the surroundings of the calling code; None if there are none."""
    return _scope.get()


@contextmanager
def enter(around: AutoGenScope) -> Iterator[None]:
    """Code inside has these surroundings."""
    token = _scope.set(around)
    try:
        yield
    finally:
        _scope.reset(token)


@contextmanager
def conversation(name: str) -> Iterator[None]:
    """Runs that begin inside belong to this conversation; within a run or a tool, to the one of that."""
    around = scope()
    inside = around is not None and (around.run is not None or around.call is not None)
    with enter(around if around is not None and inside else AutoGenScope(name)):
        yield


async def streamed(events: AsyncGenerator[Any, None], around: AutoGenScope) -> AsyncGenerator[Any, None]:
    """Yields the events of a run, each made within its surroundings; the tasks that it starts inherit them."""
    try:
        while True:
            with enter(around):
                try:
                    event = await anext(events)
                except StopAsyncIteration:
                    return
            yield event
    finally:
        with enter(around):
            await events.aclose()
