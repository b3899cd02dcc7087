"""The budget of reading one program: steps, which are the same on each machine, and at last CPU time."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Share:
    """A share of the budget for one part of a program.

    Attributes:
        steps: the steps of this part.
        most: the steps of the program until the end of this part.
        seconds: the CPU time of this part; the last resort.
        until: the CPU time of the program until the end of this part.
    """

    steps: int
    most: int
    seconds: float
    until: float


@dataclass(eq=False)
class StepBudget:
    """Counts the steps of reading a program, and the CPU time of its thread."""

    _spent: int = 0
    _limit: int = 0
    _until: float = 0.0
    _began: float = field(default_factory=time.thread_time)

    def allow(self, share: Share) -> bool:
        """Allows a share for the next part; returns whether there is any left."""
        self._limit = min(self._spent + share.steps, share.most)
        self._until = min(time.thread_time() + share.seconds, self._began + share.until)
        return self._spent < self._limit and time.thread_time() < self._until

    def spend(self, steps: int) -> bool:
        """Spends steps; returns whether any are left."""
        if not self.left:
            return False  # what is refused is not spent
        self._spent += steps
        if self._spent <= self._limit and time.thread_time() > self._until:
            self._limit = 0
        return self.left

    @property
    def left(self) -> bool:
        """Whether any steps are left."""
        return self._spent <= self._limit
