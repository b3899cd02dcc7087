"""Checks values against SMT-LIB sorts, without coercion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from guardagent.errors import name_hint
from guardagent.policy.language.values import Unknown, equal, exact, kind_of, shown
from guardagent.policy.solver.sorts import BOOL, INT, REAL, STRING, Enumeration, Sort

MAX_CHARACTER = 0x2FFFF  # of an SMT-LIB string


class SortMismatch:
    """A value that does not belong to the variable's sort; it always denies the call."""

    __slots__ = ("why",)

    def __init__(self, why: str) -> None:
        self.why = why


def value_of_sort(value: Any, sort: Sort, enum: Sequence[Any] | None) -> Any:
    """Returns the value as a bool, int, Fraction or str; Unknown if there is none; or a SortMismatch."""
    if type(value) is Unknown:
        return value
    kind = kind_of(value)
    if kind is None:
        return Unknown("it is null") if value is None else SortMismatch(f"{shown(value)} is not a JSON value")
    found = _of_sort(value, kind, sort)
    if enum is None or type(found) is SortMismatch or any(equal(found, one) is True for one in enum):
        return found
    return SortMismatch(f"{shown(found)} is not an allowed value{name_hint(str(found), map(str, enum))}")


def _of_sort(value: Any, kind: str, sort: Sort) -> Any:
    if isinstance(sort, Enumeration):
        if kind == "text" and value in sort.values:
            return str(value)
        return SortMismatch(f"{shown(value)} is not an allowed value{name_hint(str(value), sort.values)}")
    if sort is BOOL and kind == "truth value":
        return bool(value)
    if sort is STRING and kind == "text":
        return (
            str(value)
            if all(map(_is_character, value))
            else SortMismatch(f"{shown(value)} has characters that SMT-LIB lacks")
        )
    if sort in (INT, REAL) and kind == "number":
        return _number(value, sort)
    return SortMismatch(f"{shown(value)} is a {kind}; expected a value of sort '{sort.name}'")


def _number(value: Any, sort: Sort) -> Any:
    number = exact(value)
    if type(number) is Unknown:
        return SortMismatch("; ".join(number.why))
    if sort is INT and type(number) is not int:
        return SortMismatch(f"{shown(value)} is not a whole number; expected a value of sort 'Int'")
    return number


def _is_character(character: str) -> bool:
    code = ord(character)
    return code <= MAX_CHARACTER and not 0xD800 <= code <= 0xDFFF
