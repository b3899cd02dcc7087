"""The runs of agents, and the conversation that each belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from guardagent.enforcement import EnforcementPoint, HostCall
from guardagent.enforcement.decisions import gave_up
from guardagent.enforcement.hosts import HostScope, HostSurroundings, ModelRun, proposed_ids
from guardagent.errors import ToolDenied
from guardagent.types import Verdict

UNNAMED = (
    "this run names no conversation: pass conversation_id=... to it, run the agent inside 'with conversation(id):', or "
    "attach the guard with conversation=..."
)


class AgentRunHalted(ToolDenied):
    """A rule has halted the run: `agent.run` raises this. `verdict` says why."""


class AgentRunEnded(ToolDenied):
    """The agent gave up after too many denials, and its output cannot be a text. `verdict` says why."""


@dataclass(slots=True, eq=False, kw_only=True)
class PydanticRun(ModelRun):
    """One run of an agent.

    Attributes:
        named: the conversation, if the operator or a scope names it.
        explicit: whether the program named the host's conversation of this run.
        call: the running call around it.
        streamed: whether `run_stream` runs it, whose first text is the answer whatever follows.
        waits: whether the run may end with requests to reviewers.
        functions: the output functions by name.
        rejected: the ids of the calls that a reviewer has rejected, and the host's metadata of each.
        gave_up: the verdict after which the agent gave up.
        host_conversation: the host's id of the conversation.
    """

    halt_error = AgentRunHalted

    named: str | None = None
    explicit: bool = False
    call: HostCall | None = None
    streamed: bool = False
    waits: bool = False
    functions: Mapping[str, Any] = field(default_factory=dict)
    rejected: Mapping[str, Any] = field(default_factory=dict)
    gave_up: Verdict | None = None
    host_conversation: str | None = None

    @property
    def conversation(self) -> str | None:
        """The id of the conversation; None if nobody has named it."""
        return self.named or (self.host_conversation if self.explicit else None)

    def read(self, ctx: Any) -> None:
        """Reads the host's id of the conversation."""
        self.host_conversation = ctx.conversation_id

    def proposed(self, guard: EnforcementPoint) -> set[str]:
        """Returns the ids of the calls that models proposed in this conversation."""
        return proposed_ids(guard, self.conversation)

    def note(self, tool: str, verdict: Verdict) -> None:
        ModelRun.note(self, tool, verdict)
        run: PydanticRun | None = self
        while run is not None and gave_up(verdict):
            run.gave_up = run.gave_up or verdict
            run = run.outer


@dataclass(slots=True)
class Permission:
    """The permission of a call on its way to its tool. The toolset that has the tool uses it once.

    Attributes:
        tool: the name of the tool.
        args: the judged arguments, as rules read them.
        used: whether it was used.
    """

    tool: str
    args: Any
    used: bool = False


@dataclass(frozen=True, slots=True)
class PydanticScope(HostScope):
    """The surroundings of a call. Its run is the one whose call this is.

    Attributes:
        permission: the permission of that call.
    """

    run: PydanticRun | None = None
    permission: Permission | None = None


SURROUNDINGS = HostSurroundings("pydantic_ai", PydanticScope)
scope, enter, conversation = SURROUNDINGS.scope, SURROUNDINGS.enter, SURROUNDINGS.conversation


def new_run(named: str | None, *, explicit: bool, **options: Any) -> PydanticRun:
    """Returns a new run: within a tool, in the conversation of the call.

    Args:
        named: the conversation that the operator names, if any.
        explicit: whether the program names the host's conversation.
        options: further attributes.
    """
    around = scope()
    if around is not None and around.call is not None:
        return PydanticRun(around.run, named=around.conversation, call=around.call, **options)
    outside = around.conversation if around is not None else None
    return PydanticRun(named=named or outside, explicit=explicit, **options)
