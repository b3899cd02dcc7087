"""The runs of agents and teams, and the conversation that each belongs to."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field

from guardagent.enforcement import HostCall
from guardagent.enforcement.hosts import HostRun, HostScope, HostSurroundings
from guardagent.errors import ToolDenied

UNNAMED = "this run names no conversation: run the agent inside 'with conversation(id):', or pass conversation=..."


class TeamHalted(ToolDenied):
    """A rule has halted the run of an agent or a team: the run raises this. `verdict` says why."""


@dataclass(slots=True)
class AutoGenRun(HostRun):
    """One run that a program or a tool has started; the agents of a team share the team's.

    Attributes:
        call: the call of the tool that has started it.
    """

    halt_error = TeamHalted

    call: HostCall | None = None


@dataclass(slots=True)
class AutoGenTurn:
    """An agent's part of a run: from the messages that it gets to its response.

    Attributes:
        agent: its name.
        proposed: the ids of the calls that models have proposed in this conversation.
        step: the number of the model's messages.
        messages: the messages that the model has read, as rules read them.
        seen: the ids of the calls whose results are among these, and that no model has proposed here.
    """

    agent: str
    proposed: set[str]
    id: str = field(default_factory=lambda: secrets.token_hex(4))
    step: int = 0
    messages: Sequence[dict[str, str]] = ()
    seen: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class AutoGenScope(HostScope):
    """The surroundings of a call or a run.

    Attributes:
        turn: the agent's part of the run; None outside of an agent.
        tool_id: the host's id of the call that is about to run.
    """

    run: AutoGenRun | None = None
    turn: AutoGenTurn | None = None
    tool_id: str | None = None

    @property
    def inside(self) -> bool:
        return self.run is not None or self.call is not None


SURROUNDINGS = HostSurroundings("autogen", AutoGenScope)
scope, enter, conversation = SURROUNDINGS.scope, SURROUNDINGS.enter, SURROUNDINGS.conversation
