"""The runs of agents, and the conversation that each belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from strands.types.exceptions import EventLoopException

from guardagent.enforcement.hosts import HostScope, HostSurroundings, ModelRun
from guardagent.errors import ToolDenied
from guardagent.frameworks.strands.adapter.messages import chat, result_ids
from guardagent.types import Verdict

UNNAMED = (
    "this run names no conversation: run the agent inside 'with conversation(id):', with a session manager, or pass "
    "conversation=..."
)


class StrandsHalted(ToolDenied, EventLoopException):
    """A rule has halted the run: the agent raises this. `verdict` says why.

    As an `EventLoopException`, the host lets it through as it is.
    """

    def __init__(self, tool: str, verdict: Verdict) -> None:
        ToolDenied.__init__(self, tool, verdict)
        self.original_exception, self.request_state = self, dict[str, Any]()


@dataclass(slots=True)
class StrandsRun(ModelRun):
    """One run of an agent.

    Attributes:
        answers: whether its last text is an answer to the user.
    """

    halt_error = StrandsHalted

    answers: bool = True

    def show(self, messages: Sequence[Any], proposed: set[str]) -> None:
        """Takes over the agent's messages.

        Args:
            messages: in the host's form.
            proposed: the ids of the calls that models proposed under this guard, which may have been denied.
        """
        self.messages = chat(messages)
        self.seen = [one for one in result_ids(messages) if one not in proposed]


@dataclass(frozen=True, slots=True)
class StrandsScope(HostScope):
    """The surroundings of a call or a run.

    Attributes:
        delegated: whether the answer of an agent in this call is the answer to the user.
    """

    run: StrandsRun | None = None
    delegated: bool = False


SURROUNDINGS = HostSurroundings("strands", StrandsScope)
scope, enter, conversation = SURROUNDINGS.scope, SURROUNDINGS.enter, SURROUNDINGS.conversation
within = SURROUNDINGS.stream_within


def surroundings(named: str | None, session: str | None) -> StrandsScope:
    """Returns the surroundings of a new run: within a tool, those of the call.

    Args:
        named: the conversation that the operator names, if any.
        session: the id of the host's session, if any.
    """
    around = scope()
    if around is not None and around.call is not None:
        run = StrandsRun(around.run, answers=around.delegated)
        if around.delegated and around.run is not None:
            run.passed = around.run.passed
        return StrandsScope(around.conversation, run, around.call)
    outside = around.conversation if around is not None else None
    return StrandsScope(named or outside or session, StrandsRun())
