"""The runs of agents, and the conversation that each belongs to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from guardagent.enforcement import HostCall
from guardagent.enforcement.hosts import HostRun, ScopeVariable
from guardagent.errors import ToolDenied
from guardagent.frameworks.adk.adapter.messages import ShownMessages

UNNAMED = "this run names no conversation: the function conversation=... of the GuardPlugin has returned none"
MAX_RUNS = 10_000  # a run that is cancelled leaves its record behind


class RunnerHalted(ToolDenied):
    """A rule has halted the run: iterating over its events raises this. `verdict` says why."""


@dataclass(slots=True, kw_only=True)
class AdkRun(HostRun):
    """One invocation of a runner.

    Attributes:
        conversation: its id; None if there is none.
        nested: whether it runs inside a tool.
        passed: the answers that were judged and may be shown.
        shown: the messages of the session.
        notes: the adapter's notes on the conversation; None until they are read.
    """

    halt_error = RunnerHalted

    conversation: str | None
    nested: bool = False
    passed: set[str] = field(default_factory=set)
    shown: ShownMessages = field(default_factory=ShownMessages)
    notes: dict[Any, Any] | None = None


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


SURROUNDINGS: ScopeVariable[AdkScope] = ScopeVariable("adk")
scope, enter = SURROUNDINGS.scope, SURROUNDINGS.enter


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
        run = (
            AdkRun(conversation=name())
            if around is None
            else AdkRun(around.run, conversation=around.call.conversation, nested=True)
        )
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
