"""Checks whether one rule about the order of steps implies another."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from guardagent.policy.lint.steps import (
    MAX_STATES,
    RuleAutomaton,
    SearchLimitError,
    State,
    StepKind,
    path_to,
    step_all,
    steps_of,
)


@dataclass(frozen=True, slots=True)
class ImplicationResult:
    """The result of an implication check.

    Attributes:
        implied: whether every step that violates the first rule violates the second one.
        example: a shortest sequence of steps that violates the first rule, or None if there is none.
    """

    implied: bool
    example: list[StepKind] | None = None


def check_implication(
    first: RuleAutomaton, second: RuleAutomaton, tools: Sequence[str], *, may_continue: bool
) -> ImplicationResult:
    """Checks whether the second rule implies the first.

    Args:
        first: a rule about the order of steps only.
        second: the rule that may imply it.
        tools: the tools that exist.
        may_continue: whether calls may run although they violate the second rule.

    Raises:
        SearchLimitError: the rules have too many states.
    """
    steps = steps_of((first, second), tools, failing=True)
    return _ImplicationSearch(first, second, steps, may_continue=may_continue).run()


_Both = tuple[State, State]


class _ImplicationSearch:
    def __init__(
        self, first: RuleAutomaton, second: RuleAutomaton, steps: Sequence[StepKind], *, may_continue: bool
    ) -> None:
        self._pair, self._steps, self._may_continue = (first, second), steps, may_continue
        start = first.start, second.start
        self._predecessors: dict[_Both, tuple[_Both, StepKind] | None] = {start: None}
        self._waiting = deque([start])
        self._example: list[StepKind] | None = None

    def run(self) -> ImplicationResult:
        if not all(one.is_alive(one.start) for one in self._pair):
            return ImplicationResult(implied=False)
        while self._waiting:
            at = self._waiting.popleft()
            if not all(self._implied(broken, path) for broken, path in self._broken(at)):
                return ImplicationResult(implied=False)
        return ImplicationResult(implied=True, example=self._example)

    def _implied(self, broken: tuple[bool, bool], path: list[StepKind]) -> bool:
        if broken[0] and self._example is None:
            self._example = path
        return broken[1] or not broken[0]

    def _broken(self, at: _Both) -> Iterator[tuple[tuple[bool, bool], list[StepKind]]]:
        """Yields the rules that the end or a next step violates, with the sequence of steps."""
        first, second = self._pair
        yield (not first.accepts(at[0]), not second.accepts(at[1])), path_to(self._predecessors, at)
        for step in self._steps:
            following = step_all(self._pair, at, step)
            broken = not first.is_alive(following[0]), not second.is_alive(following[1])
            if any(broken):
                yield broken, [*path_to(self._predecessors, at), step]
            if self._may_continue or not any(broken):
                self._continue(at, step)

    def _continue(self, at: _Both, step: StepKind) -> None:
        """Follows a step as a session does after it reported a violation."""
        (first, second), (one, other) = self._pair, step.letters
        following = first.resume(at[0], one), second.resume(at[1], other)
        if following not in self._predecessors:
            if len(self._predecessors) >= MAX_STATES:
                raise SearchLimitError
            self._predecessors[following] = at, step
            self._waiting.append(following)
