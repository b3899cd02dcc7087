"""The runs of agents, and the conversation that each belongs to."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from guardagent.enforcement import EnforcementPoint, HostCall
from guardagent.enforcement.tool_guard import gave_up
from guardagent.errors import ToolDenied
from guardagent.types import Decision, Verdict

UNNAMED = (
    "this run names no conversation: pass conversation_id=... to it, run the agent inside 'with conversation(id):', or "
    "attach the guard with conversation=..."
)


class AgentRunHalted(ToolDenied):
    """A rule has halted the run: `agent.run` raises this. `verdict` says why."""


class AgentRunEnded(ToolDenied):
    """The agent gave up after too many denials, and its output cannot be a text. `verdict` says why."""


@dataclass(slots=True, eq=False)
class PydanticRun:
    """One run of an agent.

    Attributes:
        named: the conversation, if the operator or a scope names it.
        explicit: whether the program named the host's conversation of this run.
        outer: the run around it, whose tool runs it; None for a run that a program started.
        call: the running call around it.
        streamed: whether `run_stream` runs it, whose first text is the answer whatever follows.
        waits: whether the run may end with requests to reviewers.
        functions: the output functions by name.
        rejected: the ids of the calls that a reviewer has rejected, and the host's metadata of each.
        step: the number of the model's messages.
        final: the verdict after which the agent gave up.
        halted: the halt that ends the run.
        messages: the messages that the model has read, as rules read them.
        seen: the ids of the calls whose results are among these.
        passed: the answers that were judged and may be shown.
        host_conversation: the host's id of the conversation.
    """

    named: str | None = None
    explicit: bool = False
    outer: PydanticRun | None = None
    call: HostCall | None = None
    streamed: bool = False
    waits: bool = False
    functions: Mapping[str, Any] = field(default_factory=dict)
    rejected: Mapping[str, Any] = field(default_factory=dict)
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    step: int = 0
    final: Verdict | None = None
    halted: AgentRunHalted | None = None
    messages: Sequence[dict[str, str]] = ()
    seen: Sequence[str] = ()
    passed: set[str] = field(default_factory=set)
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
        known: set[str] = guard.notes(self.conversation).setdefault("proposed", set()) if self.conversation else set()
        return known

    def note(self, tool: str, verdict: Verdict) -> None:
        """Notes a denial. After a halt, or once the agent gave up, this run and those around it end."""
        halted = AgentRunHalted(tool, verdict) if verdict.decision is Decision.HALT else None
        final = verdict if gave_up(verdict) else None
        run: PydanticRun | None = self
        while run is not None:
            run.final, run.halted = run.final or final, run.halted or halted
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
class PydanticScope:
    """The surroundings of a call or a run.

    Attributes:
        conversation: its id; None if there is none.
        run: the run whose call this is; None outside of a call.
        call: the running call; runs inside it are parts of its conversation.
        permission: the permission of that call.
    """

    conversation: str | None
    run: PydanticRun | None = None
    call: HostCall | None = None
    permission: Permission | None = None


_scope: ContextVar[PydanticScope | None] = ContextVar("guardagent_pydantic_ai", default=None)


def scope() -> PydanticScope | None:
    """Returns the surroundings of the calling code; None if there are none."""
    return _scope.get()


@contextmanager
def enter(around: PydanticScope) -> Iterator[None]:
    """Code inside has these surroundings."""
    token = _scope.set(around)
    try:
        yield
    finally:
        _scope.reset(token)


@contextmanager
def conversation(name: str) -> Iterator[None]:
    """Runs that begin inside belong to this conversation; within a tool, to the one that the tool was called in."""
    around = scope()
    with enter(around if around is not None and around.call is not None else PydanticScope(name)):
        yield


def new_run(named: str | None, *, explicit: bool, **options: Any) -> PydanticRun:
    """Returns a new run: within a tool, in the conversation of the call.

    Args:
        named: the conversation that the operator names, if any.
        explicit: whether the program names the host's conversation.
        options: further attributes.
    """
    around = scope()
    if around is not None and around.call is not None:
        return PydanticRun(around.conversation, outer=around.run, call=around.call, **options)
    outside = around.conversation if around is not None else None
    return PydanticRun(named or outside, explicit=explicit, **options)
