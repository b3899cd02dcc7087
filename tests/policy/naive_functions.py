"""A second implementation of the language's functions, written straight from their definitions."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

from tests.policy.naive_values import UNKNOWN, Between, Truth, either, equal, from_json, kind, looked_up, number


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


def _time(text: Any, zone: Any = None) -> Any:
    """A local time is one whose instant, by either reading of an ambiguous one, has that local time only once."""
    if kind(text) != "text" or zone is None:
        return _of_texts(_instant)(text)
    shape = re.fullmatch(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d)(:\d\d(\.\d{1,6})?)?", text, re.ASCII)
    if shape is None:
        return UNKNOWN
    offset = dt.timezone(-dt.timedelta(hours=2, minutes=30)) if zone[0] == "-" else ZoneInfo(zone)
    local = dt.datetime.fromisoformat(text)
    instants = set()
    for hours in range(-15, 16):  # the instants whose local time this could be
        for minutes in (0, 30):
            instant = local.replace(tzinfo=dt.UTC) - dt.timedelta(hours=hours, minutes=minutes)
            if instant.astimezone(offset).replace(tzinfo=None) == local:
                instants.add(instant)
    return _instant(instants.pop().isoformat()) if len(instants) == 1 else UNKNOWN


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


def _date(text: str, form: str) -> Any:
    """Reads the only format of the generated rules by the library."""
    if form != "MM/DD/YYYY" or not re.fullmatch("[0-9]{2}/[0-9]{2}/[0-9]{4}", text.strip()):
        return UNKNOWN
    try:
        return dt.datetime.strptime(text.strip(), "%m/%d/%Y").strftime("%Y-%m-%d")  # noqa: DTZ007 - a date
    except ValueError:
        return UNKNOWN


def _later(*, months: int = 0, days: int = 0) -> Callable[..., Any]:
    """Goes on day by day, or month by month."""

    def evaluate(text: Any, count: Any) -> Any:
        if kind(text) != "text" or kind(count) != "number" or number(count) is UNKNOWN:
            return UNKNOWN
        if number(count).denominator != 1:
            return UNKNOWN
        if not re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", text) or abs(number(count)) > 1000:
            return UNKNOWN
        year, month, day = map(int, text.split("-"))
        for _ in range(abs(int(number(count))) * months):
            month += 1 if number(count) > 0 else -1
            year, month = (year + 1, 1) if month > 12 else (year - 1, 12) if month < 1 else (year, month)
        while months and day > 28 and not _exists(year, month, day):
            day -= 1
        return f"{dt.date(year, month, day) + dt.timedelta(int(number(count)) * days)}"

    return evaluate


def _exists(year: int, month: int, day: int) -> bool:
    return day <= (dt.date(year + month // 12, month % 12 + 1, 1) - dt.timedelta(1)).day


def _money(text: str) -> Any:
    """Knows the generated texts."""
    amounts: dict[str, Any] = {"$842.15": Fraction("842.15"), "1.234,50 €": Fraction("1234.5"), "EUR -2": -2}
    signs = {"$842.15": "$", "1.234,50 €": "€", "EUR -2": "EUR"}
    return {"amount": amounts[text], "currency": signs[text]} if text in amounts else UNKNOWN


def _local(read: Callable[[dt.datetime], Any]) -> Callable[..., Any]:
    """A function of the local time, from the offset of the zone at the instant."""

    def evaluate(seconds: Any, zone: Any) -> Any:
        if kind(seconds) != "number" or kind(zone) != "text":
            return UNKNOWN
        utc = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=float(seconds))
        return read(utc.replace(tzinfo=None) + (utc.astimezone(ZoneInfo(zone)).utcoffset() or dt.timedelta()))

    return evaluate


def _slice(items: Any, start: Any, end: Any = None) -> Any:
    """Takes the items one by one."""
    places = [place for place in (start, end) if place is not None]
    if kind(items) != "list" or not all(kind(place) == "number" and number(place).denominator == 1 for place in places):
        return UNKNOWN
    least, most = (
        (int(place) + len(items) if place < 0 else int(place)) for place in (start, len(items) if end is None else end)
    )
    return [item for at, item in enumerate(items) if least <= at < most]


def _row(rows: Any, key: Any, value: Any) -> Any:
    """Compares each row, and then counts."""
    rows = from_json(rows) if kind(rows) == "text" else rows
    if kind(rows) != "list" or kind(key) != "text":
        return UNKNOWN
    compared = [(item, equal(looked_up(item, key), value)) for item in rows]
    if [match for _, match in compared].count(True) != 1 or any(match is UNKNOWN for _, match in compared):
        return UNKNOWN
    return next(item for item, match in compared if match is True)


def _commands(text: str) -> Any:
    """Reads words between operators, as the generated texts have no other commands."""
    folder, commands = ".", list[Any]()
    for words in (part.split() for part in re.split("&&|;|[|]", text)):
        if not words:
            return UNKNOWN
        if words[0] == "cd":
            folder = words[1]
            continue
        is_known = not any("$" in word for word in words)
        name = None if words[0].startswith("$") else words[0]
        argv = words if is_known else None
        commands.append({"argv": argv, "name": name, "reads": [], "writes": [], "cwd": folder, "env": {}})
    return commands


def _statements(text: str) -> Any:
    """Knows the generated texts."""
    shape = {"tables": ["t"], "columns": [], "functions": [], "every_row": True}
    return {
        "select a from t": [{**shape, "kind": "select", "columns": ["a"], "every_row": False}],
        "delete from t; drop table a": [{**shape, "kind": "delete"}, {**shape, "kind": "drop", "tables": ["a"]}],
    }.get(text, UNKNOWN)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "[:]": _slice,
    "[=]": _row,
    "commands": _of_texts(_commands),
    "statements": _of_texts(_statements),
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
    "time": _time,
    "hour": _local(lambda local: local.hour),
    "minute": _local(lambda local: local.minute),
    "weekday": _local(lambda local: local.weekday() + 1),
    "date": lambda value, second: (_date if kind(value) == "text" else _local(lambda local: f"{local:%Y-%m-%d}"))(
        value, second
    ),
    "add_months": _later(months=1),
    "add_days": _later(days=1),
    "money": _of_texts(_money),
}
