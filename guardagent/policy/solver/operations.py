"""SMT-LIB operations on Python values, with exactly Z3's results.

They raise ArithmeticError where SMT-LIB leaves a result open, as for a division by zero: only a solver can decide then.
"""

from __future__ import annotations

import math
from fractions import Fraction

MAX_CHARACTER = 0x2FFFF
MAX_PRODUCT = 20_000_000  # characters of the result of a replacement
Number = int | Fraction


def divide(first: Number, second: Number) -> Number:
    """`/`."""
    return Fraction(first, second)


def quotient(first: int, second: int) -> int:
    """`div`: the remainder is never negative."""
    return first // second if second > 0 else -(first // -second)


def modulo(first: int, second: int) -> int:
    """`mod`: never negative."""
    return first % abs(second)


def remainder(first: int, second: int) -> int:
    """`rem`: like `mod`, with the sign of the divisor."""
    return first % second if second > 0 else -(first % -second)


def whole(value: Number) -> bool:
    """`is_int`."""
    return value.denominator == 1


floor = math.floor


def substring(text: str, start: int, length: int) -> str:
    """`str.substr`."""
    return text[start : start + length] if start >= 0 and length > 0 else ""


def character(text: str, at: int) -> str:
    """`str.at`."""
    return text[at : at + 1] if at >= 0 else ""


def index(text: str, part: str, start: int) -> int:
    """`str.indexof`."""
    return text.find(part, start) if start >= 0 else -1


def replace(text: str, old: str, new: str) -> str:
    """`str.replace`: replaces the first occurrence; an empty pattern matches at the start."""
    return text.replace(old, new, 1)


def replace_all(text: str, old: str, new: str) -> str:
    """`str.replace_all`: an empty pattern matches nowhere."""
    if not old:
        return text
    if len(text) * (len(new) + 1) > MAX_PRODUCT:
        raise OverflowError
    return text.replace(old, new)


def from_int(value: int) -> str:
    """`str.from_int`."""
    return str(value) if value >= 0 else ""


def to_int(text: str) -> int:
    """`str.to_int`."""
    return int(text) if text.isascii() and text.isdigit() else -1


def is_digit(text: str) -> bool:
    """`str.is_digit`."""
    return len(text) == 1 and "0" <= text <= "9"


def to_code(text: str) -> int:
    """`str.to_code`."""
    return ord(text) if len(text) == 1 else -1


def from_code(code: int) -> str:
    """`str.from_code`."""
    return chr(code) if 0 <= code <= MAX_CHARACTER else ""


def is_text(text: str) -> bool:
    """Whether all characters exist in SMT-LIB."""
    return text.isascii() or all(ord(one) <= MAX_CHARACTER and not 0xD800 <= ord(one) <= 0xDFFF for one in text)
