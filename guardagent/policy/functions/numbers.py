"""The functions of numbers, and of instants and the local time in a zone."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import wraps
from typing import Any

from guardagent.policy.functions import rule_function
from guardagent.policy.language.values import (
    Unknown,
    exact,
    kind_name,
    kind_of,
    local_time,
)
from guardagent.types import MAX_DIGITS

# --- numbers

_PLAIN = r"[0-9]+(?:\.[0-9]+)?"
_GROUPED = r"[0-9]{1,3}(?:(?:,[0-9]{3})+\.[0-9]+|(?:,[0-9]{3}){2,})"
_NUMBER = re.compile(rf"[+-]?(?:{_PLAIN}|{_GROUPED})")
_AMBIGUOUS = re.compile(r"[+-]?[0-9]{1,3},[0-9]{3}")


@rule_function("number", ("text",), result="number")
def _number(text: str) -> Any:
    """`number(text)`: the exact number that a whole string states.

        [space] [+ or -] digits [. digits] [space]          12   -0.50   +7
        [space] [+ or -] groups [. digits] [space]          1,234,567   1,234.50   -12,345.00

    Groups are one to three digits, then commas with exactly three digits each. A single comma without decimals
    ('1,234') is ambiguous: with a decimal comma it states another number. Such a string, and every other one, is
    unknown.
    """
    stated = text.strip(" \t\r\n")
    if len(stated) > MAX_DIGITS:
        return Unknown("a string is too long for a number")
    if _AMBIGUOUS.fullmatch(stated):
        return Unknown("a number is ambiguous: its comma can group digits or separate decimals")
    if not _NUMBER.fullmatch(stated):
        return Unknown("a string is not a number; expected digits such as '1234.50' or '1,234.50'")
    return exact(Decimal(stated.replace(",", "")))


@rule_function("abs", ("number",), result="number")
def _abs(number: Any) -> Any:
    """`abs(n)`: a number without its sign."""
    return abs(number)


@rule_function("min", ("number", "list"), repeated=True, result="number")
def _min(*values: Any) -> Any:
    """`min(a, b)`, `min(xs)`: the least of some numbers, or of a list of them."""
    return _chosen(min, values)


@rule_function("max", ("number", "list"), repeated=True, result="number")
def _max(*values: Any) -> Any:
    """`max(a, b)`, `max(xs)`: the greatest of some numbers, or of a list of them."""
    return _chosen(max, values)


def _chosen(choose: Callable[[list[Any]], Any], values: Sequence[Any]) -> Any:
    """One of the arguments, or of the items if the only argument is a list; all must be numbers."""
    numbers: list[Any] = []
    for value in values[0] if kind_of(values[0]) == "list" and len(values) == 1 else values:
        if kind_of(value) != "number":
            return Unknown(f"a {kind_name(value)} is not a number")
        numbers.append(exact(value))
        if type(numbers[-1]) is Unknown:
            return numbers[-1]
    return choose(numbers) if numbers else Unknown("a list is empty")


# --- instants


def _local_time_function(
    name: str, limits: tuple[int, int] | None = None
) -> Callable[[Callable[[dt.datetime], Any]], Any]:
    """Makes a function of an instant and a zone, by default that of the session's clock, from one of the local time."""

    def register(read: Callable[[dt.datetime], Any]) -> Any:
        @rule_function(name, ("number",), ("text",), required=1, result="number", zoned=True, range=limits)
        @wraps(read)
        def evaluate(seconds: Any, zone: str) -> Any:
            local = local_time(seconds, zone)
            return local if isinstance(local, Unknown) else read(local)

        return evaluate

    return register


@_local_time_function("hour", limits=(0, 23))
def _hour(local: dt.datetime) -> int:
    """`hour(instant, zone)`: the hour of the day, 0 to 23."""
    return local.hour


@_local_time_function("minute", limits=(0, 59))
def _minute(local: dt.datetime) -> int:
    """`minute(instant, zone)`: the minute of the hour, 0 to 59."""
    return local.minute


@_local_time_function("weekday", limits=(1, 7))
def _weekday(local: dt.datetime) -> int:
    """`weekday(instant, zone)`: the day of the week in ISO 8601, from 1 for Monday to 7 for Sunday."""
    return local.isoweekday()
