"""Reduces constraints once some constants are known, and checks whether they are satisfiable for every value of others.

Each step of a reduction preserves satisfiability. A constant that must be true is set to true. `(= c term)` defines c
once the whole term is known. An equation is dropped if its constant occurs nowhere else. A constant that occurs with
one polarity only is set to that truth value.

All values of a variable with few values are tried. For other variables the check searches for a counterexample: a value
for which the constraints are unsatisfiable. Defined constants and constants with few values need no quantifier there;
others do, and the result may then be unknown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Any

from guardagent.policy.solver.z3_text import (
    BOOL,
    UNKNOWN,
    Constraints,
    Deadline,
    Domains,
    SolverResult,
    Sort,
    Symbol,
    SymbolCache,
    TooLargeError,
    conjuncts,
    fits,
    moderate,
    negated,
    postorder,
    replaced,
    solver_module,
    sort_of,
    symbol_of,
    term_of,
)

# --- reduction

MAX_FORMULAS = 2_000


@dataclass(slots=True)
class ConstraintGroup:
    """Formulas that share undefined constants; some values of these constants must satisfy them all."""

    constants: dict[Symbol, Any] = field(default_factory=dict)
    formulas: list[Any] = field(default_factory=list)


@dataclass(slots=True)
class ReducedConstraints:
    """The result of a reduction.

    Attributes:
        definitions: constants with their defining terms, each over constants known before it.
        formulas: constraints over known constants only.
        groups: constraints that must be satisfiable, each group on its own.
    """

    definitions: list[tuple[Any, Any]] = field(default_factory=list)
    formulas: list[Any] = field(default_factory=list)
    groups: list[ConstraintGroup] = field(default_factory=list)


def reduce_terms(terms: Iterable[Any], known: Iterable[str]) -> ReducedConstraints:
    """Reduces a conjunction of terms, given the names of the known constants.

    Raises:
        TooLargeError: the terms are too large.
    """
    return _Reduction(terms, known).result()


class _Reduction:
    def __init__(self, terms: Iterable[Any], known: Iterable[str]) -> None:
        terms = list(terms)
        if len(terms) > MAX_FORMULAS or not postorder(terms):
            raise TooLargeError
        self._symbols = SymbolCache()
        self._known: set[Symbol] = {(name, 0) for name in known}
        self._pending = conjuncts(replaced(term, {}) for term in terms)
        self._definitions: list[tuple[Any, Any]] = []

    def result(self) -> ReducedConstraints:
        while self._literals() or self._equations() or self._unused() or self._one_sided():
            pass
        return self._grouped()

    def _unknown_symbols(self, term: Any) -> frozenset[Symbol]:
        """Returns the symbols of a term that are not known yet."""
        return self._symbols.of(term) - self._known

    def _set(self, values: dict[Symbol, Any], constants: Iterable[Any]) -> None:
        """Sets constants to truth values."""
        self._definitions += [(constant, values[symbol_of(constant)]) for constant in constants]  # type: ignore[index]
        self._known |= values.keys()
        touched = [
            replaced(formula, values) if self._symbols.of(formula) & values.keys() else formula
            for formula in self._pending
        ]
        self._pending = conjuncts(touched)

    def _literals(self) -> bool:
        z3 = solver_module()
        values: dict[Symbol, Any] = {}
        constants = []
        for term in self._pending:
            constant = term.arg(0) if z3.is_not(term) else term
            symbol = symbol_of(constant)
            if symbol is not None and not symbol[1] and symbol not in self._known and symbol not in values:
                values[symbol] = z3.BoolVal(constant.eq(term), term.ctx)
                constants.append(constant)
        if values:
            self._set(values, constants)
        return bool(values)

    def _equations(self) -> bool:
        """Uses `(= c term)` as the definition of c if the whole term is known."""
        left = []
        for term in self._pending:
            definition = next((side for side in _sides(term) if self._defines(*side)), None)
            if definition is None:
                left.append(term)
            else:
                self._definitions.append(definition)
                self._known |= self._symbols.of(definition[0])
        changed = len(left) < len(self._pending)
        self._pending = left
        return changed

    def _defines(self, constant: Any, term: Any) -> bool:
        symbol = symbol_of(constant)
        if symbol is None or symbol[1] or symbol in self._known:
            return False
        return not self._unknown_symbols(term)

    def _unused(self) -> bool:
        """Drops `(= c term)` if c occurs nowhere else."""
        uses = Counter(symbol for term in self._pending for symbol in self._unknown_symbols(term))
        left = []
        for term in self._pending:
            if any(self._only_here(constant, other, uses) for constant, other in _sides(term)):
                uses.subtract(self._unknown_symbols(term))
            else:
                left.append(term)
        changed = len(left) < len(self._pending)
        self._pending = left
        return changed

    def _only_here(self, constant: Any, term: Any, uses: Counter[Symbol]) -> bool:
        symbol = symbol_of(constant)
        if symbol is None or symbol[1] or symbol in self._known or uses[symbol] != 1:
            return False
        return symbol not in self._symbols.of(term)

    def _one_sided(self) -> bool:
        """Sets constants that occur with one polarity only."""
        z3 = solver_module()
        signs: dict[Symbol, set[bool]] = {}
        constants: dict[Symbol, Any] = {}
        for term in self._pending:
            if self._unknown_symbols(term):
                _add_signs(term, signs, constants)
        values = {
            symbol: z3.BoolVal(next(iter(sign)), constants[symbol].ctx)
            for symbol, sign in signs.items()
            if len(sign) == 1 and symbol not in self._known and z3.is_bool(constants[symbol]) and not symbol[1]
        }
        if values:
            self._set(values, [constants[symbol] for symbol in values])
        return bool(values)

    def _grouped(self) -> ReducedConstraints:
        reduced_constraints = ReducedConstraints(
            self._definitions, [formula for formula in self._pending if not self._unknown_symbols(formula)]
        )
        for term in self._pending:
            if self._unknown_symbols(term):
                self._add(reduced_constraints, term)
        return reduced_constraints

    def _add(self, reduced_constraints: ReducedConstraints, term: Any) -> None:
        """Merges a formula with the groups that share a constant with it."""
        group = ConstraintGroup({}, [])
        constants = {symbol_of(subterm): subterm for subterm in postorder([term])}
        group.constants = {symbol: constants[symbol] for symbol in self._unknown_symbols(term)}
        for other in [other for other in reduced_constraints.groups if other.constants.keys() & group.constants.keys()]:
            group.constants = {**other.constants, **group.constants}
            group.formulas += other.formulas
            reduced_constraints.groups.remove(other)
        group.formulas.append(term)
        reduced_constraints.groups.append(group)


def _sides(term: Any) -> list[tuple[Any, Any]]:
    """Returns (a, b) and (b, a) for `(= a b)`."""
    z3 = solver_module()
    if z3.is_eq(term):
        return [(term.arg(0), term.arg(1)), (term.arg(1), term.arg(0))]
    if z3.is_not(term) and z3.is_eq(term.arg(0)) and z3.is_bool(term.arg(0).arg(0)):
        first, second = term.arg(0).children()
        return [(first, negated(second)), (second, negated(first))]
    return []


def _add_signs(term: Any, signs: dict[Symbol, set[bool]], constants: dict[Symbol, Any]) -> None:
    """Records the polarities with which each constant occurs in a formula."""
    stack: list[tuple[Any, bool | None]] = [(term, True)]
    done: set[tuple[int, bool | None]] = set()
    while stack:
        part, sign = stack.pop()
        if (part.get_id(), sign) in done:
            continue
        done.add((part.get_id(), sign))
        symbol = symbol_of(part)
        if symbol is not None:
            constants[symbol] = part
            signs.setdefault(symbol, set()).update({True, False} if sign is None else {sign})
        stack += [(child, _sign_of(part, number, sign)) for number, child in enumerate(part.children())]


def _sign_of(part: Any, number: int, sign: bool | None) -> bool | None:  # noqa: FBT001 - a value
    """Returns the polarity of a subterm, or None if it is mixed."""
    z3 = solver_module()
    kind = part.decl().kind() if z3.is_app(part) else None
    if sign is None or kind in (z3.Z3_OP_AND, z3.Z3_OP_OR):
        return sign
    if kind == z3.Z3_OP_NOT or (kind == z3.Z3_OP_IMPLIES and number == 0):
        return not sign
    if kind == z3.Z3_OP_IMPLIES or (kind == z3.Z3_OP_ITE and number > 0):
        return sign
    return None


# --- every value of some variables

MAX_CASES = 300  # combinations of values that are tried one by one
MAX_CHOICES = 64  # expanded values of constants


def solve_for_all(
    constraints: Constraints, known: Mapping[str, Any], universal: Sequence[str], domains: Domains, deadline: Deadline
) -> SolverResult:
    """Checks every combination of values, and returns a counterexample if one fails."""
    choices = {name: _values(constraints.sorts[name], domains.get(name)) for name in universal}
    if any(choice == () or not _usable(choice, constraints.sorts[name]) for name, choice in choices.items()):
        return UNKNOWN  # an empty domain proves nothing
    enumerable = _enumerable(choices)
    rest = [name for name in universal if name not in enumerable]
    limits = {name: limit for name in rest if (limit := choices[name]) is not None}
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
    if sort.values is not None:
        return sort.values
    return (False, True) if sort == BOOL else None


def _usable(values: Sequence[Any] | None, sort: Sort) -> bool:
    return values is None or all(fits(value, sort) and moderate(value) for value in values)


def _enumerable(choices: Mapping[str, tuple[Any, ...] | None]) -> dict[str, tuple[Any, ...]]:
    """Returns the variables with the fewest values, while all combinations can be tried."""
    domains: dict[str, tuple[Any, ...]] = {}
    known = [(name, values) for name, values in choices.items() if values is not None]
    for name, values in sorted(known, key=lambda pair: len(pair[1])):
        if prod(map(len, domains.values())) * len(values) <= MAX_CASES:
            domains[name] = values
    return domains


def _check_case(
    constraints: Constraints, known: Mapping[str, Any], rest: Sequence[str], limits: Domains, deadline: Deadline
) -> SolverResult:
    if not rest:
        return SolverResult(constraints.check(known, deadline))
    key = frozenset(known), tuple(rest), tuple(tuple(limits.get(name, ())) for name in rest)
    try:
        counterexamples = constraints.derived(key, lambda: _counterexample_terms(constraints, known, rest, limits))
    except TooLargeError:
        return UNKNOWN
    model, values = counterexamples.model(known, [], rest, deadline)
    if model == "unsat":
        return SolverResult("sat")
    if model == "unknown" or values is None or not _allowed(values, constraints, limits):
        return UNKNOWN
    return _verify_counterexample(constraints, known, values, deadline)


def _allowed(values: Mapping[str, Any], constraints: Constraints, limits: Domains) -> bool:
    fit = all(fits(value, constraints.sorts[name]) and moderate(value) for name, value in values.items())
    return fit and all(values[name] in limit for name, limit in limits.items())


def _verify_counterexample(
    constraints: Constraints, known: Mapping[str, Any], values: dict[str, Any], deadline: Deadline
) -> SolverResult:
    """Checks a counterexample with the constraints themselves, since Z3 chose the results that SMT-LIB leaves open."""
    status = constraints.check({**known, **values}, deadline)
    return SolverResult("unsat", counterexample=values) if status == "unsat" else UNKNOWN


def _counterexample_terms(
    constraints: Constraints, known: Iterable[str], rest: Sequence[str], limits: Domains
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
    if any(constant.num_args() for constant in constants):
        raise TooLargeError  # quantifying a function is not first-order
    choices = [_all_values(constant) for constant in constants]
    if not 0 < prod(map(len, choices)) <= MAX_CHOICES:
        return z3.Exists(constants, whole)
    pairs = [list(zip(constants, values, strict=True)) for values in product(*choices)]
    return z3.Or([z3.substitute(whole, *pair) for pair in pairs])


def _all_values(constant: Any) -> list[Any]:
    values = _values(sort_of(constant.sort()), None)
    return [] if values is None else [term_of(value, constant) for value in values]
