"""`mentions(value, x)`: whether a string or number occurs as a whole token in a value, at any depth.

The strings of the value are searched, and the content of a string that is JSON; the keys of a mapping are not. A token
is not part of a longer word, number, e-mail address or identifier: 'W1' is no token of 'W10', 'W1-2' and 'W1@shop.com'.
A number is a token in digits, or an equal number.

An occurrence that differs in case, width, spacing or invisible characters is unknown, and so is one next to a word of
a script without spaces, and the string '500' where there is only the number 500.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import Any

from guardagent.policy.functions import RuleFunction
from guardagent.policy.functions._search import compiled, escaped, has_match
from guardagent.policy.language.parts import parsed
from guardagent.policy.language.values import Truth, Unknown, disjunction, equal, exact, kind_name, kind_of
from guardagent.types.formatting import MAX_DIGITS

MAX_TOKEN = 1_000  # characters
MAX_TRIED = 200  # occurrences, before one regular expression searches the rest
_AROUND = 4  # characters
_INVALID = Unknown("a string cannot be searched: it is not valid Unicode")
_W = r"\pL\pN\pM_"  # of words
_JOINS = r".@+'\x{2019}\x{2010}\x{2011}\-"  # between two word characters, they join words
_JOINS_ONLY = r"@+'\x{2019}\x{2010}\x{2011}"  # not before a number, as a point or a minus
_AT_EDGE = r"[\w.@+'\u2019\u2010\u2011-]"
_UNSPACED = r"|[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]"  # words without spaces between


def _mentions(value: Any, token: Any) -> Truth:
    text = _digits(token) if kind_of(token) == "number" else str(token).strip()
    if isinstance(text, Unknown):
        return text
    if not re.search(r"\w", text):
        return Unknown("a token contains no word or number")
    if len(text) > MAX_TOKEN or any("\ud800" <= char <= "\udfff" for char in text):
        return Unknown("a token is too long, or not valid Unicode")
    return disjunction(_in_leaf(leaf, token, text) for leaf in _leaves(value))


def _leaves(value: Any) -> Iterator[Any]:
    """The strings, numbers and other leaves of a value, and of the JSON in its strings."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        kind = kind_of(one)
        if kind == "mapping":
            waiting += one.values()
        elif kind in ("list", "set"):
            waiting += one
        elif one is not None:
            yield one
        if kind == "text" and one.lstrip()[:1] in ("{", "[", '"'):
            content = parsed(str(one))
            waiting += [] if type(content) is Unknown else [content]


def _in_leaf(leaf: Any, token: Any, text: str) -> Truth:
    kind = kind_of(leaf)
    if type(leaf) is Unknown:
        return leaf
    if kind == "text":
        return _in_text(str(leaf), text)
    if kind == "number":
        return equal(leaf, token) if kind_of(token) == "number" else _alike(leaf, text)
    return False if kind else Unknown(f"a {kind_name(leaf)} cannot be searched")


def _alike(number: Any, text: str) -> Truth:
    digits = _digits(number)
    if isinstance(digits, Unknown):
        return digits
    return Unknown("it occurs as a number, not as a string") if digits == text else False


def _in_text(whole: str, text: str) -> Truth:
    if text in whole:
        if not _is_valid(whole):
            return _INVALID
        if has_token(whole, text):
            return True
    if whole.isascii() and text.isascii() and " " not in text and text.lower() not in whole.lower():  # the common case
        return False
    folded, alike = _folded(text), _folded(whole)
    if folded in alike and not _is_valid(alike):
        return _INVALID
    if folded in alike and has_token(alike, folded, unspaced=True):
        return Unknown("it occurs only with other case, spacing or characters, or without a space around it")
    return False


def _is_valid(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text)


def has_token(whole: str, text: str, *, unspaced: bool = False) -> bool:
    """Whether a text occurs as a whole token; with `unspaced`, also beside words of a script without spaces.

    The characters around each occurrence are looked at: a regular expression of each token costs far more to compile.
    """
    before, after = token_edges(text, _UNSPACED if unspaced else "")
    at = whole.find(text)
    for _ in range(MAX_TRIED):
        if at < 0:
            return False
        end = at + len(text)
        if _fits(rf"(?:{before})\z", whole[max(0, at - _AROUND) : at]) and _fits(
            rf"\A(?:{after})", whole[end : end + _AROUND]
        ):
            return True
        at = whole.find(text, at + 1)
    return has_match(whole, before + escaped(text) + after) is True


def _fits(edge: str, around: str) -> bool:
    return compiled(edge).search(around.encode()) is not None


@lru_cache(256)
def token_edges(text: str, beside: str = "") -> tuple[str, str]:
    """The regular expressions of what stands before and after a whole token, at most `_AROUND - 1` characters each."""
    before = after = ""
    if re.match("[0-9]", text):
        before = rf"(?:^|[^{_W}{_JOINS}\x{{2212}},:]|(?:^|[^{_W}])[{_JOINS_ONLY}]|(?:^|[^0-9])[,:]{beside})"
    elif re.match(_AT_EDGE, text):
        before = rf"(?:^|[^{_W}{_JOINS}]|(?:^|[^{_W}])[{_JOINS}]{beside})"
    possessive = rf"['\x{{2019}}]s(?:$|[^{_W}])"
    if re.search(r"[0-9]\Z", text):
        after = rf"(?:$|[^{_W}{_JOINS},:]|[{_JOINS}](?:$|[^{_W}])|[,:](?:$|[^0-9])|{possessive}{beside})"
    elif re.search(rf"{_AT_EDGE}\Z", text):
        after = rf"(?:$|[^{_W}{_JOINS}]|[{_JOINS}](?:$|[^{_W}])|{possessive}{beside})"
    return before, after


def _folded(text: str) -> str:
    """The string without differences that a reader does not see or heed."""
    visible = "".join(char for char in unicodedata.normalize("NFKC", text) if unicodedata.category(char) != "Cf")
    return " ".join(visible.casefold().split())


def _digits(value: Any) -> str | Unknown:
    """A number as decimal digits."""
    number = exact(value)
    if type(number) is Unknown:
        return number
    with localcontext(prec=2 * MAX_DIGITS):
        text = f"{Decimal(number.numerator) / Decimal(number.denominator):f}"  # type: ignore[union-attr]
    return text if Fraction(text) == number else Unknown("a number has too many digits")


FUNCTION = RuleFunction(_mentions, ((), ("text", "number")), result="truth value")
