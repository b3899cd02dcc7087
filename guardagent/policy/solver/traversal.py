"""Traverses Z3 terms without recursion, since they may be deep and share subterms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from guardagent.policy.solver.z3_text import solver_module

MAX_NODES = 20_000  # of terms that are traversed
Symbol = tuple[str, int]  # an uninterpreted constant or function: its name and arity


class TooLargeError(Exception):
    """The terms have too many nodes."""


def postorder(roots: Iterable[Any]) -> list[Any]:
    """Returns every subterm once, after its own subterms.

    Raises:
        TooLargeError: there are too many subterms.
    """
    found: list[Any] = []
    done: set[int] = set()
    stack = [(root, False) for root in reversed(list(roots))]
    while stack:
        term, entered = stack.pop()
        if term.get_id() in done:
            continue
        if entered:
            done.add(term.get_id())
            found.append(term)
            continue
        if len(found) + len(stack) > MAX_NODES:
            raise TooLargeError
        stack.append((term, True))
        stack += [(child, False) for child in reversed(term.children())]
    return found


def symbol_of(term: Any) -> Symbol | None:
    """Returns the symbol of an uninterpreted constant or function, else None."""
    z3 = solver_module()
    if not z3.is_app(term) or term.decl().kind() != z3.Z3_OP_UNINTERPRETED:
        return None
    return term.decl().name(), term.num_args()


class SymbolCache:
    """Caches the symbols that occur in terms."""

    def __init__(self) -> None:
        self._found: dict[int, frozenset[Symbol]] = {}
        self._kept: list[Any] = []  # Z3 reuses the id of a released term

    def of(self, term: Any) -> frozenset[Symbol]:
        known = self._found.get(term.get_id())
        if known is None:
            symbols = {symbol_of(part) for part in postorder([term])}
            known = frozenset(one for one in symbols if one is not None)
            self._found[term.get_id()] = known
            self._kept.append(term)
        return known


def replaced(term: Any, values: Mapping[Symbol, Any]) -> Any:
    """Replaces constants in a term and folds connectives whose value is then decided."""
    z3 = solver_module()
    new: dict[int, Any] = {}
    for part in postorder([term]):
        if not z3.is_app(part):
            new[part.get_id()] = z3.substitute(part, *_pairs(part, values)) if values else part
            continue
        symbol = symbol_of(part)
        if symbol is not None and symbol in values:
            new[part.get_id()] = values[symbol]
            continue
        children = part.children()
        mended = [new[child.get_id()] for child in children]
        same = all(one.eq(other) for one, other in zip(children, mended, strict=True))
        new[part.get_id()] = folded(part if same else part.update(*mended))
    return new[term.get_id()]


def _pairs(part: Any, values: Mapping[Symbol, Any]) -> list[tuple[Any, Any]]:
    constants = [one for one in postorder([part]) if symbol_of(one) in values]
    return [(one, values[symbol_of(one)]) for one in constants]  # type: ignore[index]


def folded(term: Any) -> Any:
    """Simplifies a connective that has a truth value among its operands."""
    z3 = solver_module()
    kind, parts = term.decl().kind(), term.children()
    if kind == z3.Z3_OP_ITE and (z3.is_true(parts[0]) or z3.is_false(parts[0])):
        return parts[1 if z3.is_true(parts[0]) else 2]
    if not any(z3.is_true(one) or z3.is_false(one) for one in parts):
        return term
    if kind == z3.Z3_OP_NOT:
        return z3.BoolVal(not z3.is_true(parts[0]), term.ctx)
    if kind in (z3.Z3_OP_AND, z3.Z3_OP_OR):
        return _junction(term, parts, conjunction=kind == z3.Z3_OP_AND)
    if kind == z3.Z3_OP_IMPLIES:
        return _junction(term, [negated(parts[0]), parts[1]], conjunction=False)
    return _equality(term, parts) if kind == z3.Z3_OP_EQ else term


def negated(term: Any) -> Any:
    z3 = solver_module()
    if z3.is_true(term) or z3.is_false(term):
        return z3.BoolVal(z3.is_false(term), term.ctx)
    return term.arg(0) if z3.is_not(term) else z3.Not(term)


def _junction(term: Any, parts: list[Any], *, conjunction: bool) -> Any:
    z3 = solver_module()
    decides, idle = (z3.is_false, z3.is_true) if conjunction else (z3.is_true, z3.is_false)
    if any(decides(one) for one in parts):
        return z3.BoolVal(not conjunction, term.ctx)
    left = [one for one in parts if not idle(one)]
    if len(left) < 2:
        return left[0] if left else z3.BoolVal(conjunction, term.ctx)
    return z3.And(left) if conjunction else z3.Or(left)


def _equality(term: Any, parts: list[Any]) -> Any:
    z3 = solver_module()
    first, second = parts
    if z3.is_true(first) or z3.is_false(first):
        first, second = second, first
    if z3.is_true(first) or z3.is_false(first):
        return z3.BoolVal(first.eq(second), term.ctx)
    return first if z3.is_true(second) else negated(first)


def conjuncts(terms: Iterable[Any]) -> list[Any]:
    """Splits terms into the conjuncts that must all hold."""
    z3 = solver_module()
    found, stack = [], list(terms)[::-1]
    while stack:
        term = stack.pop()
        if z3.is_and(term):
            stack += term.children()[::-1]
        elif z3.is_not(term) and z3.is_or(term.arg(0)):
            stack += [negated(one) for one in term.arg(0).children()[::-1]]
        elif z3.is_not(term) and z3.is_implies(term.arg(0)):
            stack += [negated(term.arg(0).arg(1)), term.arg(0).arg(0)]
        elif z3.is_not(term) and z3.is_not(term.arg(0)):
            stack.append(term.arg(0).arg(0))
        elif not z3.is_true(term):
            found.append(term)
    return found
