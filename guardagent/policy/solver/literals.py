"""Converts values between Z3 terms and Python, exactly."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from guardagent.policy.solver.operations import is_text
from guardagent.policy.solver.sorts import BOOL, INT, REAL, STRING, Enumeration, Sort
from guardagent.policy.solver.unsupported_error import UnsupportedError
from guardagent.policy.solver.z3_text import solver_module

MAX_TEXT = 20_000  # characters of a string that the solver gets
MAX_BITS = 10_000  # of a number


def fits(value: Any, sort: Sort) -> bool:
    """Whether a value belongs to the sort without conversion."""
    kind = type(value)
    if isinstance(sort, Enumeration):
        return kind is str and value in sort.values
    if sort == REAL:
        return kind in (int, Fraction)
    if sort == STRING:
        return kind is str and is_text(value)
    return (kind is bool and sort == BOOL) or (kind is int and sort == INT)


def moderate(value: Any, longest: int = MAX_TEXT) -> bool:
    """Whether a value is small enough for the solver."""
    if isinstance(value, str):
        return len(value) <= longest
    return bool(max(value.numerator.bit_length(), value.denominator.bit_length()) <= MAX_BITS)


def term_of(value: Any, constant: Any) -> Any:
    """Returns a value, which fits the constant's sort, as a term of that sort."""
    z3 = solver_module()
    sort, context = constant.sort(), constant.ctx
    if isinstance(value, bool):
        return z3.BoolVal(value, context)
    if isinstance(value, str):
        return _text_term(value, sort, context)
    if z3.is_real(constant):
        return z3.RealVal(f"{value.numerator}/{value.denominator}", context)
    return z3.IntVal(str(value), context)


def _text_term(value: str, sort: Any, context: Any) -> Any:
    z3 = solver_module()
    if sort.kind() == z3.Z3_DATATYPE_SORT:
        constructors = (sort.constructor(number) for number in range(sort.num_constructors()))
        return next(one() for one in constructors if one.name() == value)
    codes = (z3.ctypes.c_uint * len(value))(*map(ord, value))
    return z3.SeqRef(z3.Z3_mk_u32string(context.ref(), len(value), codes), context)


def value_of(term: Any) -> Any:
    """Returns the value of a literal.

    Raises:
        UnsupportedError: the term is not a literal, or has no Python value.
    """
    z3 = solver_module()
    if z3.is_true(term) or z3.is_false(term):
        return z3.is_true(term)
    if z3.is_int_value(term) or z3.is_rational_value(term):
        return _number(term)
    if z3.is_string_value(term):
        return text_value(term)
    if term.decl().kind() == z3.Z3_OP_DT_CONSTRUCTOR and not term.num_args():
        return term.decl().name()
    raise UnsupportedError


def _number(term: Any) -> int | Fraction:
    z3 = solver_module()
    try:
        number = Fraction(term.as_long()) if z3.is_int_value(term) else term.as_fraction()
    except ValueError:  # too many digits
        raise UnsupportedError from None
    return number.numerator if number.denominator == 1 else Fraction(number)


def text_value(term: Any) -> str:
    """Returns the string of a literal, code point by code point.

    Raises:
        UnsupportedError: the term is not a string literal.
    """
    z3 = solver_module()
    if not z3.is_string_value(term):
        raise UnsupportedError
    length = z3.Z3_get_string_length(term.ctx_ref(), term.as_ast())
    codes = (z3.ctypes.c_uint * length)()
    z3.Z3_get_string_contents(term.ctx_ref(), term.as_ast(), length, codes)
    if any(code > 0x10FFFF for code in codes):
        raise UnsupportedError
    return "".join(map(chr, codes))


def values_of(model: Any, constants: Mapping[str, Any]) -> dict[str, Any] | None:
    """Returns a model's values of constants, or None if one has no Python value."""
    try:
        return {name: value_of(model.eval(one, model_completion=True)) for name, one in constants.items()}
    except UnsupportedError:
        return None
