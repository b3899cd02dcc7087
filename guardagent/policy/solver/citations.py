"""Finds quotes, strings and numbers in a message, as whole words and numbers only.

A prompt injection may make a model cite misleading fragments: `5` out of `2500`, `confirm` out of `unconfirmed`. Each
quote is therefore checked in its message, together with the surrounding characters.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from guardagent.policy.language.values import exact

MAX_OCCURRENCES = 100  # of one quote in one message
_TEXT_PARTS = ("text", "input_text", "output_text")
# All that could belong to one number: 1,250.00, and also 5 000 or 5'000, which are ambiguous.
_DIGITS = re.compile(r"[0-9](?:[0-9]|[.,](?=[0-9])|(?:[^\S\n]|['\u2019])(?=[0-9]{3}(?![0-9])))*")
_PLAIN = re.compile(r"(?:0|[1-9][0-9]*|[1-9][0-9]{0,2}(?:,[0-9]{3})+)(?:\.[0-9]+)?")
_SCALE = re.compile(r"\s*(?:hundred|thousand|grand|million|billion|trillion|dozen)", re.IGNORECASE)
_NEGATED = re.compile(r"\b(?:minus|negative)\s*$", re.IGNORECASE)
_MINUS = "-\u2212"
_JOINS = "-\u2212/:.,#@*^"  # between digits they form a date, a time, a range or a version
_LINKS = "-\u2212./@"  # in an identifier, an address or a path
_WIDE = "WF"  # scripts without spaces between words


@dataclass(frozen=True, slots=True)
class ConversationMessage:
    """A message of a conversation, as the host recorded it.

    Attributes:
        role: its role.
        content: its text.
        tool: the tool whose output it is, if known.
    """

    role: str
    content: str
    tool: str | None = None


def message_of(message: Any) -> ConversationMessage:
    """Converts a chat message with `role` and `content`; the content is a string or a list of parts with texts.

    Raises:
        ValueError: it is not a chat message.
    """
    if isinstance(message, ConversationMessage):
        return message
    if not isinstance(message, Mapping) or type(message.get("role")) is not str:
        kind = type(message).__name__
        raise ValueError(f"a message is a {kind!r} without a role; expected a mapping with 'role' and 'content'")
    tool = message.get("name")
    return ConversationMessage(message["role"], _content(message.get("content")), tool if type(tool) is str else None)


def _content(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list | tuple):
        raise ValueError(f"the content of a message is a {type(content).__name__!r}; expected a string")  # noqa: TRY004 - one kind
    parts = [part for part in content if isinstance(part, Mapping) and part.get("type") in _TEXT_PARTS]
    return "\n".join(str(part.get("text") or "") for part in parts)


def occurrences(quote: str, text: str) -> list[range]:
    """Returns the ranges of a quote in a text, at word boundaries only."""
    found: list[range] = []
    at = text.find(quote) if quote.strip() else -1
    while at >= 0 and len(found) < MAX_OCCURRENCES:
        if _is_whole(text, at, at + len(quote)):
            found.append(range(at, at + len(quote)))
        at = text.find(quote, at + 1)
    return found


def holds_text(value: str, text: str, within: list[range] | None = None) -> bool:
    """Whether a text contains a string as a whole, anywhere or in given ranges: W1-2 does not contain W1."""
    whole = [range(len(text))] if within is None else within
    return any(_covered(at, whole) and not _is_linked(text, at) for at in occurrences(value, text))


def holds_number(value: int | Fraction, text: str, within: list[range] | None = None) -> bool:
    """Whether a text contains a number in digits, anywhere or in given ranges."""
    whole = [range(len(text))] if within is None else within
    return any(number == value for number in _numbers_in_text(text, whole))


def _covered(inner: range, places: list[range]) -> bool:
    """Whether one of some sorted ranges of equal length covers another."""
    at = bisect_right(places, inner.start, key=lambda place: place.start) - 1
    return at >= 0 and inner.stop <= places[at].stop


def _is_whole(text: str, start: int, end: int) -> bool:
    return not (_joined(text[start - 1 : start], text[start]) or _joined(text[end - 1], text[end : end + 1]))


def _is_linked(text: str, at: range) -> bool:
    before, after = text[max(0, at.start - 2) : at.start], text[at.stop : at.stop + 2]
    return (len(before) == 2 and before[1] in _LINKS and before[0].isalnum()) or (
        len(after) == 2 and after[0] in _LINKS and after[1].isalnum()
    )


def _joined(left: str, right: str) -> bool:
    """Whether two characters belong to one word."""
    both = left + right
    if len(both) < 2 or any(unicodedata.east_asian_width(one) in _WIDE for one in both):
        return False
    return _of_word(left) and _of_word(right)


def _of_word(character: str) -> bool:
    """Whether a character is a letter, digit, underscore, accent or invisible."""
    return character == "_" or unicodedata.category(character)[0] in "LNM" or unicodedata.category(character) == "Cf"


def _numbers_in_text(text: str, within: list[range]) -> Iterator[int | Fraction]:
    for match in _DIGITS.finditer(text):
        start, end = match.span()
        negative = start > 0 and text[start - 1] in _MINUS
        start -= negative
        alone = _covered(range(start, end), within) and _stands_alone(text, start, end)
        number = exact(Decimal(match[0].replace(",", ""))) if alone and _PLAIN.fullmatch(match[0]) else None
        if isinstance(number, int | Fraction):
            yield -number if negative else number


def _stands_alone(text: str, start: int, end: int) -> bool:
    """Whether the digits are a number of their own, not part of a word, a date or an amount such as `5 million`."""
    before, after = text[max(0, start - 40) : start], text[end : end + 40]
    if (before and _of_word(before[-1])) or (after and _of_word(after[0])):
        return False
    if unicodedata.category(before[-1:] or " ") == "Sc" and before[-2:-1] and before[-2] in _MINUS:  # -$50
        return False
    if before and before[-1] in _JOINS and before[-2:-1].isalnum():
        return False
    if after and after[0] in _JOINS and after[1:2].isalnum():
        return False
    return not (_SCALE.match(after) or _NEGATED.search(before))
