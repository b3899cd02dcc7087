"""The runs of chat clients, and the conversation that each belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from agent_framework import MiddlewareFailure

from guardagent.enforcement import HostCall
from guardagent.enforcement.hosts import HostScope, HostSurroundings, ModelRun
from guardagent.errors import ToolDenied
from guardagent.types import EMPTY

UNNAMED = (
    "this run names no conversation: pass session=... to it, run it inside 'with conversation(id):', or attach the "
    "guard with conversation=...; the sessions of a workflow's own agents do not count"
)


class AgentFrameworkHalted(ToolDenied, MiddlewareFailure):
    """A rule has halted the run: awaiting it raises this. `verdict` says why."""


@dataclass(slots=True)
class ClientRun(ModelRun):
    """One request to a chat client, with the tool calls that it leads to.

    Attributes:
        proposed: the ids of the calls that models proposed in this conversation.
        handoffs: the host's names of the tools that hand the conversation over -> the agent that takes over.
        handed_over: whether one of these was called.
    """

    halt_error = AgentFrameworkHalted

    proposed: set[str] = field(default_factory=set)
    handoffs: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    handed_over: bool = False


@dataclass(frozen=True, slots=True)
class ClientScope(HostScope):
    """The surroundings of a run or a call.

    Attributes:
        agent: the name of the agent.
        tool_id: the host's id of the call.
        answered: the host's answer to the approval request of the call; None if there is none.
        asks: whether the host can ask a reviewer, and continue later.
    """

    run: ClientRun | None = None
    agent: str | None = None
    tool_id: str | None = None
    answered: Mapping[str, Any] | None = None
    asks: bool = False

    def of_call(self, tool_id: str | None, answered: Mapping[str, Any] | None) -> ClientScope:
        """Returns the surroundings of a tool's call. Within another call it has neither the host's id nor an answer."""
        if self.call is not None:
            tool_id = answered = None
        return replace(self, tool_id=tool_id, answered=answered)

    def within(self, call: HostCall) -> ClientScope:
        """Returns the surroundings of code that runs inside a call."""
        return replace(self, call=call)


SURROUNDINGS = HostSurroundings("agent_framework", ClientScope)
scope, enter, conversation = SURROUNDINGS.scope, SURROUNDINGS.enter, SURROUNDINGS.conversation


def surroundings(named: str | None, session: str | None, agent: str | None) -> ClientScope:
    """Returns the surroundings of a new run: within a tool, those of the call.

    Args:
        named: the conversation that the operator names, if any.
        session: the id of the session that is passed to the run, if any.
        agent: the name of the agent.
    """
    around = scope()
    if around is not None and around.call is not None:
        return ClientScope(around.conversation, ClientRun(around.run), around.call, agent)
    outside = around.conversation if around is not None else None
    return ClientScope(named or outside or session, ClientRun(), agent=agent)
