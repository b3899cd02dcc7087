"""A second implementation of the language's functions, written straight from their definitions."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

from tests.policy.naive_values import UNKNOWN, Between, Truth, either, equal, from_json, kind, number


def applied(function: str, values: Sequence[Any]) -> Any:
    """The result of a function; unknown if a value is."""
    if any(value is UNKNOWN or isinstance(value, Between) or not kind(value) for value in values):
        return UNKNOWN
    return FUNCTIONS[function](*values)


def _of_texts(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *values: function(*values) if all(kind(value) == "text" for value in values) else UNKNOWN


def _abs(value: Any) -> Any:
    value_number = number(value)
    return UNKNOWN if value_number is UNKNOWN else _whole(value_number if value_number >= 0 else -value_number)


def _whole(value: Fraction) -> int | Fraction:
    return int(value) if value.denominator == 1 else value


def _sorted(values: Sequence[Any]) -> list[Any]:
    """The numbers in order; empty if there is another value."""
    numbers = [number(value) for value in (values[0] if len(values) == 1 and kind(values[0]) == "list" else values)]
    return [] if UNKNOWN in numbers else sorted(map(_whole, numbers))


def _mapping(value: Any) -> Any:
    """The mapping, also one in a string; unknown for other values."""
    parsed = from_json(value) if kind(value) == "text" else value
    return parsed if kind(parsed) == "mapping" else UNKNOWN


def _keys(value: Any) -> Any:
    mapping = _mapping(value)
    return UNKNOWN if mapping is UNKNOWN else [*mapping]


def _has(value: Any, key: Any) -> Any:
    mapping = _mapping(value)
    return UNKNOWN if mapping is UNKNOWN or kind(key) != "text" else key in mapping


def _values(value: Any) -> Any:
    mapping = _mapping(value)
    return UNKNOWN if mapping is UNKNOWN else [*mapping.values()]


def _find(text: Any, regex: str) -> Any:
    if kind(text) != "text":
        return UNKNOWN
    return [match[min(1, match.re.groups)] for match in re.finditer(regex, text, re.ASCII) if match[0]]


def _number(text: str) -> Any:
    """Takes the commas out, if they can only group."""
    stripped = text.strip(" \t\r\n")
    whole, point, decimals = stripped.lstrip("+-").partition(".")
    first, *groups = whole.split(",")
    if len(stripped) - len(stripped.lstrip("+-")) > 1 or not all(_is_digits(group) for group in (first, *groups)):
        return UNKNOWN
    if point and not _is_digits(decimals):
        return UNKNOWN
    if groups and (len(first) > 3 or {len(group) for group in groups} != {3} or (len(groups) == 1 and not point)):
        return UNKNOWN
    return _whole(Fraction(stripped.replace(",", "")))


def _is_digits(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _links(text: str) -> list[str]:
    """Reads words, as the generated texts have no other links."""
    words = [word.strip("().,;") for word in text.split()]
    addresses = ["http://" + word if word.startswith("www.") else word for word in words]
    links = [_lowered(word) for word in addresses if re.match("(?i)https?://", word)]
    return [link for at, link in enumerate(links) if link not in links[:at]]


def _lowered(link: str) -> str:
    scheme, _, rest = link.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme.lower()}://{host.lower()}{slash or '/'}{path}"


def _emails(text: str) -> list[str]:
    words = [word.strip("().,;<>").lower() for word in text.split()]
    addresses = [word for word in words if "@" in word and "." in word.split("@")[1]]
    return [address for at, address in enumerate(addresses) if address not in addresses[:at]]


def _tokens(text: str) -> list[str]:
    """Reads words, as the generated texts have no other tokens."""
    words = [word.strip("().,;:<>") for word in text.casefold().split()]
    tokens = [token for word in words for token in _tokens_of(word)]
    return [token for at, token in enumerate(tokens) if token not in tokens[:at]] or [text]


def _tokens_of(word: str) -> list[str]:
    if "://" in word:
        return [word.rstrip("/"), word.split("/")[2]]
    if re.fullmatch(r"[a-z.]+@[a-z.]+|/[a-z./]{3,}", word):
        return [word]
    number = word.replace(",", "") if re.fullmatch("[0-9]{1,3}(,[0-9]{3})*[.][0-9]+|[0-9]+", word) else ""
    value = _number(number)
    digits = "" if value is UNKNOWN else _digits(Fraction(value))
    return [digits] if len(digits.replace(".", "")) > 3 else []


def _instant(text: str) -> Any:
    try:
        instant = dt.datetime.fromisoformat(text)
    except ValueError:
        return UNKNOWN
    if instant.tzinfo is None:
        return UNKNOWN
    return _whole(Fraction((instant - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1), 10**6))


def _mentions(value: Any, token: Any) -> Truth:
    if kind(token) not in ("text", "number") or (number(token) is UNKNOWN and kind(token) == "number"):
        return UNKNOWN
    text = _digits(number(token)) if kind(token) == "number" else token.strip()
    if kind(token) == "number" and Fraction(text) != number(token):
        return UNKNOWN
    if not any(char.isalnum() or char == "_" for char in text):
        return UNKNOWN
    return either(_in_leaf(leaf, token, text) for leaf in _leaves(value))


def _leaves(value: Any) -> list[Any]:
    match kind(value):
        case "mapping":
            return [leaf for part in value.values() for leaf in _leaves(part)]
        case "list":
            return [leaf for part in value for leaf in _leaves(part)]
        case "text" if value[:1] in ("{", "[", '"') and from_json(value) is not UNKNOWN:
            return [value, *_leaves(from_json(value))]
    return [] if value is None else [value]


def _digits(value: Fraction) -> str:
    return f"{Decimal(value.numerator) / Decimal(value.denominator):f}"


def _in_leaf(leaf: Any, token: Any, text: str) -> Truth:
    if kind(leaf) == "number":
        if kind(token) == "number":
            return equal(leaf, token)
        return UNKNOWN if number(leaf) is UNKNOWN or _digits(number(leaf)) == text else False
    if kind(leaf) != "text":
        return False
    if _has_token(leaf, text):
        return True
    return UNKNOWN if _has_token(leaf.lower(), text.lower()) else False


def _has_token(whole: str, text: str) -> bool:
    """Tries every place: what is joined to the token, directly or by punctuation, makes it longer."""
    return any(
        whole.startswith(text, at)
        and not _joined(whole[:at][::-1], text[0])
        and not (text[0].isdigit() and _groups(whole[:at][::-1]))
        and not (text[-1].isdigit() and _groups(whole[at + len(text) :]))
        and (not _joined(whole[at + len(text) :], "") or _is_possessive(whole[at + len(text) :]))
        for at in range(len(whole))
    )


def _groups(around: str) -> bool:
    """Whether a number goes on after a comma or a colon, as in '1,234' and '10:30'."""
    return around[:1] in (",", ":") and around[1:2].isdigit()


def _is_possessive(after: str) -> bool:
    return after[:2] in ("'s", "\u2019s") and not (after[2:3].isalnum() or after[2:3] == "_")


def _joined(around: str, first: str) -> bool:
    """Whether the characters next to a token, the nearest first, belong to it."""
    near, next_one = around[:1] or " ", around[1:2] or " "
    if near.isalnum() or near == "_" or (first.isdigit() and near in ".-"):
        return True
    return near in ".@+'-" and (next_one.isalnum() or next_one == "_")


def _local(read: Callable[[dt.datetime], Any]) -> Callable[..., Any]:
    """A function of the local time, from the offset of the zone at the instant."""

    def evaluate(seconds: Any, zone: Any) -> Any:
        if kind(seconds) != "number" or kind(zone) != "text":
            return UNKNOWN
        utc = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=float(seconds))
        return read(utc.replace(tzinfo=None) + (utc.astimezone(ZoneInfo(zone)).utcoffset() or dt.timedelta()))

    return evaluate


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "lower": _of_texts(str.lower),
    "has": _has,
    "starts_with": _of_texts(lambda text, start: text[: len(start)] == start),
    "ends_with": _of_texts(lambda text, end: text[len(text) - len(end) :] == end and len(end) <= len(text)),
    "abs": _abs,
    "min": lambda *values: next(iter(_sorted(values)), UNKNOWN),
    "max": lambda *values: next(reversed(_sorted(values)), UNKNOWN),
    "keys": _keys,
    "values": _values,
    "find": _find,
    "number": _of_texts(_number),
    "links": _of_texts(_links),
    "emails": _of_texts(_emails),
    "tokens": _of_texts(_tokens),
    "mentions": _mentions,
    "time": _of_texts(_instant),
    "hour": _local(lambda local: local.hour),
    "minute": _local(lambda local: local.minute),
    "weekday": _local(lambda local: local.weekday() + 1),
    "date": _local(lambda local: f"{local:%Y-%m-%d}"),
}
