"""An incremental Z3 solver: constraints are added once, and each check pushes its facts and pops them.

Time is bounded by Z3's count of its work, so that a result does not depend on the machine's load, and by the clock.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from guardagent.policy.solver.literals import values_of
from guardagent.policy.solver.result import Status
from guardagent.policy.solver.z3_text import solver_module

WORK = 500_000  # Z3's resource units per second of the time limit
MEMORY = 1_000  # megabytes


class Deadline:
    """The time limit of all checks of one call."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def passed(self) -> bool:
        return time.monotonic() > self._end


class Z3Solver:
    """A Z3 solver with fixed constraints.

    Args:
        terms: the constraints.
        context: their Z3 context.
    """

    def __init__(self, terms: Iterable[Any], context: Any) -> None:
        z3 = solver_module()
        self.context = context
        self._solver = z3.SimpleSolver(ctx=context)
        self._solver.set(ctrl_c=False, max_memory=MEMORY)  # the host handles interrupts
        self._seconds = 0.0
        self._solver.add(*terms)

    def _limit(self, deadline: Deadline, share: float = 1.0) -> None:
        seconds = deadline.seconds * share
        if seconds != self._seconds:
            self._seconds = seconds
            self._solver.set(timeout=max(int(seconds * 1000), 1), rlimit=max(int(seconds * WORK), 1))

    def model(
        self, facts: Sequence[Any], constants: Mapping[str, Any], deadline: Deadline, share: float = 1.0
    ) -> tuple[Status, dict[str, Any] | None]:
        """Checks whether the facts are consistent with the constraints, and returns the values of constants.

        Args:
            facts: terms of sort Bool.
            constants: the constants whose values are wanted; None is returned if one has no Python value.
            deadline: the time limit of all checks.
            share: the part of the time limit for this check.
        """
        if deadline.passed():
            return "unknown", None
        self._limit(deadline, share)
        self._solver.push()
        try:
            self._solver.add(*facts)
            status = _status(self._solver.check())
            found = values_of(self._solver.model(), constants) if status == "sat" and constants else None
        finally:
            self._solver.pop()
        return status, found

    def core(self, assumptions: Sequence[Any], deadline: Deadline, share: float = 1.0) -> tuple[Status, list[int]]:
        """Checks whether the assumptions are consistent, and returns the indexes of a contradictory subset."""
        if deadline.passed():
            return "unknown", []
        self._limit(deadline, share)
        status = _status(self._solver.check(*assumptions))
        if status != "unsat":
            return status, []
        core = {one.get_id() for one in self._solver.unsat_core()}
        return status, [number for number, one in enumerate(assumptions) if one.get_id() in core]


def _status(result: Any) -> Status:
    z3 = solver_module()
    if result == z3.sat:
        return "sat"
    return "unsat" if result == z3.unsat else "unknown"
