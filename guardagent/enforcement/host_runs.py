"""The runs of agents, and the surroundings of a host's code: the conversation, the run and the call it is part of."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Self, TypeVar

from guardagent._support.execution import Operation
from guardagent._support.files import random_id
from guardagent.enforcement.calls import HostCall
from guardagent.enforcement.decisions import gave_up
from guardagent.errors import InputError, ToolDenied
from guardagent.types import Decision, Verdict

# --- runs


@dataclass(slots=True)
class HostRun:
    """One run of an agent.

    Attributes:
        halt_error: the class of the error that a halted run raises.
        outer: the run around it, whose tool runs it; None for a run that a program started.
        final: the guard's answer, which ends the run.
        halted: the halt that ends the run.
        passed: the answers that were judged and may be shown.
    """

    halt_error: ClassVar[type[ToolDenied]] = ToolDenied

    outer: Self | None = None
    id: str = field(default_factory=random_id)
    final: str | None = None
    halted: ToolDenied | None = None
    passed: set[str] = field(default_factory=set)

    def may_show(self, text: str) -> bool:
        """Whether an answer needs no judgment: it has passed before, or is the guard's own."""
        return text in self.passed or (self.final is not None and text == self.final)

    def note(self, tool: str, verdict: Verdict) -> None:
        """Notes a denial. After a halt, or once the agent gave up, this run and those around it end."""
        halted = self.halt_error(tool, verdict) if verdict.decision is Decision.HALT else None
        final = f"{verdict.feedback()}\n{verdict.reasons[-1]}" if gave_up(verdict) else None
        run: HostRun | None = self
        while run is not None:
            run.final, run.halted = run.final or final, run.halted or halted
            run = run.outer

    def call_options(self, *, nested: bool) -> dict[str, Any]:  # noqa: ARG002 - of runs that see messages
        """Returns the options of a `HostCall` in this run. A call within another one shows no messages."""
        return {}


@dataclass(slots=True)
class ModelRun(HostRun):
    """A run whose adapter sees the model's messages.

    Attributes:
        step: the number of the model's messages.
        messages: the messages that the model has read, as rules read them.
        seen: the ids of the calls whose results are among these.
    """

    step: int = 0
    messages: Sequence[dict[str, str]] = ()
    seen: Sequence[str] = ()

    def call_options(self, *, nested: bool) -> dict[str, Any]:
        step = {"step": f"{self.id}.{self.step}"}
        return step if nested else {**step, "messages": self.messages, "seen": self.seen}


# --- surroundings

Named = str | Callable[[], str | None] | None
"""The conversation's id, or a function that returns it."""


def naming(named: Named) -> Callable[[], str | None]:
    """Returns a function that returns the operator's name of the conversation; None if there is none."""
    return named if callable(named) else lambda: named


@dataclass(frozen=True, slots=True)
class HostScope:
    """The surroundings of a run or a call.

    Attributes:
        conversation: its id; None if there is none.
        run: the run; None outside of one.
        call: the running call; runs inside it are parts of its conversation.
        tool_id: the host's id of the call that is about to run; None if it has none, or does not tell it.
    """

    conversation: str | None
    run: Any = None
    call: HostCall | None = None
    tool_id: str | None = None

    @property
    def inside(self) -> bool:
        """Whether a run that begins here belongs to this conversation, whatever it is called elsewhere."""
        return self.call is not None


HostScopeT = TypeVar("HostScopeT", bound=HostScope)


class HostSurroundings(Generic[HostScopeT]):
    """Holds the surroundings of the running code of a host, for each thread and task.

    Args:
        host: the framework.
        kind: the class of its surroundings.
        states_usage: whether the host states what models have used.
    """

    def __init__(self, host: str, kind: Callable[..., HostScopeT], *, states_usage: bool = False) -> None:
        self.host, self.kind, self.states_usage = host, kind, states_usage
        self._held: ContextVar[HostScopeT | None] = ContextVar(f"guardagent_{host}", default=None)

    def scope(self) -> HostScopeT | None:
        """Returns the surroundings of the calling code; None if there are none."""
        return self._held.get()

    @contextmanager
    def enter(self, around: HostScopeT | None) -> Iterator[None]:
        """Code inside has these surroundings."""
        token = self._held.set(around)
        try:
            yield
        finally:
            self._held.reset(token)

    @contextmanager
    def conversation(self, name: str) -> Iterator[None]:
        """Runs that begin inside belong to this conversation; within a tool, to the one that the tool was called in."""
        around = self.scope()
        with self.enter(around if around is not None and around.inside else self.kind(name)):
            yield

    def begin(self, new_run: Callable[[Any], HostRun], named: str | None, session: str | None = None) -> HostScopeT:
        """Returns the surroundings of a new run: within a tool, those of the call.

        Args:
            new_run: returns the run, from the run around it.
            named: the conversation that the operator names, if any.
            session: the id of the host's session, if any.
        """
        around = self.scope()
        if around is not None and around.inside:
            return self.kind(around.conversation, new_run(around.run), around.call)
        outside = around.conversation if around is not None else None
        return self.kind(named or outside or session, new_run(None))

    def within(self, around: HostScopeT, work: Operation) -> Operation:
        """Returns work that runs in these surroundings."""

        def run() -> Any:
            with self.enter(around):
                return work.sync_call()

        async def arun() -> Any:
            with self.enter(around):
                return await work.async_call()

        return Operation(run, arun)

    async def stream_within(self, around: HostScopeT, events: AsyncGenerator[Any, None]) -> AsyncGenerator[Any, None]:
        """Yields events, each made in these surroundings. The code between them keeps its own."""
        try:
            while True:
                with self.enter(around):
                    try:
                        event = await anext(events)
                    except StopAsyncIteration:
                        return
                yield event
        finally:
            with self.enter(around):
                await events.aclose()


def awaited(work: Callable[[], Awaitable[Any]]) -> Operation:
    """Returns work of a host whose calls have to be awaited."""
    return Operation(_no_sync, work)


def _no_sync() -> Any:
    raise InputError("calls of this host have to be awaited")
