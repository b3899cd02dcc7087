"""The runs of agents, and the conversation that each belongs to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from guardagent.enforcement.hosts import HostScope, HostSurroundings, ModelRun
from guardagent.errors import ToolDenied

UNNAMED = (
    "this run names no conversation: run the agent inside 'with conversation(id):', with a memory=Memory that has a "
    "session_id, or pass conversation=..."
)


class WorkflowHalted(ToolDenied):
    """A rule has halted the run: awaiting its handler raises this. `verdict` says why."""


class LlamaRun(ModelRun):
    """One run of an agent or an AgentWorkflow."""

    halt_error = WorkflowHalted


@dataclass(frozen=True, slots=True)
class LlamaScope(HostScope):
    """The surroundings of a call or a run.

    Attributes:
        ctx: the context of the workflow, whose step calls a tool.
        tool_id: the host's id of that call.
        agent: the name of the agent.
    """

    run: LlamaRun | None = None
    ctx: Any = None
    tool_id: str | None = None
    agent: str | None = None


SURROUNDINGS = HostSurroundings("llama_index", LlamaScope)
scope, enter, conversation = SURROUNDINGS.scope, SURROUNDINGS.enter, SURROUNDINGS.conversation


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
