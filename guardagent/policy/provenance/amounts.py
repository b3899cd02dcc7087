"""Numbers in a text by their value: 1,234.00 is 1234, and 98.70 is 98.7; also as digits in groups.

The key of a number is its digits; one of fewer than four has a key of its own kind, since it says little about its
source unless a rule asks for just this number.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction

from guardagent.policy.language.values import Unknown, exact

MIN_LENGTH = 4  # characters of a string, digits of a number: shorter ones say little about their source
SHORT = "#"  # begins the key of a shorter number
NUMBER = re.compile("[0-9]+(?:[.,'\u2019_][0-9]+)*")
_SIGNIFICANT = 3  # digits of a short number that counts although a rule asks for all arguments at once
_DIGITS = re.compile("[0-9]+")
_ENGLISH = re.compile(r"([0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,2}(?:,[0-9]{2})+,[0-9]{3}|[0-9]+)(?:\.([0-9]+))?")
_GERMAN = re.compile(r"([0-9]{1,3}(?:\.[0-9]{3})+|[0-9]+)(?:,([0-9]+))?")
_APOSTROPHES = re.compile("(?<=[0-9])['\u2019_](?=[0-9]{3}(?![0-9]))")
_CARD = re.compile("[0-9]{4}([ -])(?:[0-9]{4}\\1[0-9]{4}\\1[0-9]{1,7}|[0-9]{6}\\1[0-9]{4,5})(?![0-9])")
_SPACED_GROUPS = re.compile("[0-9]{1,3}(?: [0-9]{3})+")
_CURRENCY = r"(?:[$\u20ac\u00a3\u00a5]|EUR|USD|GBP|CHF|JPY|CNY|INR|AUD|CAD|SEK|NOK|DKK|PLN)"
_AMOUNT = re.compile(rf"\s*{_CURRENCY}?\s?([+-]?)\s?([0-9][0-9.,'\u2019_]*+)\s?(?:%|{_CURRENCY})?\s*")
_WITH_UNIT = re.compile("([0-9]{1,3}(?:[.,][0-9]{1,2})?)[a-z]{1,4}")
_JOINED = range(7, 35)  # digits of a telephone number, an account or a card in groups
_LONGEST_JOINED = 50  # characters
_LARGE = 10**300  # no float is much larger
_HUGE = 10**4000  # Python refuses to write the digits of larger numbers


def number_key(value: float | Decimal | Fraction) -> str:
    """The key of a number; empty if it has no digits."""
    if type(value) is int:
        if 1000 <= value < _HUGE:
            return str(value)
        return _canonical(str(abs(value)), "", negative=value < 0) if -_HUGE < value < _HUGE else hex(value)
    text = str(value)
    whole, _, fraction = text.lstrip("-").partition(".")
    if not (whole + fraction).isdecimal():  # an exponent, a fraction, or no number
        number = exact(value)
        if isinstance(number, Unknown):
            return ""
        if not -_LARGE < number < _LARGE:
            return hex(int(number))
        text = f"{float(number):.12f}"
        whole, _, fraction = text.lstrip("-").partition(".")
    return _canonical(whole, fraction, negative=text[0] == "-")


def opposite(key: str) -> str:
    """The key of the number with the other sign."""
    mark = SHORT if key[:1] == SHORT else ""
    digits = key[len(mark) :]
    return mark + (digits[1:] if digits[:1] == "-" else f"-{digits}")


def is_telling(key: str) -> bool:
    """Whether a number says something about its source beside others: 815 and 98.7, but not 7 or 100."""
    return key[:1] != SHORT or len(key.strip(f"{SHORT}-0").replace(".", "")) >= _SIGNIFICANT


def amount_keys(text: str) -> tuple[str, ...]:
    """The keys that a text can mean that is one number, also with a currency or a percent sign; else none."""
    match = _AMOUNT.fullmatch(text) if len(text) <= _LONGEST_JOINED else None
    if match is None:
        return ()
    keys = readings(match[2].rstrip(".,'\u2019_"), short=True)
    return tuple(map(opposite, keys)) if match[1] == "-" else keys


def readings(text: str, *, short: bool = False) -> tuple[str, ...]:
    """The keys that a number in a text can have: 1.234 is 1.234 or 1234.

    Args:
        text: the digits with their separators.
        short: whether those of less than four digits count.
    """
    if text.isdecimal():
        digits = text.lstrip("0")
        return (digits,) if len(digits) >= MIN_LENGTH else (f"{SHORT}{digits or 0}",) if short else ()
    text = _APOSTROPHES.sub("", text) if "'" in text or "\u2019" in text or "_" in text else text
    keys = [
        _canonical(match[1].replace(separator, ""), match[2] or "")
        for pattern, separator in ((_ENGLISH, ","), (_GERMAN, "."))
        if (match := pattern.fullmatch(text))
    ]
    if not keys:  # a date, a version or an address
        return (text,) if sum(map(str.isdecimal, text)) >= MIN_LENGTH else ()
    return tuple(dict.fromkeys(key for key in keys if short or key[0] != SHORT))


def joined(text: str) -> str:
    """The digits of a telephone number, an account or a card in groups; empty for another run of digits."""
    if len(text) > _LONGEST_JOINED or NUMBER.fullmatch(text):
        return ""
    digits = "".join(_DIGITS.findall(text)).lstrip("0")
    is_joined = len(digits) in _JOINED or (len(digits) >= MIN_LENGTH and _SPACED_GROUPS.fullmatch(text))
    return digits if is_joined else ""


def card(text: str) -> str:
    """The digits of a card in groups at the beginning of a run of digits; else empty."""
    match = _CARD.match(text)
    return "".join(_DIGITS.findall(match[0])) if match else ""


def keys_in_groups(texts: Iterable[str]) -> list[str]:
    """The keys of the numbers in runs of digits with signs, and of the negative ones, for recording."""
    numbers = set(NUMBER.findall("\n".join(texts)))
    negative = [NUMBER.findall(text)[0] for text in texts if text[0] == "-"]
    opposites = [opposite(key) for number in negative for key in readings(number, short=True)]
    return opposites + [key for number in numbers for key in readings(number, short=True)]


def keys_before_unit(texts: Iterable[str]) -> list[str]:
    """The keys of the short numbers that a unit follows, as in '50eur'."""
    matches = filter(None, map(_WITH_UNIT.fullmatch, texts))
    return [key for match in matches for key in readings(match[1], short=True)]


def _canonical(whole: str, fraction: str, *, negative: bool = False) -> str:
    whole, fraction = whole.lstrip("0"), fraction.rstrip("0")
    mark = SHORT if len(whole) + len(fraction) < MIN_LENGTH else ""
    digits = f"{whole or 0}.{fraction}" if fraction else whole or "0"
    return f"{mark}{'-' if negative else ''}{digits}"
