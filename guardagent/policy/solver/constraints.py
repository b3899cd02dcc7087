"""The constraints of one question, and what is asked about them with the values of some variables."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from guardagent.policy.solver.literals import term_of
from guardagent.policy.solver.result import Status
from guardagent.policy.solver.sorts import Sort
from guardagent.policy.solver.z3_solver import Deadline, Z3Solver
from guardagent.policy.solver.z3_text import solver_module

FIRST_SHARE = 0.1  # the part of the time after which the question is put in another way
MAX_CACHED = 32  # further questions


@dataclass(frozen=True, slots=True)
class Constraints:
    """What is asked about.

    Attributes:
        terms: the constraints.
        solver: one that holds them.
        constants: the variables, as terms.
        sorts: the variables' sorts.
        others: further questions that were put about the same constraints, to be asked again.
    """

    terms: Sequence[Any]
    solver: Z3Solver
    constants: Mapping[str, Any]
    sorts: Mapping[str, Sort]
    cache: dict[Hashable, Constraints] = field(default_factory=dict)

    def pairs(self, values: Mapping[str, Any]) -> list[tuple[Any, Any]]:
        """Variables and their values, as terms."""
        return [(self.constants[name], term_of(value, self.constants[name])) for name, value in values.items()]

    def facts(self, values: Mapping[str, Any]) -> list[Any]:
        return [constant == term for constant, term in self.pairs(values)]

    def check(self, values: Mapping[str, Any], deadline: Deadline) -> Status:
        """Whether the constraints can be satisfied with these values."""
        return self.model(values, [], (), deadline)[0]

    def model(
        self, values: Mapping[str, Any], further: Sequence[Any], wanted: Sequence[str], deadline: Deadline
    ) -> tuple[Status, dict[str, Any] | None]:
        """The same, with further constraints; and what other variables are then."""
        constants = {name: self.constants[name] for name in wanted}
        found = self.solver.model([*self.facts(values), *further], constants, deadline, FIRST_SHARE)
        if found[0] != "unknown":
            return found
        simple = simplified([*self.terms, *further], self.pairs(values))
        return Z3Solver([simple], self.solver.context).model([], constants, deadline)

    def derived(self, key: Hashable, terms: Callable[[], Sequence[Any]]) -> Constraints:
        """Another question about the same variables, put once."""
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
    """All the terms with values in the place of constants: texts are mostly decided by this alone."""
    z3 = solver_module()
    return z3.simplify(z3.substitute(z3.And(list(terms)), *pairs))
