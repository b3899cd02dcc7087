"""Whether a rule about the order of steps is implied by another one."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from guardagent.policy.lint.steps import MAX_LOOKED_AT, Machine, State, Step, Undecided, after_all, steps_of, way_to


@dataclass(frozen=True, slots=True)
class Compared:
    """How two rules were found to be.

    Attributes:
        implied: whether the first is never broken unless the second one is by the same step.
        example: a shortest order of steps that breaks the first one; None where it is never broken.
    """

    implied: bool
    example: list[Step] | None = None


def compared(first: Machine, second: Machine, tools: Sequence[str], *, going_on: bool) -> Compared:
    """Whether a rule is implied by another one.

    Args:
        first: a rule that is only about steps.
        second: what may imply it.
        tools: those that there are.
        going_on: whether calls may run although they break the second one.

    Raises:
        Undecided: it would take too long.
    """
    return _Pair(first, second, steps_of((first, second), tools, failing=True), going_on=going_on).compared()


_Both = tuple[State, State]


class _Pair:
    def __init__(self, first: Machine, second: Machine, steps: Sequence[Step], *, going_on: bool) -> None:
        self._pair, self._steps, self._going_on = (first, second), steps, going_on
        start = first.start, second.start
        self._came: dict[_Both, tuple[_Both, Step] | None] = {start: None}
        self._waiting = deque([start])
        self._example: list[Step] | None = None

    def compared(self) -> Compared:
        if not all(one.alive(one.start) for one in self._pair):
            return Compared(implied=False)
        while self._waiting:
            at = self._waiting.popleft()
            if not all(self._implied(broken, way) for broken, way in self._broken(at)):
                return Compared(implied=False)
        return Compared(implied=True, example=self._example)

    def _implied(self, broken: tuple[bool, bool], way: list[Step]) -> bool:
        if broken[0] and self._example is None:
            self._example = way
        return broken[1] or not broken[0]

    def _broken(self, at: _Both) -> Iterator[tuple[tuple[bool, bool], list[Step]]]:
        """Which of the two the end breaks, and each step that can come next."""
        first, second = self._pair
        yield (not first.met(at[0]), not second.met(at[1])), way_to(self._came, at)
        for step in self._steps:
            following = after_all(self._pair, at, step)
            broken = not first.alive(following[0]), not second.alive(following[1])
            if any(broken):
                yield broken, [*way_to(self._came, at), step]
            if self._going_on or not any(broken):
                self._go_on(at, step)

    def _go_on(self, at: _Both, step: Step) -> None:
        """As a session does; what was broken and said is not said again."""
        (first, second), (one, other) = self._pair, step.letters
        following = first.resumed(at[0], one), second.resumed(at[1], other)
        if following not in self._came:
            if len(self._came) >= MAX_LOOKED_AT:
                raise Undecided
            self._came[following] = at, step
            self._waiting.append(following)
