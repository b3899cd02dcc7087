"""The runs of crews and agents, and the conversation that each belongs to."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from crewai.hooks.dispatch import HookAborted

from guardagent.enforcement import HostCall
from guardagent.enforcement.tool_guard import gave_up
from guardagent.errors import ToolDenied
from guardagent.types import Decision, Verdict

UNNAMED = "this run names no conversation: kick it off inside 'with conversation(id):', or pass conversation=..."


class CrewHalted(ToolDenied, HookAborted):
    """A rule has halted the run: a kickoff raises this. `verdict` says why.

    It is a HookAborted, which the host neither retries nor shows to the model.
    """

    def __init__(self, tool: str, verdict: Verdict) -> None:
        ToolDenied.__init__(self, tool, verdict)
        self.reason, self.source = str(self), "guardagent"


class RunEndedError(HookAborted):
    """Ends the steps of an agent whose guard gave up; its text is the agent's answer."""


@dataclass(slots=True)
class CrewRun:
    """One run of a crew, or of an agent in it.

    Attributes:
        outer: the run around it; None for a run that a program started.
        executor: the agent's executor; None for a crew.
        last_task: the task whose output is the crew's answer.
        final: the guard's answer, which ends the run.
        halted: the halt that ends the run.
        passed: the answers that were judged and may be shown.
    """

    outer: CrewRun | None = None
    executor: Any = None
    last_task: Any = None
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    final: str | None = None
    halted: CrewHalted | None = None
    passed: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        if self.outer is not None:
            self.final, self.halted = self.outer.final, self.outer.halted

    @property
    def step(self) -> str | None:
        """The model's turn; None where several turns have one number, in the steps of a plan."""
        executor = self.executor
        planned = executor is None or executor._step_executor is not None  # noqa: SLF001 - a part that is required
        return None if planned else f"{self.id}.{executor.state.iterations}"

    def note(self, tool: str, verdict: Verdict) -> None:
        """Notes a denial. After a halt, or once the agent gave up, this run and those around it end."""
        halted = CrewHalted(tool, verdict) if verdict.decision is Decision.HALT else None
        final = f"{verdict.feedback()}\n{verdict.reasons[-1]}" if gave_up(verdict) else None
        run: CrewRun | None = self
        while run is not None:
            run.final, run.halted = run.final or final, run.halted or halted
            run = run.outer

    def check(self) -> None:
        """Ends the run if its guard has.

        Raises:
            CrewHalted: a rule has halted it.
            RunEndedError: the agent gave up.
        """
        if self.halted is not None:
            raise self.halted
        if self.final is not None:
            raise RunEndedError(self.final, "guardagent")


@dataclass(frozen=True, slots=True)
class CrewScope:
    """The surroundings of a call or a run.

    Attributes:
        conversation: its id; None if there is none.
        run: the run; None outside of one.
        call: the running call; runs inside it are parts of its conversation.
        tool_id: the host's id of the call that is about to run.
    """

    conversation: str | None
    run: CrewRun | None = None
    call: HostCall | None = None
    tool_id: str | None = None


_scope: ContextVar[CrewScope | None] = ContextVar("guardagent_crewai", default=None)


def scope() -> CrewScope | None:
    """Returns the surroundings of the calling code; None if there are none."""
    return _scope.get()


@contextmanager
def enter(around: CrewScope | None) -> Iterator[None]:
    """Code inside has these surroundings."""
    token = _scope.set(around)
    try:
        yield
    finally:
        _scope.reset(token)


@contextmanager
def conversation(name: str) -> Iterator[None]:
    """Runs that begin inside belong to this conversation; within a run, to that of the run."""
    around = scope()
    within = around is not None and (around.call is not None or around.run is not None)
    with enter(around if within else CrewScope(name)):
        yield
