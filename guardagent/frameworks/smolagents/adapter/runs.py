"""The runs of agents, and the conversation that each belongs to."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from guardagent.enforcement import HostCall
from guardagent.enforcement.tool_guard import gave_up
from guardagent.errors import ToolDenied
from guardagent.types import Decision, Verdict

UNNAMED = "this run names no conversation: run the agent inside 'with conversation(id):', or pass conversation=..."
MAX_DENIED_ANSWERS = 3
_WRITTEN = ("model_output", "model_output_message", "code_action", "observations", "action_output", "tool_calls")


class AgentHalted(ToolDenied):
    """A rule has halted the run: `agent.run` raises this. `verdict` says why."""


@dataclass(slots=True)
class SmolagentsRun:
    """One run of an agent.

    Attributes:
        agent: the agent.
        outer: the run around it, whose tool or managed agent this is; None for a run that a program started.
        step: the number of the agent's steps.
        parallel: whether the current message has several calls.
        final: the guard's answer, which ends the run.
        halted: the halt that ends the run.
        denied_answers: the number of denied final answers.
        memory_step: the host's record of the current step.
    """

    agent: Any
    outer: SmolagentsRun | None = None
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    step: int = 0
    parallel: bool = False
    final: str | None = None
    halted: AgentHalted | None = None
    denied_answers: int = 0
    memory_step: Any = None

    def note(self, tool: str, verdict: Verdict) -> None:
        """Notes a denial. After a halt, or once the agent gave up, this run and those around it end."""
        if verdict.decision is Decision.HALT:
            self._end(halted=AgentHalted(tool, verdict))
        elif gave_up(verdict):
            self._end(final=f"{verdict.feedback()}\n{verdict.reasons[-1]}")

    def note_denied_answer(self, verdict: Verdict) -> None:
        """Notes a denied final answer, and takes it out of the memory, whose steps the user may see."""
        self.denied_answers += 1
        for name in _WRITTEN if self.memory_step is not None else ():
            setattr(self.memory_step, name, None)
        self.note("final_answer", verdict)
        if self.denied_answers >= MAX_DENIED_ANSWERS:
            self.final = withheld(verdict)

    def _end(self, final: str | None = None, halted: AgentHalted | None = None) -> None:
        run: SmolagentsRun | None = self
        while run is not None:
            run.final, run.halted = run.final or final, run.halted or halted
            run = run.outer


@dataclass(frozen=True, slots=True)
class SmolagentsScope:
    """The surroundings of a call or a run.

    Attributes:
        conversation: its id; None if there is none.
        run: the run; None outside of one.
        call: the running call; runs inside it are parts of its conversation.
    """

    conversation: str | None
    run: SmolagentsRun | None = None
    call: HostCall | None = None


_scope: ContextVar[SmolagentsScope | None] = ContextVar("guardagent_smolagents", default=None)


def scope() -> SmolagentsScope | None:
    """Returns the surroundings of the calling code; None if there are none."""
    return _scope.get()


@contextmanager
def enter(around: SmolagentsScope) -> Iterator[None]:
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
    with enter(around if around is not None and around.call is not None else SmolagentsScope(name)):
        yield


def withheld(verdict: Verdict) -> str:
    """Returns the text in place of a denied final answer."""
    return f"The answer is withheld.\n{verdict.feedback()}"
