"""Solver rules as expressions over the symbolic values of a call, so that they compare with data rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import reduce
from itertools import pairwise
from typing import Any

from guardagent.policy.logic.expressions import (
    Expression,
    arithmetic,
    concatenation,
    conditional,
    conj,
    disj,
    implies,
    is_substring,
    is_whole,
    less,
    neg,
    same,
    size,
    starts_with,
)
from guardagent.policy.logic.semantics import Semantics, SymbolicCall
from guardagent.policy.logic.values import TRUE, UNKNOWN, ScalarValue, Value, truth
from guardagent.policy.solver.literals import value_of
from guardagent.policy.solver.monitor import PermitCheck, SolverMonitor, SolverVariable
from guardagent.policy.solver.reduction import reduce_terms
from guardagent.policy.solver.sorts import BOOL, INT, REAL, STRING, Enumeration
from guardagent.policy.solver.sources import ARGS, ExpressionSource
from guardagent.policy.solver.traversal import TooLargeError
from guardagent.policy.solver.unsupported_error import UnsupportedError
from guardagent.policy.solver.z3_text import solver_module

_KINDS = {BOOL: "truth", INT: "number", REAL: "number", STRING: "text"}


def judge_by_solver(monitor: SolverMonitor, call: SymbolicCall, semantics: Semantics) -> Value:
    """Judges a symbolic call by a solver rule.

    Raises:
        UnsupportedError: the rule has no exact translation.
    """
    check = monitor.checks.get(str(call.tool))
    if check is None:
        return TRUE
    values: dict[str, Expression] = {}
    known = [_known(one, call, semantics, values) for one in check.variables]
    permitted = _permitted(check, values)
    return truth(conj(*known, permitted), conj(*known, neg(permitted)))


def _known(one: SolverVariable, call: SymbolicCall, semantics: Semantics, values: dict[str, Expression]) -> Expression:
    """The condition that a variable has a value of its sort, which is added to the values."""
    if not one.required or one.free or not isinstance(one.source, ExpressionSource):
        raise UnsupportedError  # whether such a variable matters is a question of its own
    value = semantics.value(one.source.tree, {ARGS: call.args})
    kind = "text" if isinstance(one.sort, Enumeration) else _KINDS.get(one.sort)
    cases = [(guard, leaf) for guard, leaf in value.cases if isinstance(leaf, ScalarValue) and leaf.kind == kind]
    if len(cases) != 1:
        if value == UNKNOWN or not cases:
            values[one.name] = False if kind == "truth" else 0 if kind == "number" else ""
            return False
        raise UnsupportedError
    guard, leaf = cases[0]
    values[one.name] = leaf.payload
    return conj(guard, _in_domain(one, leaf.payload))


def _in_domain(one: SolverVariable, payload: Expression) -> Expression:
    found: list[Expression] = [is_whole(payload)] if one.sort == INT else []
    allowed = one.sort.values if isinstance(one.sort, Enumeration) else one.enum
    if allowed is not None:
        found.append(disj(*(same(payload, value) for value in allowed)))
    return conj(*found)


def _permitted(check: PermitCheck, values: dict[str, Expression]) -> Expression:
    try:
        found = reduce_terms(check.question.terms, values)
    except TooLargeError:
        raise UnsupportedError from None
    if found.groups:
        raise UnsupportedError
    for constant, term in found.definitions:
        values[constant.decl().name()] = expression_of(term, values)
    return conj(*(expression_of(one, values) for one in found.formulas))


def expression_of(term: Any, values: Mapping[str, Expression]) -> Expression:
    """Translates a term, given the expressions of its constants.

    Raises:
        UnsupportedError: an operation has no exact translation.
    """
    z3 = solver_module()
    if not z3.is_app(term):
        raise UnsupportedError
    parts = term.children()
    kind = term.decl().kind()
    if not parts:
        name = term.decl().name()
        return values[name] if kind == z3.Z3_OP_UNINTERPRETED and name in values else _literal(term)
    if kind == z3.Z3_OP_DIV and not z3.is_rational_value(parts[1]) and not z3.is_int_value(parts[1]):
        raise UnsupportedError  # the result of a division by zero is open
    operation = _operations().get(kind)
    if operation is None or (kind == z3.Z3_OP_ITE and z3.is_string(term)):
        raise UnsupportedError
    return operation([expression_of(one, values) for one in parts], term)


def _literal(term: Any) -> Expression:
    value = value_of(term)
    return Fraction(value) if isinstance(value, Fraction) else value


def _fold(sign: str) -> Callable[[Sequence[Expression], Any], Expression]:
    return lambda parts, _: reduce(lambda left, right: arithmetic(left, sign, right), parts)


def _chain(test: Callable[[Expression, Expression], Expression]) -> Callable[[Sequence[Expression], Any], Expression]:
    return lambda parts, _: conj(*(test(left, right) for left, right in pairwise(parts)))


def _if(parts: Sequence[Expression], term: Any) -> Expression:
    condition, then, otherwise = parts
    if solver_module().is_bool(term):
        return conj(implies(condition, then), implies(neg(condition), otherwise))
    return conditional(condition, then, otherwise)


def _equal(left: Expression, right: Expression, *, is_truth: bool) -> Expression:
    return conj(implies(left, right), implies(right, left)) if is_truth else same(left, right)


def _equality(parts: Sequence[Expression], term: Any) -> Expression:
    is_truth = solver_module().is_bool(term.arg(0))
    return conj(*(_equal(left, right, is_truth=is_truth) for left, right in pairwise(parts)))


def _distinct(parts: Sequence[Expression], term: Any) -> Expression:
    is_truth = solver_module().is_bool(term.arg(0))
    pairs = [(one, other) for at, one in enumerate(parts) for other in parts[at + 1 :]]
    return conj(*(neg(_equal(one, other, is_truth=is_truth)) for one, other in pairs))


def _operations() -> Mapping[int, Callable[[Sequence[Expression], Any], Expression]]:
    z3 = solver_module()
    return {
        z3.Z3_OP_AND: lambda parts, _: conj(*parts),
        z3.Z3_OP_OR: lambda parts, _: disj(*parts),
        z3.Z3_OP_NOT: lambda parts, _: neg(parts[0]),
        z3.Z3_OP_IMPLIES: lambda parts, _: implies(*parts),
        z3.Z3_OP_EQ: _equality,
        z3.Z3_OP_DISTINCT: _distinct,
        z3.Z3_OP_ITE: _if,
        z3.Z3_OP_LT: _chain(less),
        z3.Z3_OP_GT: _chain(lambda left, right: less(right, left)),
        z3.Z3_OP_LE: _chain(lambda left, right: neg(less(right, left))),
        z3.Z3_OP_GE: _chain(lambda left, right: neg(less(left, right))),
        z3.Z3_OP_ADD: _fold("+"),
        z3.Z3_OP_MUL: _fold("*"),
        z3.Z3_OP_SUB: _fold("-"),
        z3.Z3_OP_DIV: _fold("/"),
        z3.Z3_OP_UMINUS: lambda parts, _: arithmetic(0, "-", parts[0]),
        z3.Z3_OP_TO_REAL: lambda parts, _: parts[0],
        z3.Z3_OP_SEQ_LENGTH: lambda parts, _: size(parts[0]),
        z3.Z3_OP_SEQ_CONCAT: lambda parts, _: reduce(concatenation, parts),
        z3.Z3_OP_SEQ_CONTAINS: lambda parts, _: is_substring(parts[1], parts[0]),
        z3.Z3_OP_SEQ_PREFIX: lambda parts, _: starts_with(parts[1], parts[0]),
    }
