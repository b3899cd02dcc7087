"""The surroundings of a host's code: the conversation, the run and the call that it is part of."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from guardagent._support.execution import Operation
from guardagent.enforcement.calls import HostCall
from guardagent.errors import InputError

ScopeT = TypeVar("ScopeT")
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
    """

    conversation: str | None
    run: Any = None
    call: HostCall | None = None

    @property
    def inside(self) -> bool:
        """Whether a run that begins here belongs to this conversation, whatever it is called elsewhere."""
        return self.call is not None


HostScopeT = TypeVar("HostScopeT", bound=HostScope)


class ScopeVariable(Generic[ScopeT]):
    """Holds the surroundings of the running code, for each thread and task.

    Args:
        host: the framework.
    """

    def __init__(self, host: str) -> None:
        self._held: ContextVar[ScopeT | None] = ContextVar(f"guardagent_{host}", default=None)

    def scope(self) -> ScopeT | None:
        """Returns the surroundings of the calling code; None if there are none."""
        return self._held.get()

    @contextmanager
    def enter(self, around: ScopeT | None) -> Iterator[None]:
        """Code inside has these surroundings."""
        token = self._held.set(around)
        try:
            yield
        finally:
            self._held.reset(token)

    def within(self, around: ScopeT, work: Operation) -> Operation:
        """Returns work that runs in these surroundings."""

        def run() -> Any:
            with self.enter(around):
                return work.sync_call()

        async def arun() -> Any:
            with self.enter(around):
                return await work.async_call()

        return Operation(run, arun)

    async def stream_within(self, around: ScopeT, events: AsyncGenerator[Any, None]) -> AsyncGenerator[Any, None]:
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


class HostSurroundings(ScopeVariable[HostScopeT]):
    """The surroundings of a host whose programs name conversations.

    Args:
        host: the framework.
        kind: the class of its surroundings.
    """

    def __init__(self, host: str, kind: Callable[[str], HostScopeT]) -> None:
        super().__init__(host)
        self._kind = kind

    @contextmanager
    def conversation(self, name: str) -> Iterator[None]:
        """Runs that begin inside belong to this conversation; within a tool, to the one that the tool was called in."""
        around = self.scope()
        with self.enter(around if around is not None and around.inside else self._kind(name)):
            yield


def awaited(work: Callable[[], Awaitable[Any]]) -> Operation:
    """Returns work of a host whose calls have to be awaited."""
    return Operation(_no_sync, work)


def _no_sync() -> Any:
    raise InputError("calls of this host have to be awaited")
