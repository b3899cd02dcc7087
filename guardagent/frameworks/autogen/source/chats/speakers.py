"""The possible next speakers of a group chat, declared the last one.

The method of selection, the allowed transitions and repeats decide; a call of a tool goes to an agent that executes it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from guardagent.frameworks.autogen.extractor.agents import CODE
from guardagent.frameworks.autogen.source.participants import ChatParticipant
from guardagent.workflow.extraction.objects import Alternatives, UnknownValue, flattened
from guardagent.workflow.python_source.bodies import ReadableFunction
from guardagent.workflow.python_source.outcomes import Outcomes
from guardagent.workflow.python_source.values import Arguments, NameScope, Stub, Values, exactly

_METHODS = {"auto", "manual", "random", "round_robin"}
_BY_MODEL, _BY_PERSON, _BY_CHANCE = "the model chooses it", "a person chooses it", "chosen at random"
_BY_FUNCTION, _BY_TOOL = "speaker_selection_method chooses it", "executes the tool that it calls"
_WHY = {"auto": _BY_MODEL, "manual": _BY_PERSON, "random": _BY_CHANCE, "round_robin": ""}


@dataclass(frozen=True)
class NextSpeaker:
    """A possible next speaker: its place in the list of agents, and why it follows."""

    place: int
    why: str


class _TransitionEvaluator(Outcomes):
    """Evaluates a function of the last speaker; objects are equal if they are the same."""

    def __init__(self, last: Any, name: str) -> None:
        super().__init__()
        self.last, self.last_name = last, name

    def attribute(self, owner: object, name: str) -> Values:
        if owner is self.last and name == "name":
            self.known_reads += 1
            return exactly(self.last_name)
        return super().attribute(owner, name)

    def _compare(self, node: ast.Compare, scope: NameScope) -> Values:
        left, right = self.value(node.left, scope), self.value(node.comparators[0], scope)
        if len(node.ops) == 1 and left.known == (self.last,) and left.complete:
            found = right
            if isinstance(node.ops[0], ast.In | ast.NotIn):
                found = self.elements(right)
            if found.complete and found.known and all(isinstance(one, Stub) for one in found.known):
                self.known_reads += 1
                same, positive = self.last in found.known, isinstance(node.ops[0], ast.Eq | ast.Is | ast.In)
                is_list = isinstance(node.ops[0], ast.In | ast.NotIn)
                return exactly(same is positive) if is_list or len(found.known) == 1 else Values((True, False))
        return super()._compare(node, scope)


class GroupSpeakers:
    """The agents of a group chat, and who follows whom."""

    def __init__(self, group: Any) -> None:
        self.group = group
        listed = group.agents
        self.agents = flattened(listed)
        self.in_order = not any(isinstance(one, Alternatives) for one in listed)
        self._members = [ChatParticipant(one) for one in self.agents]
        self.unknown: dict[str, None] = {}

    def after(self, last: Any) -> list[NextSpeaker]:
        """The possible next speakers after an agent; of one outside of the group, or None, the first speakers."""
        found = list(self._selected(last))
        found += [NextSpeaker(place, _BY_TOOL) for place in self._executors(last)]
        return list({one.place: one for one in reversed(found)}.values())

    def _selected(self, last: Any) -> Iterator[NextSpeaker]:
        method = self.group.speaker_selection_method
        if isinstance(method, str):
            yield from self._by_method(method.lower(), last)
        elif isinstance(method, ReadableFunction) and last is not None:
            yield from self._by_function(method, last)
        else:
            if isinstance(method, UnknownValue):
                self.unknown[f"the speaker_selection_method of line {self.group.line} is unknown"] = None
            yield from self._by_method("auto", last)

    def _by_function(self, function: ReadableFunction, last: Any) -> Iterator[NextSpeaker]:
        evaluator = _TransitionEvaluator(last, ChatParticipant(last).name)
        code, bound = function.source()[1], function.bound_arguments
        declared = Arguments((*bound.positional, exactly(last), exactly(self.group)), bound.keywords, bound.open)
        results = evaluator.call(code, declared) if code is not None else Values((), complete=False)
        others = False
        for one in results.known:
            if isinstance(one, str) and str(one).lower() in _METHODS:
                yield from self._by_method(str(one).lower(), last)
            elif place := [place for place, agent in enumerate(self.agents) if agent is one]:
                yield NextSpeaker(place[0], _BY_FUNCTION)
            else:
                others |= one is not None
        if others or not results.complete:
            name = getattr(function, "__name__", "the function")
            self.unknown[f"the choice of {name!r} is unknown; it is assumed to be any agent"] = None
            yield from (NextSpeaker(place, _BY_FUNCTION) for place in range(len(self.agents)))

    def _by_method(self, method: str, last: Any) -> Iterator[NextSpeaker]:
        eligible = self._eligible(last)
        if method != "round_robin" or not self.in_order:
            if method == "round_robin":
                self.unknown["the order of the agents is unknown"] = None
            yield from (NextSpeaker(place, _WHY.get(method, _BY_MODEL)) for place in eligible)
            return
        count, here = len(self.agents), self._place(last)
        following = (place % count for place in range(here + 1, here + 1 + count))
        yield from (NextSpeaker(place, "") for place in [one for one in following if one in eligible][:1])

    def _place(self, agent: Any) -> int:
        return next((place for place, one in enumerate(self.agents) if one is agent), -1)

    def _eligible(self, last: Any) -> list[int]:
        """The places of the agents that may follow; all after an agent outside of the group."""
        everyone = list(range(len(self.agents)))
        if self._place(last) < 0:
            return everyone
        table = self.group.allowed_or_disallowed_speaker_transitions
        if isinstance(table, dict):
            named = table.get(last)
            listed = [self._place(one) for one in flattened(named)] if isinstance(named, list) else []
            allowed = self.group.speaker_transitions_type != "disallowed"
            return [one for one in everyone if (one in listed) is allowed]
        if table is not None:
            self.unknown["the allowed transitions are unknown"] = None
            return everyone
        repeats = self.group.allow_repeat_speaker
        may_repeat = any(one is last for one in repeats) if isinstance(repeats, list) else repeats is not False
        return [one for one in everyone if may_repeat or self.agents[one] is not last]

    def _executors(self, last: Any) -> Iterator[int]:
        """The places of the agents that execute the tools which an agent can call."""
        if last is None or self._place(last) < 0:
            return
        proposed = ChatParticipant(last).proposed
        for place, member in enumerate(self._members):
            executed = set(member.tools.names) - {CODE}
            passed = member.is_known and bool(member.passed_to) and proposed is None
            if (executed if proposed is None else executed & proposed) or passed:
                yield place
