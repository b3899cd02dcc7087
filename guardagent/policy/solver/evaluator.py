"""Compiles constraints to a Python function that decides calls without a solver if all variables are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

from guardagent.policy.solver.codegen import FunctionBuilder, compile_function
from guardagent.policy.solver.operations import is_text
from guardagent.policy.solver.reduction import ConstraintGroup, ReducedConstraints
from guardagent.policy.solver.sorts import BOOL, INT, REAL, STRING, Enumeration, Sort
from guardagent.policy.solver.traversal import TooLargeError
from guardagent.policy.solver.unsupported_error import UnsupportedError
from guardagent.policy.solver.z3_text import sort_of

MAX_COMBINATIONS = 64  # combinations of values of undefined constants
Evaluator = Callable[[Sequence[object]], bool | None]
_TYPES = {"bool": bool, "int": int, "str": str, "type": type, "Fraction": Fraction, "is_text": is_text}
_EVALUATION_ERRORS = (ArithmeticError, ValueError, TypeError, MemoryError, RecursionError)
_TESTS = {
    BOOL: "type({}) is not bool",
    INT: "type({}) is not int",
    REAL: "type({0}) is not int and type({0}) is not Fraction",
    STRING: "type({0}) is not str or not is_text({0})",
}


def undecided(_: Sequence[object]) -> bool | None:
    """Leaves the decision to the solver."""
    return None


def compile_evaluator(reduction: ReducedConstraints, variables: Mapping[str, Sort]) -> Evaluator:
    """Compiles a function of the variables' values: whether the constraints are satisfiable, or None if undecided."""
    try:
        code = FunctionBuilder()
        open_groups = _write_body(code, reduction, variables)
        code.add(f"return {None if open_groups else True}")
        evaluated = compile_function(code.lines, code.constants)
    except (UnsupportedError, TooLargeError, RecursionError, MemoryError):
        return undecided

    def evaluate(values: Sequence[object]) -> bool | None:
        try:
            return evaluated(values)
        except _EVALUATION_ERRORS:  # for example a division by zero: the solver decides
            return None

    return evaluate


def _write_body(code: FunctionBuilder, reduction: ReducedConstraints, variables: Mapping[str, Sort]) -> bool:
    """Writes the constraints that can be evaluated; returns whether some are left for the solver."""
    code.constants.update(_TYPES)
    _entry(code, variables)
    for constant, term in reduction.definitions:
        _define(code, constant, term)
    done = [_check(code, formula) for formula in reduction.formulas]
    done += [_search(code, group) for group in reduction.groups]
    return not all(done)


def _entry(code: FunctionBuilder, variables: Mapping[str, Sort]) -> None:
    """Writes code that reads the values and returns None if one does not fit its sort."""
    names = [f"v{number}" for number in range(len(variables))]
    if not names:
        code.add("if values: return None")
        return
    code.add(f"{', '.join(names)}, = values")
    for name, (variable, sort) in zip(names, variables.items(), strict=True):
        code.bind(variable, name)
        code.add(f"if {_test(code, name, sort)}: return None")


def _test(code: FunctionBuilder, name: str, sort: Sort) -> str:
    if isinstance(sort, Enumeration):
        return f"type({name}) is not str or {name} not in {code.constant(frozenset(sort.values))}"
    if sort not in _TESTS:
        raise UnsupportedError
    return _TESTS[sort].format(name)


def _define(code: FunctionBuilder, constant: Any, term: Any) -> None:
    """Writes the computation of a constant; terms over one that cannot be computed are left for the solver."""
    try:
        (text,) = code.expressions([term])
    except UnsupportedError:
        return
    name = f"d{len(code.lines)}"
    code.add(f"{name} = {text}")
    code.bind(constant.decl().name(), name)


def _check(code: FunctionBuilder, formula: Any) -> bool:
    """Writes a test of a formula; returns whether it could be written."""
    try:
        (text,) = code.expressions([formula])
    except UnsupportedError:
        return False
    code.add(f"if not {text}: return False")
    return True


def _search(code: FunctionBuilder, group: ConstraintGroup) -> bool:
    """Writes a loop over the values of a group's constants; returns whether it could be written."""
    choices = [_choices(constant) for constant in group.constants.values()]
    if not 0 < prod(map(len, choices)) <= MAX_COMBINATIONS:
        return False
    names = [f"e{len(code.lines)}_{number}" for number in range(len(choices))]
    for name, (constant, _) in zip(names, group.constants, strict=True):
        code.bind(constant, name)
    kept = len(code.lines)
    code.add(f"for {', '.join(names)}, in {code.constant(list(product(*choices)))}:")
    code.enter()
    written = all(_check_or_continue(code, formula) for formula in group.formulas)
    code.add("break")
    code.leave()
    code.add("else: return False")
    if not written:
        del code.lines[kept:]
    return written


def _check_or_continue(code: FunctionBuilder, formula: Any) -> bool:
    try:
        (text,) = code.expressions([formula])
    except UnsupportedError:
        return False
    code.add(f"if not {text}: continue")
    return True


def _choices(constant: Any) -> tuple[Any, ...]:
    """Returns all values of a constant, or an empty tuple if there are too many."""
    sort = sort_of(constant.sort()) if not constant.num_args() else None
    if isinstance(sort, Enumeration):
        return sort.values
    return (False, True) if sort == BOOL else ()
