"""The runs of agents, and the conversation that each belongs to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from guardagent.enforcement.hosts import HostRun, HostScope, HostSurroundings, withheld
from guardagent.errors import ToolDenied
from guardagent.types import Verdict

UNNAMED = "this run names no conversation: run the agent inside 'with conversation(id):', or pass conversation=..."
MAX_DENIED_ANSWERS = 3
_WRITTEN = ("model_output", "model_output_message", "code_action", "observations", "action_output", "tool_calls")


class AgentHalted(ToolDenied):
    """A rule has halted the run: `agent.run` raises this. `verdict` says why."""


@dataclass(slots=True, kw_only=True)
class SmolagentsRun(HostRun):
    """One run of an agent.

    Attributes:
        agent: the agent.
        step: the number of the agent's steps.
        parallel: whether the current message has several calls.
        denied_answers: the number of denied final answers.
        memory_step: the host's record of the current step.
    """

    halt_error = AgentHalted

    agent: Any
    step: int = 0
    parallel: bool = False
    denied_answers: int = 0
    memory_step: Any = None

    def note_denied_answer(self, verdict: Verdict) -> None:
        """Notes a denied final answer, and takes it out of the memory, whose steps the user may see."""
        self.denied_answers += 1
        for name in _WRITTEN if self.memory_step is not None else ():
            setattr(self.memory_step, name, None)
        self.note("final_answer", verdict)
        if self.denied_answers >= MAX_DENIED_ANSWERS:
            self.final = withheld(verdict)


@dataclass(frozen=True, slots=True)
class SmolagentsScope(HostScope):
    """The surroundings of a call or a run."""

    run: SmolagentsRun | None = None


SURROUNDINGS = HostSurroundings("smolagents", SmolagentsScope)
scope, enter, conversation = SURROUNDINGS.scope, SURROUNDINGS.enter, SURROUNDINGS.conversation
