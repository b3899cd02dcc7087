"""The runs of agents, the conversation that each belongs to, and an agent's memory as rules read it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from smolagents.memory import ActionStep, TaskStep

from guardagent.enforcement.host_adapter import withheld
from guardagent.enforcement.host_runs import HostScope, HostSurroundings, ModelRun
from guardagent.errors import ToolDenied
from guardagent.types import Verdict

# --- runs

UNNAMED = "this run names no conversation: run the agent inside 'with conversation(id):', or pass conversation=..."
MAX_DENIED_ANSWERS = 3
_WRITTEN = ("model_output", "model_output_message", "code_action", "observations", "action_output", "tool_calls")


class AgentHalted(ToolDenied):
    """A rule has halted the run: `agent.run` raises this. `verdict` says why."""


@dataclass(slots=True, kw_only=True)
class SmolagentsRun(ModelRun):
    """One run of an agent.

    Attributes:
        agent: the agent.
        parallel: whether the current message has several calls.
        denied_answers: the number of denied final answers.
        memory_step: the host's record of the current step.
    """

    halt_error = AgentHalted

    agent: Any
    parallel: bool = False
    denied_answers: int = 0
    memory_step: Any = None

    def begin_step(self, memory_step: Any, proposed: set[str]) -> None:
        """Begins a step, before which the agent's memory is what the model has read.

        Args:
            memory_step: the host's record of it.
            proposed: the keys of the calls that models proposed under this guard, which may have been denied.
        """
        self.step, self.memory_step, steps = self.step + 1, memory_step, self.agent.memory.steps
        self.messages, self.seen = chat(steps), [shown for key, shown in shown_calls(steps) if key not in proposed]

    def call_options(self, *, nested: bool) -> dict[str, Any]:
        return {**ModelRun.call_options(self, nested=nested), "agent": self.agent.name}

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


# --- memory


def chat(steps: Iterable[Any]) -> list[dict[str, str]]:
    """Returns the tasks and the model's messages."""
    messages: list[dict[str, str]] = []
    for step in steps:
        if isinstance(step, TaskStep):
            messages.append({"role": "user", "content": step.task})
        elif isinstance(step, ActionStep) and isinstance(step.model_output, str):
            messages.append({"role": "assistant", "content": step.model_output})
    return messages


def call_key(call: Any) -> str:
    """Returns what identifies a call in the memory: a model may use an id again."""
    return hashlib.sha256(repr((call.id, call.name, call.arguments)).encode(errors="backslashreplace")).hexdigest()


def shown_calls(steps: Sequence[Any]) -> list[tuple[str, str]]:
    """Returns the key and the id of each call that has a result in the memory."""
    return [
        (call_key(call), str(call.id))
        for step in steps
        if isinstance(step, ActionStep)
        for call in step.tool_calls or ()
        if step.observations is not None
    ]
