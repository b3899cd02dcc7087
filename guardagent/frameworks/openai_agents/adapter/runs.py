"""The conversation of a run, and the state of the run.

A tool does not see the SDK's session, so the conversation comes from the first of these that
exists: the enclosing run; `GuardedRunner` or `with conversation(id)`; `conversation_id` or `session_id` of
the context object; `group_id` of the RunConfig.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agents import get_current_trace

from guardagent.enforcement.hosts import HostScope, HostSurroundings

UNNAMED = (
    "this run names no conversation: run it with GuardedRunner and a session, inside conversation(id), with a context "
    "that has a conversation_id, or with RunConfig(group_id=...)"
)


@dataclass(slots=True)
class AgentRun:
    """One run: of Runner, or of an agent as a tool inside one.

    Attributes:
        step: the number of model calls.
        agent: the current agent.
        input: the items at the start of the run.
        turn_reported: whether the guard was notified of the user's turn.
        final: the answer with which the guard ended the run.
        proposed: the ids of the calls that its models proposed.
        texts: those of the last response of a model.
    """

    step: int = 0
    agent: Any = None
    input: list[Any] = field(default_factory=list)
    turn_reported: bool = False
    final: str | None = None
    proposed: set[str] = field(default_factory=set)
    texts: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class RunScope(HostScope):
    """The surroundings of a run. Its run is that of an agent as a tool, which shares all else with the enclosing one.

    Attributes:
        held: whether GuardedRunner holds the stream.
    """

    run: AgentRun | None = None
    held: bool = False


SURROUNDINGS = HostSurroundings("openai_agents", RunScope)
scope, enter, conversation = SURROUNDINGS.scope, SURROUNDINGS.enter, SURROUNDINGS.conversation


class Runs:
    """The runs that are under way, by the usage object that all contexts of a run share."""

    def __init__(self) -> None:
        self._known: dict[int, AgentRun] = {}

    def of(self, context: Any) -> AgentRun:
        around = scope()
        if around is not None and around.run is not None:
            return around.run
        usage = context.usage
        if id(usage) not in self._known:
            self._known[id(usage)] = AgentRun()
            weakref.finalize(usage, self._known.pop, id(usage), None).atexit = False
        return self._known[id(usage)]


def conversation_of(context: Any, find: Callable[[Any], str | None] | None = None) -> str | None:
    """Returns the id of a context's conversation; None if there is none.

    Args:
        context: of the tool, or of the run.
        find: the operator's function that finds it.
    """
    around = scope()
    if around is not None and around.conversation:
        return around.conversation
    if find is not None:
        return find(context)
    group = getattr(getattr(context, "run_config", None), "group_id", None)
    trace = getattr(get_current_trace(), "group_id", None)
    found = [_field(context.context, "conversation_id"), _field(context.context, "session_id"), group, trace]
    return next((one for one in found if isinstance(one, str) and one), None)


def _field(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
