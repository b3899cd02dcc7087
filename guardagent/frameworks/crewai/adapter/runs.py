"""The runs of crews and agents, and the conversation that each belongs to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from crewai.hooks.dispatch import HookAborted

from guardagent.enforcement.hosts import HostRun, HostScope, HostSurroundings
from guardagent.errors import ToolDenied
from guardagent.types import Verdict

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


@dataclass(slots=True, kw_only=True)
class CrewRun(HostRun):
    """One run of a crew, or of an agent in it.

    Attributes:
        executor: the agent's executor; None for a crew.
        last_task: the task whose output is the crew's answer.
        passed: the answers that were judged and may be shown.
    """

    halt_error = CrewHalted

    executor: Any = None
    last_task: Any = None
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
class CrewScope(HostScope):
    """The surroundings of a call or a run.

    Attributes:
        tool_id: the host's id of the call that is about to run.
    """

    run: CrewRun | None = None
    tool_id: str | None = None

    @property
    def inside(self) -> bool:
        return self.run is not None or self.call is not None


SURROUNDINGS = HostSurroundings("crewai", CrewScope)
scope, enter, conversation = SURROUNDINGS.scope, SURROUNDINGS.enter, SURROUNDINGS.conversation
