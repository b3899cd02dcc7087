"""The turns of agents, and the conversation that each belongs to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from guardagent.enforcement.hosts import HostScope, HostSurroundings, ModelRun
from guardagent.errors import ToolDenied

UNNAMED = (
    "this turn names no conversation: call the agent inside 'with conversation(id):', or pass conversation=..., such "
    "as 'stream_id' if the program passes the stream"
)


class AskHalted(ToolDenied):
    """A rule has halted the turn: `agent.ask` raises this. `verdict` says why."""


@dataclass(slots=True, kw_only=True)
class Ag2Run(ModelRun):
    """One turn of an agent, from a request to the answer.

    Attributes:
        agent: the name of the agent.
        proposed: the ids of the calls that models have proposed in this conversation.
    """

    halt_error = AskHalted

    agent: str
    proposed: set[str]


@dataclass(frozen=True, slots=True)
class Ag2Scope(HostScope):
    """The surroundings of a call or a turn.

    Attributes:
        tool_id: the host's id of the call that is about to run.
        context: the host's context of that call.
    """

    run: Ag2Run | None = None
    tool_id: str | None = None
    context: Any = None

    @property
    def inside(self) -> bool:
        return self.run is not None or self.call is not None


SURROUNDINGS = HostSurroundings("ag2", Ag2Scope)
scope, enter, conversation = SURROUNDINGS.scope, SURROUNDINGS.enter, SURROUNDINGS.conversation
