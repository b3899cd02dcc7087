"""Compares drafts about the order of steps: the product of their automata has no state in which they differ."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice

from guardagent.policy.equivalence.witness import Witness
from guardagent.policy.lint.steps import (
    MAX_STATES,
    RuleAutomaton,
    SearchLimitError,
    State,
    States,
    StepKind,
    path_to,
    steps_of,
)
from guardagent.types import Decision, Event

MAX_WITNESSES = 20  # differences of the automata that sessions judge
_LIFTED = (Decision.WARN, Decision.ESCALATE)


class StepComparison:
    """A breadth-first search in the product of two drafts' automata.

    Args:
        first, second: the automata of the drafts.
        tools: the tools that exist.
    """

    def __init__(self, first: Sequence[RuleAutomaton], second: Sequence[RuleAutomaton], tools: Sequence[str]) -> None:
        self._automata = [*first, *second]
        self._first = len(first)
        self._tools = tools

    def witnesses(self) -> Iterator[Witness]:
        """Yields conversations on which the automata differ, a shortest one first; none if they are equal.

        Raises:
            SearchLimitError: there are too many states.
        """
        return islice(self._differences(), MAX_WITNESSES)

    def _differences(self) -> Iterator[Witness]:
        start: States = tuple(one.start for one in self._automata)
        steps = steps_of(self._automata, self._tools, failing=True)
        before: dict[States, tuple[States, StepKind] | None] = {start: None}
        waiting = deque([start])
        while waiting:
            at = waiting.popleft()
            path = path_to(before, at)
            if self._differ([not one.accepts(state) for one, state in zip(self._automata, at, strict=True)]):
                yield witness_of(path, ends=True)
            for step in steps:
                after = self._after(at, step)
                broken = [not one.is_alive(state) for one, state in zip(self._automata, after, strict=True)]
                if self._differ(broken):
                    yield witness_of([*path, step], ends=not step.ok)
                elif self._may_go_on(broken):
                    self._follow(before, waiting, (at, step), self._resumed(at, step, broken))

    @staticmethod
    def _follow(
        before: dict[States, tuple[States, StepKind] | None],
        waiting: deque[States],
        link: tuple[States, StepKind],
        after: States,
    ) -> None:
        if after not in before:
            if len(before) >= MAX_STATES:
                raise SearchLimitError
            before[after] = link
            waiting.append(after)

    def _after(self, at: States, step: StepKind) -> States:
        pairs = zip(self._automata, at, step.letters, strict=True)
        return tuple(one.step(state, letters) for one, state, letters in pairs)

    def _resumed(self, at: States, step: StepKind, broken: Sequence[bool]) -> States:
        """The states after a step that ran although it violated some rules."""

        def one(number: int) -> State:
            automaton, letters = self._automata[number], step.letters[number]
            follow = automaton.resume if broken[number] else automaton.step
            return follow(at[number], letters)

        return tuple(map(one, range(len(at))))

    def _differ(self, broken: Sequence[bool]) -> bool:
        return self._answer(broken, 0, self._first) != self._answer(broken, self._first, len(broken))

    def _answer(self, broken: Sequence[bool], begin: int, end: int) -> str:
        found = [self._automata[at].rule.source.on_violation for at in range(begin, end) if broken[at]]
        if all(one is Decision.WARN for one in found):
            return "warned" if found else "allowed"
        return "ended" if Decision.HALT in found else "escalated" if set(found) <= set(_LIFTED) else "denied"

    def _may_go_on(self, broken: Sequence[bool]) -> bool:
        pairs = zip(self._automata, broken, strict=True)
        return all(one.rule.source.on_violation in _LIFTED for one, wrong in pairs if wrong)


def witness_of(path: Sequence[StepKind], *, ends: bool) -> Witness:
    """A conversation of steps; its last call is proposed, unless the conversation `ends` after it."""
    calls = [
        Event(
            step.call.tool,
            status="ok" if step.ok else "failed",
            action=step.call.action,
            decision=step.call.decision,
            tags=step.call.tags,
        )
        for step in path
    ]
    if ends:
        return Witness(tuple(calls))
    last = calls.pop()
    proposed = Event(last.tool, action=last.action, decision=last.decision, tags=last.tags)
    return Witness(tuple(calls), proposed)
