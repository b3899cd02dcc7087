"""The runs of agents, and the conversation that each belongs to."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from strands.types.exceptions import EventLoopException

from guardagent.enforcement import HostCall
from guardagent.enforcement.tool_guard import gave_up
from guardagent.errors import ToolDenied
from guardagent.frameworks.strands.adapter.messages import chat, result_ids
from guardagent.types import Decision, Verdict

UNNAMED = (
    "this run names no conversation: run the agent inside 'with conversation(id):', with a session manager, or pass "
    "conversation=..."
)


class StrandsHalted(ToolDenied, EventLoopException):
    """A rule has halted the run: the agent raises this. `verdict` says why.

    As an `EventLoopException`, the host lets it through as it is.
    """

    def __init__(self, tool: str, verdict: Verdict) -> None:
        ToolDenied.__init__(self, tool, verdict)
        self.original_exception, self.request_state = self, dict[str, Any]()


@dataclass(slots=True)
class StrandsRun:
    """One run of an agent.

    Attributes:
        outer: the run around it, whose tool runs it; None for a run that a program started.
        answers: whether its last text is an answer to the user.
        step: the number of the model's messages.
        final: the guard's answer, which ends the run.
        halted: the halt that ends the run.
        messages: the messages of the agent, as rules read them.
        seen: the ids of the calls whose results are among these.
        passed: the answers that were judged and may be shown.
    """

    outer: StrandsRun | None = None
    answers: bool = True
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    step: int = 0
    final: str | None = None
    halted: StrandsHalted | None = None
    messages: Sequence[dict[str, str]] = ()
    seen: Sequence[str] = ()
    passed: set[str] = field(default_factory=set)

    def show(self, messages: Sequence[Any], proposed: set[str]) -> None:
        """Takes over the agent's messages.

        Args:
            messages: in the host's form.
            proposed: the ids of the calls that models proposed under this guard, which may have been denied.
        """
        self.messages = chat(messages)
        self.seen = [one for one in result_ids(messages) if one not in proposed]

    def note(self, tool: str, verdict: Verdict) -> None:
        """Notes a denial. After a halt, or once the agent gave up, this run and those around it end."""
        halted = StrandsHalted(tool, verdict) if verdict.decision is Decision.HALT else None
        final = f"{verdict.feedback()}\n{verdict.reasons[-1]}" if gave_up(verdict) else None
        run: StrandsRun | None = self
        while run is not None:
            run.final, run.halted = run.final or final, run.halted or halted
            run = run.outer


@dataclass(frozen=True, slots=True)
class StrandsScope:
    """The surroundings of a call or a run.

    Attributes:
        conversation: its id; None if there is none.
        run: the run; None outside of one.
        call: the running call; runs inside it are parts of its conversation.
        delegated: whether the answer of an agent in this call is the answer to the user.
    """

    conversation: str | None
    run: StrandsRun | None = None
    call: HostCall | None = None
    delegated: bool = False


_scope: ContextVar[StrandsScope | None] = ContextVar("guardagent_strands", default=None)


def scope() -> StrandsScope | None:
    """Returns the surroundings of the calling code; None if there are none."""
    return _scope.get()


@contextmanager
def enter(around: StrandsScope) -> Iterator[None]:
    """Code inside has these surroundings."""
    token = _scope.set(around)
    try:
        yield
    finally:
        _scope.reset(token)


async def within(around: StrandsScope, events: AsyncGenerator[Any, None]) -> AsyncGenerator[Any, None]:
    """Yields events, each made in these surroundings. The code between them keeps its own."""
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


@contextmanager
def conversation(name: str) -> Iterator[None]:
    """Runs that begin inside belong to this conversation; within a tool, to the one that the tool was called in."""
    around = scope()
    with enter(around if around is not None and around.call is not None else StrandsScope(name)):
        yield


def surroundings(named: str | None, session: str | None) -> StrandsScope:
    """Returns the surroundings of a new run: within a tool, those of the call.

    Args:
        named: the conversation that the operator names, if any.
        session: the id of the host's session, if any.
    """
    around = scope()
    if around is not None and around.call is not None:
        run = StrandsRun(around.run, answers=around.delegated)
        if around.delegated and around.run is not None:
            run.passed = around.run.passed
        return StrandsScope(around.conversation, run, around.call)
    outside = around.conversation if around is not None else None
    return StrandsScope(named or outside or session, StrandsRun())
