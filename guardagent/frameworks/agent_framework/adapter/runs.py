"""The runs of chat clients, and the conversation that each belongs to."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from agent_framework import MiddlewareFailure

from guardagent.enforcement import HostCall
from guardagent.enforcement.tool_guard import gave_up
from guardagent.errors import ToolDenied
from guardagent.types import EMPTY, Decision, Verdict

UNNAMED = (
    "this run names no conversation: pass session=... to it, run it inside 'with conversation(id):', or attach the "
    "guard with conversation=...; the sessions of a workflow's own agents do not count"
)


class AgentFrameworkHalted(ToolDenied, MiddlewareFailure):
    """A rule has halted the run: awaiting it raises this. `verdict` says why."""


@dataclass(slots=True)
class ClientRun:
    """One request to a chat client, with the tool calls that it leads to.

    Attributes:
        outer: the run around it, whose tool runs it; None for a run that a program started.
        step: the number of the model's messages.
        final: the guard's answer, which ends the run.
        halted: the halt that ends the run.
        messages: the messages that the model has read, as rules read them.
        seen: the ids of the calls whose results are among these.
        proposed: the ids of the calls that models proposed in this conversation.
        handoffs: the host's names of the tools that hand the conversation over -> the agent that takes over.
        handed_over: whether one of these was called.
    """

    outer: ClientRun | None = None
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    step: int = 0
    final: str | None = None
    halted: AgentFrameworkHalted | None = None
    messages: Sequence[dict[str, str]] = ()
    seen: Sequence[str] = ()
    proposed: set[str] = field(default_factory=set)
    handoffs: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    handed_over: bool = False

    def note(self, tool: str, verdict: Verdict) -> None:
        """Notes a denial. After a halt, or once the agent gave up, this run and those around it end."""
        halted = AgentFrameworkHalted(tool, verdict) if verdict.decision is Decision.HALT else None
        final = f"{verdict.feedback()}\n{verdict.reasons[-1]}" if gave_up(verdict) else None
        run: ClientRun | None = self
        while run is not None:
            run.final, run.halted = run.final or final, run.halted or halted
            run = run.outer


@dataclass(frozen=True, slots=True)
class ClientScope:
    """The surroundings of a run or a call.

    Attributes:
        conversation: its id; None if there is none.
        run: the run; None outside of one.
        call: the running call; runs inside it are parts of its conversation.
        agent: the name of the agent.
        tool_id: the host's id of the call.
        answered: the host's answer to the approval request of the call; None if there is none.
        asks: whether the host can ask a reviewer, and continue later.
    """

    conversation: str | None
    run: ClientRun | None = None
    call: HostCall | None = None
    agent: str | None = None
    tool_id: str | None = None
    answered: Mapping[str, Any] | None = None
    asks: bool = False

    def of_call(self, tool_id: str | None, answered: Mapping[str, Any] | None) -> ClientScope:
        """Returns the surroundings of a tool's call. Within another call it has neither the host's id nor an answer."""
        if self.call is not None:
            tool_id = answered = None
        return ClientScope(self.conversation, self.run, self.call, self.agent, tool_id, answered, self.asks)

    def within(self, call: HostCall) -> ClientScope:
        """Returns the surroundings of code that runs inside a call."""
        return ClientScope(self.conversation, self.run, call, self.agent, self.tool_id, self.answered, self.asks)


_scope: ContextVar[ClientScope | None] = ContextVar("guardagent_agent_framework", default=None)


def scope() -> ClientScope | None:
    """Returns the surroundings of the calling code; None if there are none."""
    return _scope.get()


@contextmanager
def enter(around: ClientScope) -> Iterator[None]:
    """Code inside has these surroundings."""
    token = _scope.set(around)
    try:
        yield
    finally:
        _scope.reset(token)


@contextmanager
def conversation(name: str) -> Iterator[None]:
    """Runs that begin inside belong to this conversation; within a tool, to the one that the tool was called in."""
    around = scope()
    with enter(around if around is not None and around.call is not None else ClientScope(name)):
        yield


def surroundings(named: str | None, session: str | None, agent: str | None) -> ClientScope:
    """Returns the surroundings of a new run: within a tool, those of the call.

    Args:
        named: the conversation that the operator names, if any.
        session: the id of the session that is passed to the run, if any.
        agent: the name of the agent.
    """
    around = scope()
    if around is not None and around.call is not None:
        return ClientScope(around.conversation, ClientRun(around.run), around.call, agent)
    outside = around.conversation if around is not None else None
    return ClientScope(named or outside or session, ClientRun(), agent=agent)
