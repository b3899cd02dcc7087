"""The runs of agents, and the conversation that each belongs to."""

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
    "this run names no conversation: run the agent inside 'with conversation(id):', with a memory=Memory that has a "
    "session_id, or pass conversation=..."
)


class WorkflowHalted(ToolDenied):
    """A rule has halted the run: awaiting its handler raises this. `verdict` says why."""


@dataclass(slots=True)
class LlamaRun:
    """One run of an agent or an AgentWorkflow.

    Attributes:
        outer: the run around it, whose tool runs it; None for a run that a program started.
        step: the number of the model's messages.
        final: the guard's answer, which ends the run.
        halted: the halt that ends the run.
        messages: the messages that the model has read, as rules read them.
        seen: the ids of the calls whose results are among these.
        passed: the answers that were judged and may be shown.
    """

    outer: LlamaRun | None = None
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    step: int = 0
    final: str | None = None
    halted: WorkflowHalted | None = None
    messages: Sequence[dict[str, str]] = ()
    seen: Sequence[str] = ()
    passed: set[str] = field(default_factory=set)

    def note(self, tool: str, verdict: Verdict) -> None:
        """Notes a denial. After a halt, or once the agent gave up, this run and those around it end."""
        halted = WorkflowHalted(tool, verdict) if verdict.decision is Decision.HALT else None
        final = f"{verdict.feedback()}\n{verdict.reasons[-1]}" if gave_up(verdict) else None
        run: LlamaRun | None = self
        while run is not None:
            run.final, run.halted = run.final or final, run.halted or halted
            run = run.outer


@dataclass(frozen=True, slots=True)
class LlamaScope:
    """The surroundings of a call or a run.

    Attributes:
        conversation: its id; None if there is none.
        run: the run; None outside of one.
        call: the running call; runs inside it are parts of its conversation.
        ctx: the context of the workflow, whose step calls a tool.
        tool_id: the host's id of that call.
        agent: the name of the agent.
    """

    conversation: str | None
    run: LlamaRun | None = None
    call: HostCall | None = None
    ctx: Any = None
    tool_id: str | None = None
    agent: str | None = None


_scope: ContextVar[LlamaScope | None] = ContextVar("guardagent_llama_index", default=None)


def scope() -> LlamaScope | None:
    """Returns the surroundings of the calling code; None if there are none."""
    return _scope.get()


@contextmanager
def enter(around: LlamaScope) -> Iterator[None]:
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
    with enter(around if around is not None and around.call is not None else LlamaScope(name)):
        yield


def surroundings(named: str | None, memory: Any) -> LlamaScope:
    """Returns the surroundings of a new run: within a tool, those of the call.

    Args:
        named: the conversation that the operator names, if any.
        memory: the memory that is passed to the run, if any.
    """
    around = scope()
    if around is not None and around.call is not None:
        return LlamaScope(around.conversation, LlamaRun(around.run), around.call)
    outside = around.conversation if around is not None else None
    session = getattr(memory, "session_id", None)
    return LlamaScope(named or outside or (session if isinstance(session, str) else None), LlamaRun())
