"""Finds the fewest values to change so that constraints become satisfiable, and the nearest new values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import combinations
from typing import Any

from guardagent.policy.solver.constraints import Constraints
from guardagent.policy.solver.literals import fits, moderate, term_of
from guardagent.policy.solver.sorts import INT, REAL, STRING
from guardagent.policy.solver.z3_solver import Deadline
from guardagent.policy.solver.z3_text import solver_module

MAX_CHANGED = 2
_HALVINGS = 48  # steps of the binary search for the nearest number


def remedy(
    constraints: Constraints,
    known: Mapping[str, Any],
    changeable: Sequence[str],
    domains: Mapping[str, Sequence[Any]],
    deadline: Deadline,
) -> dict[str, Any] | None:
    """Returns new values of as few variables as possible; empty if satisfiable already, None if none are found."""
    if constraints.check(known, deadline) == "sat":
        return {}
    for size in range(1, MAX_CHANGED + 1):
        for names in combinations(changeable, size):
            found = _Change(constraints, known, names, deadline).search(domains)
            if found is not None:
                return found
    return None


class _Change:
    """A search for new values of exactly these variables."""

    def __init__(
        self, constraints: Constraints, known: Mapping[str, Any], names: Sequence[str], deadline: Deadline
    ) -> None:
        self._constraints, self._known, self._names, self._deadline = constraints, known, names, deadline
        self._kept = {name: value for name, value in known.items() if name not in names}
        self._further: list[Any] = []

    def search(self, domains: Mapping[str, Sequence[Any]]) -> dict[str, Any] | None:
        self._further = [self._within(name, domains[name]) for name in self._names if name in domains]
        changed = {name: self._known[name] for name in self._names}
        self._further += [constant != term for constant, term in self._constraints.pairs(changed)]
        status, values = self._solve([])
        for name in self._names if status == "sat" else ():  # minimizes each change, with the earlier ones fixed
            values = self._nearest(name, values)
            if values is None:
                return None
            self._further += self._constraints.facts({name: values[name]})
        return values if values is not None and self._sound(values) else None

    def _solve(self, wishes: Sequence[Any]) -> tuple[str, dict[str, Any] | None]:
        return self._constraints.model(self._kept, [*self._further, *wishes], self._names, self._deadline)

    def _within(self, name: str, domain: Sequence[Any]) -> Any:
        z3 = solver_module()
        usable = [one for one in domain if fits(one, self._constraints.sorts[name]) and moderate(one)]
        facts = [self._constraints.facts({name: one})[0] for one in usable]
        return z3.Or([z3.BoolVal(False, self._constraints.solver.context), *facts])  # noqa: FBT003 - a value

    def _sound(self, values: Mapping[str, Any]) -> bool:
        if not all(fits(value, self._constraints.sorts[name]) and moderate(value) for name, value in values.items()):
            return False
        return self._constraints.check({**self._known, **values}, self._deadline) == "sat"

    def _nearest(self, name: str, values: dict[str, Any] | None) -> dict[str, Any] | None:
        """Returns values in which one variable is simple and as near as possible to its current value."""
        for wish in self._preferences(name):
            status, found = self._solve([wish])
            if status == "sat" and found is not None:
                values = found
                break
        if values is None or self._constraints.sorts[name] not in (INT, REAL):
            return values
        return self._nearer(name, values)

    def _preferences(self, name: str) -> list[Any]:
        """Returns constraints for simple values, the simplest first."""
        z3 = solver_module()
        constant, sort = self._constraints.constants[name], self._constraints.sorts[name]
        if sort == REAL:
            return [z3.IsInt(constant), z3.IsInt(constant * 100)]
        return [z3.Length(constant) <= limit for limit in (0, 1, 8)] if sort == STRING else []

    def _nearer(self, name: str, values: dict[str, Any]) -> dict[str, Any]:
        """Finds the nearest number by binary search."""
        now = self._known[name]
        grain = 100 if Fraction(values[name]).denominator > 1 else 1
        beyond = 0  # no solution within this distance, in units of 1 / grain
        for _ in range(_HALVINGS):
            reached = int(abs(Fraction(values[name]) - now) * grain)
            if reached - beyond < 2:
                break
            middle = (beyond + reached) // 2
            found = self._solve(self._interval(name, now, Fraction(middle, grain), grain))[1]
            values, beyond = (values, middle) if found is None else (found, beyond)
        return values

    def _interval(self, name: str, now: Any, distance: Fraction, grain: int) -> list[Any]:
        z3 = solver_module()
        constant = self._constraints.constants[name]
        near = [constant >= term_of(now - distance, constant), constant <= term_of(now + distance, constant)]
        return [*near, z3.IsInt(constant * grain)] if self._constraints.sorts[name] == REAL else near
