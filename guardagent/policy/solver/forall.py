"""Checks whether constraints are satisfiable for every value of some variables.

All values of a variable with few values are tried. For other variables the check searches for a counterexample: a value
for which the constraints are unsatisfiable. Defined constants and constants with few values need no quantifier there;
others do, and the result may then be unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

from guardagent.policy.solver.constraints import Constraints
from guardagent.policy.solver.literals import fits, moderate, term_of
from guardagent.policy.solver.reduction import ConstraintGroup, reduce_terms
from guardagent.policy.solver.result import UNKNOWN, SolverResult
from guardagent.policy.solver.sorts import BOOL, Enumeration, Sort
from guardagent.policy.solver.traversal import TooLargeError
from guardagent.policy.solver.z3_solver import Deadline
from guardagent.policy.solver.z3_text import solver_module, sort_of

MAX_CASES = 300  # combinations of values that are tried one by one
MAX_CHOICES = 64  # expanded values of constants


def solve_for_all(
    constraints: Constraints,
    known: Mapping[str, Any],
    universal: Sequence[str],
    domains: Mapping[str, Sequence[Any]],
    deadline: Deadline,
) -> SolverResult:
    """Checks every combination of values, and returns a counterexample if one fails."""
    choices = {name: _values(constraints.sorts[name], domains.get(name)) for name in universal}
    if any(found == () or not _usable(found, constraints.sorts[name]) for name, found in choices.items()):
        return UNKNOWN  # an empty domain proves nothing
    enumerable = _enumerable(choices)
    rest = [name for name in universal if name not in enumerable]
    limits = {name: found for name in rest if (found := choices[name]) is not None}
    doubt = False
    for values in product(*enumerable.values()):
        chosen = dict(zip(enumerable, values, strict=True))
        answer = _check_case(constraints, {**known, **chosen}, rest, limits, deadline)
        if answer.status == "unsat":
            return SolverResult("unsat", counterexample={**chosen, **(answer.counterexample or {})})
        doubt = doubt or answer.status == "unknown"
    return UNKNOWN if doubt else SolverResult("sat")


def _values(sort: Sort, domain: Sequence[Any] | None) -> tuple[Any, ...] | None:
    """Returns all values of a domain or sort, or None if there are too many."""
    if domain is not None:
        return tuple(domain)
    if isinstance(sort, Enumeration):
        return sort.values
    return (False, True) if sort == BOOL else None


def _usable(values: Sequence[Any] | None, sort: Sort) -> bool:
    return values is None or all(fits(value, sort) and moderate(value) for value in values)


def _enumerable(choices: Mapping[str, tuple[Any, ...] | None]) -> dict[str, tuple[Any, ...]]:
    """Returns the variables with the fewest values, while all combinations can be tried."""
    found: dict[str, tuple[Any, ...]] = {}
    known = [(name, values) for name, values in choices.items() if values is not None]
    for name, values in sorted(known, key=lambda one: len(one[1])):
        if prod(map(len, found.values())) * len(values) <= MAX_CASES:
            found[name] = values
    return found


def _check_case(
    constraints: Constraints,
    known: Mapping[str, Any],
    rest: Sequence[str],
    limits: Mapping[str, Sequence[Any]],
    deadline: Deadline,
) -> SolverResult:
    if not rest:
        return SolverResult(constraints.check(known, deadline))
    key = frozenset(known), tuple(rest), tuple(tuple(limits.get(name, ())) for name in rest)
    try:
        counterexamples = constraints.derived(key, lambda: _counterexample_terms(constraints, known, rest, limits))
    except TooLargeError:
        return UNKNOWN
    found, values = counterexamples.model(known, [], rest, deadline)
    if found == "unsat":
        return SolverResult("sat")
    if found == "unknown" or values is None or not _allowed(values, constraints, limits):
        return UNKNOWN
    return _verify_counterexample(constraints, known, values, deadline)


def _allowed(values: Mapping[str, Any], constraints: Constraints, limits: Mapping[str, Sequence[Any]]) -> bool:
    fit = all(fits(value, constraints.sorts[name]) and moderate(value) for name, value in values.items())
    return fit and all(values[name] in limit for name, limit in limits.items())


def _verify_counterexample(
    constraints: Constraints, known: Mapping[str, Any], values: dict[str, Any], deadline: Deadline
) -> SolverResult:
    """Checks a counterexample with the constraints themselves, since Z3 chose the results that SMT-LIB leaves open."""
    status = constraints.check({**known, **values}, deadline)
    return SolverResult("unsat", counterexample=values) if status == "unsat" else UNKNOWN


def _counterexample_terms(
    constraints: Constraints, known: Iterable[str], rest: Sequence[str], limits: Mapping[str, Sequence[Any]]
) -> list[Any]:
    """Returns terms that are satisfied by values for which the constraints are unsatisfiable."""
    z3 = solver_module()
    reduction = reduce_terms(constraints.terms, {*known, *rest})
    terms = [constant == term for constant, term in reduction.definitions]
    terms += [z3.Or([constraints.facts({name: value})[0] for value in values]) for name, values in limits.items()]
    groups = map(_group_satisfiable, reduction.groups)
    held = z3.And([z3.BoolVal(True, constraints.solver.context), *reduction.formulas, *groups])  # noqa: FBT003
    return [*terms, z3.Not(held)]


def _group_satisfiable(group: ConstraintGroup) -> Any:
    """Returns a formula that is true if some values of the group's constants satisfy the group."""
    z3 = solver_module()
    whole = z3.And(group.formulas)
    constants = list(group.constants.values())
    if any(one.num_args() for one in constants):
        raise TooLargeError  # quantifying a function is not first-order
    choices = [_all_values(one) for one in constants]
    if not 0 < prod(map(len, choices)) <= MAX_CHOICES:
        return z3.Exists(constants, whole)
    pairs = [list(zip(constants, values, strict=True)) for values in product(*choices)]
    return z3.Or([z3.substitute(whole, *one) for one in pairs])


def _all_values(constant: Any) -> list[Any]:
    found = _values(sort_of(constant.sort()), None)
    return [] if found is None else [term_of(value, constant) for value in found]
