"""Answers without a solver where all variables are known: constraints compiled once to a Python function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

from guardagent.policy.solver.generate import Code, function
from guardagent.policy.solver.operations import is_text
from guardagent.policy.solver.reduce import Group, Reduced
from guardagent.policy.solver.sorts import BOOL, INT, REAL, STRING, Enumeration, Sort
from guardagent.policy.solver.unsupported import UnsupportedError
from guardagent.policy.solver.walk import TooLargeError
from guardagent.policy.solver.z3_text import sort_of

MAX_TRIED = 64  # values of constants that nothing gives
Fast = Callable[[Sequence[object]], bool | None]
_TYPES = {"bool": bool, "int": int, "str": str, "type": type, "Fraction": Fraction, "is_text": is_text}
_ODD = (ArithmeticError, ValueError, TypeError, MemoryError, RecursionError)
_TESTS = {
    BOOL: "type({}) is not bool",
    INT: "type({}) is not int",
    REAL: "type({0}) is not int and type({0}) is not Fraction",
    STRING: "type({0}) is not str or not is_text({0})",
}


def unable(_: Sequence[object]) -> bool | None:
    """Only the solver can tell."""
    return None


def compiled(what: Reduced, variables: Mapping[str, Sort]) -> Fast:
    """A function of the variables' values: whether the constraints can be satisfied, or None where it cannot tell."""
    try:
        code = Code()
        open_groups = _written(code, what, variables)
        code.add(f"return {None if open_groups else True}")
        evaluated = function(code.lines, code.constants)
    except (UnsupportedError, TooLargeError, RecursionError, MemoryError):
        return unable

    def fast(values: Sequence[object]) -> bool | None:
        try:
            return evaluated(values)
        except _ODD:  # a division by zero, a value of no sort: whatever it is, it allows nothing here
            return None

    return fast


def _written(code: Code, what: Reduced, variables: Mapping[str, Sort]) -> bool:
    """Writes all that can be evaluated; gives whether something is left for the solver."""
    code.constants.update(_TYPES)
    _entry(code, variables)
    for constant, term in what.definitions:
        _define(code, constant, term)
    done = [_check(code, formula) for formula in what.formulas]
    done += [_search(code, group) for group in what.groups]
    return not all(done)


def _entry(code: Code, variables: Mapping[str, Sort]) -> None:
    """Takes the values, and gives up on any that is not of its sort."""
    names = [f"v{number}" for number in range(len(variables))]
    if not names:
        code.add("if values: return None")
        return
    code.add(f"{', '.join(names)}, = values")
    for name, (variable, sort) in zip(names, variables.items(), strict=True):
        code.bind(variable, name)
        code.add(f"if {_test(code, name, sort)}: return None")


def _test(code: Code, name: str, sort: Sort) -> str:
    if isinstance(sort, Enumeration):
        return f"type({name}) is not str or {name} not in {code.constant(frozenset(sort.values))}"
    if sort not in _TESTS:
        raise UnsupportedError
    return _TESTS[sort].format(name)


def _define(code: Code, constant: Any, term: Any) -> None:
    """Computes a constant; one that cannot be is no value, and what it is in is left for the solver."""
    try:
        (text,) = code.expressions([term])
    except UnsupportedError:
        return
    name = f"d{len(code.lines)}"
    code.add(f"{name} = {text}")
    code.bind(constant.decl().name(), name)


def _check(code: Code, formula: Any) -> bool:
    """A formula that must hold; gives whether it could be written."""
    try:
        (text,) = code.expressions([formula])
    except UnsupportedError:
        return False
    code.add(f"if not {text}: return False")
    return True


def _search(code: Code, group: Group) -> bool:
    """Tries the values of a few constants; gives whether it could be written."""
    choices = [_choices(constant) for constant in group.constants.values()]
    if not 0 < prod(map(len, choices)) <= MAX_TRIED:
        return False
    names = [f"e{len(code.lines)}_{number}" for number in range(len(choices))]
    for name, (constant, _) in zip(names, group.constants, strict=True):
        code.bind(constant, name)
    kept = len(code.lines)
    code.add(f"for {', '.join(names)}, in {code.constant(list(product(*choices)))}:")
    code.enter()
    written = all(_tried(code, formula) for formula in group.formulas)
    code.add("break")
    code.leave()
    code.add("else: return False")
    if not written:
        del code.lines[kept:]
    return written


def _tried(code: Code, formula: Any) -> bool:
    try:
        (text,) = code.expressions([formula])
    except UnsupportedError:
        return False
    code.add(f"if not {text}: continue")
    return True


def _choices(constant: Any) -> tuple[Any, ...]:
    """All values of a constant; none where there are too many."""
    sort = sort_of(constant.sort()) if not constant.num_args() else None
    if isinstance(sort, Enumeration):
        return sort.values
    return (False, True) if sort == BOOL else ()
