"""The runs of a host's agents, and how the guard ends them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from guardagent._support.files import random_id
from guardagent.enforcement.call_recorder import gave_up
from guardagent.errors import ToolDenied
from guardagent.types import Decision, Verdict


@dataclass(slots=True)
class HostRun:
    """One run of an agent.

    Attributes:
        halt_error: the class of the error that a halted run raises.
        outer: the run around it, whose tool runs it; None for a run that a program started.
        final: the guard's answer, which ends the run.
        halted: the halt that ends the run.
    """

    halt_error: ClassVar[type[ToolDenied]] = ToolDenied

    outer: Self | None = None
    id: str = field(default_factory=random_id)
    final: str | None = None
    halted: ToolDenied | None = None

    def note(self, tool: str, verdict: Verdict) -> None:
        """Notes a denial. After a halt, or once the agent gave up, this run and those around it end."""
        halted = self.halt_error(tool, verdict) if verdict.decision is Decision.HALT else None
        final = f"{verdict.feedback()}\n{verdict.reasons[-1]}" if gave_up(verdict) else None
        run: HostRun | None = self
        while run is not None:
            run.final, run.halted = run.final or final, run.halted or halted
            run = run.outer


@dataclass(slots=True)
class ModelRun(HostRun):
    """A run whose adapter sees the model's messages.

    Attributes:
        step: the number of the model's messages.
        messages: the messages that the model has read, as rules read them.
        seen: the ids of the calls whose results are among these.
        passed: the answers that were judged and may be shown.
    """

    step: int = 0
    messages: Sequence[dict[str, str]] = ()
    seen: Sequence[str] = ()
    passed: set[str] = field(default_factory=set)

    def call_options(self, *, nested: bool) -> dict[str, Any]:
        """Returns the options of a `HostCall` in this run. A call within another one shows no messages."""
        step = {"step": f"{self.id}.{self.step}"}
        return step if nested else {**step, "messages": self.messages, "seen": self.seen}
