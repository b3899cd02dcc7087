"""Operations of SMT-LIB over Python's values, with exactly Z3's results.

Where SMT-LIB leaves a result open, as for a division by zero, they raise ArithmeticError: only a solver can tell then.
"""

from __future__ import annotations

import math
from fractions import Fraction

MAX_CHARACTER = 0x2FFFF
MAX_PRODUCT = 20_000_000  # characters of a text that a replacement may make
Number = int | Fraction


def divide(first: Number, second: Number) -> Number:
    """As `/`."""
    return Fraction(first, second)


def quotient(first: int, second: int) -> int:
    """`div`: what is left over is never negative."""
    return first // second if second > 0 else -(first // -second)


def modulo(first: int, second: int) -> int:
    """`mod`: never negative."""
    return first % abs(second)


def remainder(first: int, second: int) -> int:
    """`rem`: as `mod`, with the sign of the divisor."""
    return first % second if second > 0 else -(first % -second)


def whole(value: Number) -> bool:
    """As `is_int`."""
    return value.denominator == 1


floor = math.floor


def substring(text: str, start: int, length: int) -> str:
    """As `str.substr`."""
    return text[start : start + length] if start >= 0 and length > 0 else ""


def character(text: str, at: int) -> str:
    """As `str.at`."""
    return text[at : at + 1] if at >= 0 else ""


def index(text: str, part: str, start: int) -> int:
    """As `str.indexof`."""
    return text.find(part, start) if start >= 0 else -1


def replace(text: str, old: str, new: str) -> str:
    """`str.replace`: of the first; what is empty stands at the beginning."""
    return text.replace(old, new, 1)


def replace_all(text: str, old: str, new: str) -> str:
    """`str.replace_all`: what is empty stands nowhere."""
    if not old:
        return text
    if len(text) * (len(new) + 1) > MAX_PRODUCT:
        raise OverflowError
    return text.replace(old, new)


def from_int(value: int) -> str:
    """As `str.from_int`."""
    return str(value) if value >= 0 else ""


def to_int(text: str) -> int:
    """As `str.to_int`."""
    return int(text) if text.isascii() and text.isdigit() else -1


def is_digit(text: str) -> bool:
    """As `str.is_digit`."""
    return len(text) == 1 and "0" <= text <= "9"


def to_code(text: str) -> int:
    """As `str.to_code`."""
    return ord(text) if len(text) == 1 else -1


def from_code(code: int) -> str:
    """As `str.from_code`."""
    return chr(code) if 0 <= code <= MAX_CHARACTER else ""


def is_text(text: str) -> bool:
    """Whether SMT-LIB has all the characters."""
    return text.isascii() or all(ord(one) <= MAX_CHARACTER and not 0xD800 <= ord(one) <= 0xDFFF for one in text)
