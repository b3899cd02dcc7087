"""The runs of agents, and the conversation that each belongs to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from guardagent.enforcement import HostCall
from guardagent.enforcement.tool_guard import gave_up
from guardagent.errors import ToolDenied
from guardagent.frameworks.adk.adapter.messages import ShownMessages
from guardagent.types import Decision, Verdict

UNNAMED = "this run names no conversation: the function conversation=... of the GuardPlugin has returned none"
MAX_RUNS = 10_000  # a run that is cancelled leaves its record behind


class RunnerHalted(ToolDenied):
    """A rule has halted the run: iterating over its events raises this. `verdict` says why."""


@dataclass(slots=True)
class AdkRun:
    """One invocation of a runner.

    Attributes:
        conversation: its id; None if there is none.
        outer: the run around it, whose tool runs it; None for a run that a program started.
        nested: whether it runs inside a tool.
        final: the guard's answer, which ends the run.
        halted: the halt that ends the run.
        passed: the answers that were judged and may be shown.
        shown: the messages of the session.
        notes: the adapter's notes on the conversation; None until they are read.
    """

    conversation: str | None
    outer: AdkRun | None = None
    nested: bool = False
    final: str | None = None
    halted: RunnerHalted | None = None
    passed: set[str] = field(default_factory=set)
    shown: ShownMessages = field(default_factory=ShownMessages)
    notes: dict[Any, Any] | None = None

    def note(self, tool: str, verdict: Verdict) -> None:
        """Notes a denial. After a halt, or once the agent gave up, this run and those around it end."""
        halted = RunnerHalted(tool, verdict) if verdict.decision is Decision.HALT else None
        final = f"{verdict.feedback()}\n{verdict.reasons[-1]}" if gave_up(verdict) else None
        run: AdkRun | None = self
        while run is not None:
            run.final, run.halted = run.final or final, run.halted or halted
            run = run.outer


@dataclass(frozen=True, slots=True)
class AdkScope:
    """The surroundings of the code inside a tool.

    Attributes:
        run: the run that called the tool.
        call: the running call; runs inside it are parts of its conversation.
        calls: the `AdkCalls` that judge further calls.
    """

    run: AdkRun
    call: HostCall
    calls: Any


_scope: ContextVar[AdkScope | None] = ContextVar("guardagent_adk", default=None)


def scope() -> AdkScope | None:
    """Returns the surroundings of the calling code; None outside of a guarded tool."""
    return _scope.get()


@contextmanager
def enter(around: AdkScope) -> Iterator[None]:
    """Code inside has these surroundings."""
    token = _scope.set(around)
    try:
        yield
    finally:
        _scope.reset(token)


class AdkRuns:
    """The runs of one plugin, by their invocation in a session."""

    def __init__(self) -> None:
        self._known: dict[Any, AdkRun] = {}

    def of(self, context: Any, name: Callable[[], str | None]) -> AdkRun:
        """Returns the run of a context; begins it with this conversation if it is new."""
        key = _key(context)
        if (known := self._known.get(key)) is not None:
            return known
        around = scope()
        run = AdkRun(name()) if around is None else AdkRun(around.call.conversation, around.run, nested=True)
        while len(self._known) >= MAX_RUNS:
            self._known.pop(next(iter(self._known)), None)
        self._known[key] = run
        return run

    def end(self, context: Any) -> None:
        self._known.pop(_key(context), None)


def _key(context: Any) -> tuple[str, str, str, str]:
    session = context.session
    return session.app_name, session.user_id, session.id, context.invocation_id


def conversation_id(app_name: str, user_id: str, session_id: str) -> str:
    """Returns the guard's id of a session of ADK, which is unique only with its app and its user."""
    return "/".join(quote(one, safe="@") for one in (app_name, user_id, session_id))
