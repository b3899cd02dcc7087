"""Reduces constraints once some constants are known.

Each step preserves satisfiability. A constant that must be true is set to true. `(= c term)` defines c once the whole
term is known. An equation is dropped if its constant occurs nowhere else. A constant that occurs with one polarity only
is set to that truth value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from guardagent.policy.solver.traversal import (
    Symbol,
    SymbolCache,
    TooLargeError,
    conjuncts,
    negated,
    postorder,
    replaced,
    symbol_of,
)
from guardagent.policy.solver.z3_text import solver_module

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
        self._pending = conjuncts(replaced(one, {}) for one in terms)
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
        self._definitions += [(one, values[symbol_of(one)]) for one in constants]  # type: ignore[index]
        self._known |= values.keys()
        touched = [replaced(one, values) if self._symbols.of(one) & values.keys() else one for one in self._pending]
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
            found = next((one for one in _sides(term) if self._defines(*one)), None)
            if found is None:
                left.append(term)
            else:
                self._definitions.append(found)
                self._known |= self._symbols.of(found[0])
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
            symbol: z3.BoolVal(next(iter(found)), constants[symbol].ctx)
            for symbol, found in signs.items()
            if len(found) == 1 and symbol not in self._known and z3.is_bool(constants[symbol]) and not symbol[1]
        }
        if values:
            self._set(values, [constants[symbol] for symbol in values])
        return bool(values)

    def _grouped(self) -> ReducedConstraints:
        found = ReducedConstraints(self._definitions, [one for one in self._pending if not self._unknown_symbols(one)])
        for term in self._pending:
            if self._unknown_symbols(term):
                self._add(found, term)
        return found

    def _add(self, found: ReducedConstraints, term: Any) -> None:
        """Merges a formula with the groups that share a constant with it."""
        group = ConstraintGroup({}, [])
        constants = {symbol_of(one): one for one in postorder([term])}
        group.constants = {symbol: constants[symbol] for symbol in self._unknown_symbols(term)}
        for other in [one for one in found.groups if one.constants.keys() & group.constants.keys()]:
            group.constants = {**other.constants, **group.constants}
            group.formulas += other.formulas
            found.groups.remove(other)
        group.formulas.append(term)
        found.groups.append(group)


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
