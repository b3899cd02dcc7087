"""The turns of agents, and the conversation that each belongs to."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from guardagent.enforcement import HostCall
from guardagent.enforcement.tool_guard import gave_up
from guardagent.errors import ToolDenied
from guardagent.types import Decision, Verdict

UNNAMED = (
    "this turn names no conversation: call the agent inside 'with conversation(id):', or pass conversation=..., such "
    "as 'stream_id' if the program passes the stream"
)


class AskHalted(ToolDenied):
    """A rule has halted the turn: `agent.ask` raises this. `verdict` says why."""


@dataclass(slots=True)
class Ag2Run:
    """One turn of an agent, from a request to the answer.

    Attributes:
        agent: the name of the agent.
        proposed: the ids of the calls that models have proposed in this conversation.
        outer: the turn around it, whose tool runs the agent; None for a turn that a program started.
        step: the number of the model's messages.
        final: the guard's answer, which ends the turn.
        halted: the halt that ends the turn.
        messages: the messages that the model has read, as rules read them.
        seen: the ids of the calls whose results are among these, and that no model has proposed here.
    """

    agent: str
    proposed: set[str]
    outer: Ag2Run | None = None
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    step: int = 0
    final: str | None = None
    halted: AskHalted | None = None
    messages: Sequence[dict[str, str]] = ()
    seen: Sequence[str] = ()

    def note(self, tool: str, verdict: Verdict) -> None:
        """Notes a denial. After a halt, or once the agent gave up, this turn and those around it end."""
        halted = AskHalted(tool, verdict) if verdict.decision is Decision.HALT else None
        final = f"{verdict.feedback()}\n{verdict.reasons[-1]}" if gave_up(verdict) else None
        run: Ag2Run | None = self
        while run is not None:
            run.final, run.halted = run.final or final, run.halted or halted
            run = run.outer


@dataclass(frozen=True, slots=True)
class Ag2Scope:
    """The surroundings of a call or a turn.

    Attributes:
        conversation: its id; None if there is none.
        run: the turn; None outside of one.
        call: the running call; turns inside it are parts of its conversation.
        tool_id: the host's id of the call that is about to run.
        context: the host's context of that call.
    """

    conversation: str | None
    run: Ag2Run | None = None
    call: HostCall | None = None
    tool_id: str | None = None
    context: Any = None


_scope: ContextVar[Ag2Scope | None] = ContextVar("guardagent_ag2", default=None)


def scope() -> Ag2Scope | None:
    """Returns the surroundings of the calling code; None if there are none."""
    return _scope.get()


@contextmanager
def enter(around: Ag2Scope) -> Iterator[None]:
    """Code inside has these surroundings."""
    token = _scope.set(around)
    try:
        yield
    finally:
        _scope.reset(token)


@contextmanager
def conversation(name: str) -> Iterator[None]:
    """Turns that begin inside belong to this conversation; within a turn or a tool, to the one of that."""
    around = scope()
    inside = around is not None and (around.run is not None or around.call is not None)
    with enter(around if around is not None and inside else Ag2Scope(name)):
        yield
