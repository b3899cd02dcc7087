"""The constraints of one question, and checks of their satisfiability for given values."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from guardagent.policy.solver.literals import term_of
from guardagent.policy.solver.result import Status
from guardagent.policy.solver.sorts import Sort
from guardagent.policy.solver.z3_solver import Deadline, Z3Solver
from guardagent.policy.solver.z3_text import solver_module

FIRST_SHARE = 0.1  # of the time limit, before the question is simplified first
MAX_CACHED = 32  # derived questions


@dataclass(frozen=True, slots=True)
class Constraints:
    """The constraints of one question.

    Attributes:
        terms: the constraints.
        solver: a solver that holds them.
        constants: the variables, as terms.
        sorts: the variables' sorts.
        cache: derived questions about the same variables.
    """

    terms: Sequence[Any]
    solver: Z3Solver
    constants: Mapping[str, Any]
    sorts: Mapping[str, Sort]
    cache: dict[Hashable, Constraints] = field(default_factory=dict)

    def pairs(self, values: Mapping[str, Any]) -> list[tuple[Any, Any]]:
        """Returns variables and their values as terms."""
        return [(self.constants[name], term_of(value, self.constants[name])) for name, value in values.items()]

    def facts(self, values: Mapping[str, Any]) -> list[Any]:
        return [constant == term for constant, term in self.pairs(values)]

    def check(self, values: Mapping[str, Any], deadline: Deadline) -> Status:
        """Checks whether the constraints are satisfiable with these values."""
        return self.model(values, [], (), deadline)[0]

    def model(
        self, values: Mapping[str, Any], further: Sequence[Any], wanted: Sequence[str], deadline: Deadline
    ) -> tuple[Status, dict[str, Any] | None]:
        """Checks with further constraints, and returns the values of the wanted variables."""
        constants = {name: self.constants[name] for name in wanted}
        found = self.solver.model([*self.facts(values), *further], constants, deadline, FIRST_SHARE)
        if found[0] != "unknown":
            return found
        simple = simplified([*self.terms, *further], self.pairs(values))
        return Z3Solver([simple], self.solver.context).model([], constants, deadline)

    def derived(self, key: Hashable, terms: Callable[[], Sequence[Any]]) -> Constraints:
        """Returns a cached question with other terms about the same variables."""
        found = self.cache.get(key)
        if found is None:
            if len(self.cache) >= MAX_CACHED:
                self.cache.clear()
            whole = terms()
            found = self.cache[key] = Constraints(
                whole, Z3Solver(whole, self.solver.context), self.constants, self.sorts
            )
        return found


def simplified(terms: Sequence[Any], pairs: Sequence[tuple[Any, Any]]) -> Any:
    """Simplifies the terms with values substituted; this alone decides most string constraints."""
    z3 = solver_module()
    return z3.simplify(z3.substitute(z3.And(list(terms)), *pairs))
