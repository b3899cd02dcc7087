"""Several solver rules of one tool, put together: variables that come from the same expression are the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from guardagent.policy.lint.solvers import Case, asked
from guardagent.policy.solver.sorts import Enumeration
from guardagent.policy.solver.z3_text import solver_module


class Together:
    """The terms of several rules in one context, each with names of its own.

    Attributes:
        context: of Z3.
    """

    def __init__(self, cases: Sequence[Case]) -> None:
        self.context = solver_module().Context()
        self._moved = {case: _Moved(case, number, self.context) for number, case in enumerate(cases)}
        self._cases = list(cases)

    def permitted(self, case: Case) -> list[Any]:
        """That a rule permits the call."""
        return self._moved[case].terms

    def open_of(self, case: Case) -> list[Any] | None:
        """What a rule leaves open, as constants; None where it leaves a function open."""
        return self._moved[case].open

    def same(self, first: Case, second: Case) -> list[Any]:
        """That variables which come from the same expressions have the same values."""
        one, other = self._moved[first].by_source, self._moved[second].by_source
        return [one[source] == other[source] for source in one if source in other and _alike(one, other, source)]

    def all_same(self, first: Case, second: Case) -> bool:
        """Whether each variable of the first one is one of the second, of the same values."""
        one, other = self._moved[first].by_source, self._moved[second].by_source
        whole = len(one) == len(first.given) and not self._moved[first].free
        return whole and all(source in other and _alike(one, other, source) for source in one)

    def ask(self, cases: Sequence[Case]) -> str:
        """Whether all of some rules can permit a call."""
        terms = [term for case in cases for term in self.permitted(case)]
        pairs = [(one, other) for at, one in enumerate(cases) for other in cases[at + 1 :]]
        return asked(self.context, [*terms, *(term for pair in pairs for term in self.same(*pair))])[0]


class _Moved:
    """A rule's terms in another context, of names that no other rule has."""

    def __init__(self, case: Case, number: int, context: Any) -> None:
        z3 = solver_module()
        terms = [one.translate(context) for one in (*case.domain, *case.asserted, case.permit)]
        given = {name: one.translate(context) for name, one in case.given.items()}
        constants = [one().translate(context) for one in case.open.values() if not one.arity()]
        renamed = [(one, z3.Const(f"{one.decl().name()} of {number}", one.sort())) for one in constants]
        mine = {name: z3.Const(f"{name} of {number}", one.sort()) for name, one in given.items()}
        pairs = [*renamed, *((given[name], mine[name]) for name in given)]
        self.terms = [z3.substitute(one, *pairs) for one in terms] if pairs else terms
        self.open = None if any(one.arity() for one in case.open.values()) else [new for _, new in renamed]
        self.by_source = {case.sources[name]: mine[name] for name in mine if name in case.sources}
        self.free = any(one.free for one in case.governed.variables)


def _alike(one: Mapping[str, Any], other: Mapping[str, Any], source: str) -> bool:
    return bool(one[source].sort() == other[source].sort())


def together(cases: Sequence[Case]) -> Together | None:
    """Several rules together; None where there are no several, or their sorts have one name and other values."""
    if len(cases) < 2:
        return None
    sorts: dict[str, tuple[str, ...]] = {}
    for case in cases:
        for sort in case.governed.encoding.constants.values():
            if isinstance(sort, Enumeration) and sorts.setdefault(sort.name, sort.values) != sort.values:
                return None
    return Together(cases)
