"""The possible next speakers of a group of AG2 under a pattern: hand-offs first, then the work after a turn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from guardagent.frameworks.autogen.source.chats.handoffs import (
    AFTER,
    ANYONE,
    CONDITIONS,
    STAY,
    TERMINATE,
    USER,
    targets_of,
)
from guardagent.frameworks.autogen.source.chats.speakers import NextSpeaker
from guardagent.frameworks.autogen.source.chats.tools import PACKAGE
from guardagent.frameworks.autogen.source.participants import ChatParticipant
from guardagent.workflow.extraction.objects import Alternatives, UnknownValue, flattened, is_a
from guardagent.workflow.python_source.bodies import ReadableFunction
from guardagent.workflow.python_source.interpreter import Interpreter
from guardagent.workflow.python_source.stubs import FunctionStub

_HANDOFF, _AFTER_WORK, _RETURNS = "a hand-off", "", "the person answers"
_SETS_ALL = {"RoundRobinPattern", "RandomPattern"}
"""The patterns that replace the work after a turn of all their agents."""

_AFTER_BY_PATTERN = {"AutoPattern": [ANYONE], "ManualPattern": [ANYONE], "RandomPattern": [ANYONE]}


class PatternSpeakers:
    """The agents of a group, with its person last, and who follows whom."""

    def __init__(self, pattern: Any) -> None:
        self.pattern = pattern
        listed = pattern.agents
        user = pattern.user_agent
        self.user = user if user is not None else None
        members = flattened(listed)
        if type(pattern).__name__ == "RoundRobinPattern":  # the first agent begins its round
            members.sort(key=lambda one: one is not pattern.initial_agent)
        self.agents = [*members, *([self.user] if self.user is not None else [])]
        self.unknown: dict[str, None] = {}
        if any(isinstance(one, Alternatives) for one in listed):
            self.unknown["the order of the agents is unknown"] = None
        self._found: dict[int, list[NextSpeaker]] = {}

    def after(self, last: Any) -> list[NextSpeaker]:
        """The possible next speakers after an agent; the first one for None."""
        if last is None:
            return list(self._of_targets([self.pattern.initial_agent], None, ""))
        if id(last) not in self._found:
            found = list(self._next(last))
            self._found[id(last)] = list({one.place: one for one in reversed(found)}.values())
        return self._found[id(last)]

    def _next(self, last: Any) -> Iterator[NextSpeaker]:
        handoffs = getattr(last, "handoffs", None)
        yield from self._of_targets(getattr(handoffs, CONDITIONS, ()), last, _HANDOFF)
        yield from self._of_targets(self._of_tools(last), last, "a tool hands off")
        own = list(getattr(handoffs, AFTER, ()))
        sets_all = type(self.pattern).__name__ in _SETS_ALL
        if last is self.user and not own and not sets_all:  # it answers the agent that spoke before
            for place, one in enumerate(self.agents):
                if one is not last and any(self.agents[each.place] is last for each in self.after(one)):
                    yield NextSpeaker(place, _RETURNS)
            return
        yield from self._of_targets(own if own and not sets_all else self._default(last), last, _AFTER_WORK)

    def _default(self, last: Any) -> list[Any]:
        """The targets after the work of an agent that names none."""
        kind = type(self.pattern).__name__
        if kind == "RoundRobinPattern":
            return [self.agents[(self._place(last) + 1) % len(self.agents)]]
        if kind in _AFTER_BY_PATTERN:
            return _AFTER_BY_PATTERN[kind]
        declared = self.pattern.group_after_work
        return [declared] if declared is not None else [TERMINATE]

    def _of_targets(self, several: Iterable[Any], last: Any, why: str) -> Iterator[NextSpeaker]:
        for target in (one for each in several for one in targets_of(each)):
            places, chosen = self._places(target, last), target == ANYONE
            yield from (
                NextSpeaker(place, why or ("the group manager chooses it" if chosen else "")) for place in places
            )

    def _places(self, target: Any, last: Any) -> list[int]:
        if isinstance(target, str):
            if target == TERMINATE:
                return []
            if target == STAY:
                return [self._place(last)]
            if target == USER:
                return [len(self.agents) - 1] if self.user is not None else []
            others = type(self.pattern).__name__ == "RandomPattern"
            if target == ANYONE:
                return [place for place, one in enumerate(self.agents) if not others or one is not last]
            return [place for place, one in enumerate(self.agents) if ChatParticipant(one).name == target]
        if (place := self._place(target)) >= 0:
            return [place]
        if is_a(target, PACKAGE, "OnCondition", "NestedChatTarget", "GroupChatTarget") or isinstance(
            target, UnknownValue | ReadableFunction | Alternatives
        ):
            self.unknown["a hand-off target is unknown; it is assumed to be any agent"] = None
            return list(range(len(self.agents)))
        return []

    def _of_tools(self, last: Any) -> Iterator[Any]:
        """The targets in the results of the tools of an agent."""
        for tool in ChatParticipant(last).functions:
            if isinstance(tool, FunctionStub) and isinstance(self.pattern.interpreter, Interpreter):
                results = self.pattern.interpreter.run_function(tool.function)
                named = ("ReplyResult", "SwarmResult", "ConversableAgent")
                yield from (one for one in results.known if is_a(one, PACKAGE, *named))

    def _place(self, agent: Any) -> int:
        return next((place for place, one in enumerate(self.agents) if one is agent), -1)
