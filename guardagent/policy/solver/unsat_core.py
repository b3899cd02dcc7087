"""Finds a minimal unsatisfiable core: contradictory constraints, all of which are needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from guardagent.policy.solver.constraints import FIRST_SHARE, Constraints, simplified
from guardagent.policy.solver.z3_solver import Deadline, Z3Solver
from guardagent.policy.solver.z3_text import solver_module

PERMIT = "permit"
MAX_TERMS = 1_000  # a larger set cannot be minimized in time


def minimal_core(constraints: Constraints, values: Mapping[str, Any], deadline: Deadline) -> tuple[str, ...]:
    """Returns the core as names: `variable:x`, `assertion:0`, `permit`. It is not minimal if time runs out."""
    if len(constraints.terms) > MAX_TERMS:
        return (*(f"variable:{name}" for name in values), PERMIT)
    return _CoreSearch(constraints, values, deadline).minimal()


class _CoreSearch:
    def __init__(self, constraints: Constraints, values: Mapping[str, Any], deadline: Deadline) -> None:
        z3 = solver_module()
        self._deadline, self._context = deadline, constraints.solver.context
        self._pairs = {f"variable:{name}": constraints.pairs({name: value})[0] for name, value in values.items()}
        names = [f"assertion:{number}" for number in range(len(constraints.terms) - 1)]
        self._terms = dict(zip([*names, PERMIT], constraints.terms, strict=True))
        facts = {name: constant == term for name, (constant, term) in self._pairs.items()}
        self._marks = {name: z3.Bool(f"core!{name}", self._context) for name in (*facts, *self._terms)}
        terms = {**facts, **self._terms}
        implied = [z3.Implies(mark, terms[name]) for name, mark in self._marks.items()]
        self._solver = Z3Solver(implied, self._context)

    def minimal(self) -> tuple[str, ...]:
        kept = self._contradiction(list(self._marks)) or list(self._marks)
        for name in list(kept):
            if name in kept:
                fewer = self._contradiction([other for other in kept if other != name])
                kept = kept if fewer is None else fewer
        return tuple(kept)

    def _contradiction(self, names: Sequence[str]) -> list[str] | None:
        """Returns a contradictory subset of these, or None if none is known."""
        if self._deadline.passed():
            return None
        status, numbers = self._solver.core([self._marks[name] for name in names], self._deadline, FIRST_SHARE)
        if status == "unsat":
            return [names[number] for number in numbers]
        return list(names) if status == "unknown" and self._simply(names) else None

    def _simply(self, names: Sequence[str]) -> bool:
        """Whether they are contradictory, checked with the values substituted."""
        terms = [self._terms[name] for name in names if name in self._terms]
        pairs = [self._pairs[name] for name in names if name in self._pairs]
        simple = simplified([solver_module().BoolVal(True, self._context), *terms], pairs)  # noqa: FBT003 - a value
        return Z3Solver([simple], self._context).model([], {}, self._deadline)[0] == "unsat"
