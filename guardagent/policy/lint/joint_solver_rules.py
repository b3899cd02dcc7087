"""Combines several solver rules of one tool; variables with the same source expression are equal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from guardagent.policy.language.printer import text_of
from guardagent.policy.lint.solver import SolverCase, check_terms
from guardagent.policy.solver.sorts import Enumeration
from guardagent.policy.solver.z3_text import solver_module


class JointSolverRules:
    """The terms of several rules in one Z3 context, with distinct names.

    Attributes:
        context: the Z3 context.
    """

    def __init__(self, cases: Sequence[SolverCase]) -> None:
        self.context = solver_module().Context()
        self._translated = {case: _TranslatedCase(case, number, self.context) for number, case in enumerate(cases)}
        self._cases = list(cases)

    def permit_terms(self, case: SolverCase) -> list[Any]:
        """Returns the terms under which a rule permits the call."""
        return self._translated[case].terms

    def open_constants(self, case: SolverCase) -> list[Any] | None:
        """Returns a rule's open constants, or None if a function is open."""
        return self._translated[case].open

    def shared_equalities(self, first: SolverCase, second: SolverCase) -> list[Any]:
        """Returns equations of variables with the same source expression."""
        one, other = self._translated[first].by_source, self._translated[second].by_source
        return [one[source] == other[source] for source in one if source in other and _same_sort(one, other, source)]

    def shares_all_variables(self, first: SolverCase, second: SolverCase) -> bool:
        """Whether each variable of the first rule has the same source as one of the second."""
        one, other = self._translated[first].by_source, self._translated[second].by_source
        whole = len(one) == len(first.variable_terms) and not self._translated[first].free
        return whole and all(source in other and _same_sort(one, other, source) for source in one)

    def check(self, cases: Sequence[SolverCase]) -> str:
        """Checks whether all rules can permit a call together."""
        terms = [term for case in cases for term in self.permit_terms(case)]
        pairs = [(one, other) for at, one in enumerate(cases) for other in cases[at + 1 :]]
        return check_terms(self.context, [*terms, *(term for pair in pairs for term in self.shared_equalities(*pair))])[
            0
        ]


class _TranslatedCase:
    """A rule's terms in another context, with unique names."""

    def __init__(self, case: SolverCase, number: int, context: Any) -> None:
        z3 = solver_module()
        terms = [one.translate(context) for one in (*case.domain, *case.assertions, case.permit)]
        variables = {name: one.translate(context) for name, one in case.variable_terms.items()}
        constants = [one().translate(context) for one in case.open.values() if not one.arity()]
        renamed = [(one, z3.Const(f"{one.decl().name()} of {number}", one.sort())) for one in constants]
        mine = {name: z3.Const(f"{name} of {number}", one.sort()) for name, one in variables.items()}
        pairs = [*renamed, *((variables[name], mine[name]) for name in variables)]
        self.terms = [z3.substitute(one, *pairs) for one in terms] if pairs else terms
        self.open = None if any(one.arity() for one in case.open.values()) else [new for _, new in renamed]
        self.by_source = {text_of(case.sources[name]): mine[name] for name in mine if name in case.sources}
        self.free = any(one.free for one in case.permit_check.variables)


def _same_sort(one: Mapping[str, Any], other: Mapping[str, Any], source: str) -> bool:
    return bool(one[source].sort() == other[source].sort())


def joint_solver_rules(cases: Sequence[SolverCase]) -> JointSolverRules | None:
    """Combines rules, or returns None for a single rule or sorts with one name and different values."""
    if len(cases) < 2:
        return None
    sorts: dict[str, tuple[str, ...]] = {}
    for case in cases:
        for sort in case.permit_check.encoding.constants.values():
            if isinstance(sort, Enumeration) and sorts.setdefault(sort.name, sort.values) != sort.values:
                return None
    return JointSolverRules(cases)
