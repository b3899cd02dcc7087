"""Asks Z3, incrementally: the constraints are given once, and each question pushes its facts, asks and pops.

Time is bounded by Z3's own count of its work, so that an answer does not depend on how busy the machine is, and by the
clock as well.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from guardagent.policy.solver.literals import values_of
from guardagent.policy.solver.result import Status
from guardagent.policy.solver.z3_text import solver_module

WORK = 500_000  # of Z3's units, per second that it may take
MEMORY = 1_000  # megabytes


class Deadline:
    """How long all the questions of one call may take."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def passed(self) -> bool:
        return time.monotonic() > self._end


class Z3Solver:
    """Constraints that Z3 holds.

    Args:
        terms: what always holds.
        context: where they are.
    """

    def __init__(self, terms: Iterable[Any], context: Any) -> None:
        z3 = solver_module()
        self.context = context
        self._solver = z3.SimpleSolver(ctx=context)
        self._solver.set(ctrl_c=False, max_memory=MEMORY)  # an interrupt is the host's
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
        """Whether the facts can hold too, and the constants' values if they do and have values of Python's.

        Args:
            facts: terms of sort Bool.
            constants: those whose values are wanted.
            deadline: after which nothing is asked any more.
            share: of the time, for this question.
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
        """Whether the assumptions can hold too, and the numbers of some that cannot."""
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
