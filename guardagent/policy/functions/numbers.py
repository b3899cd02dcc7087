"""The functions of numbers, of dates, instants and the local time in a zone, and of amounts of money.

Dates are strings such as `2026-01-31`. No result depends on the locale of the machine, and what can be read in two ways
is unknown.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import wraps
from typing import Any

from guardagent.policy.functions import rule_function
from guardagent.policy.language.values import (
    Unknown,
    exact,
    kind_name,
    kind_of,
    local_time,
    moment_of,
    parsed_instant,
    seconds_of,
    zone_named,
)
from guardagent.types import MAX_DIGITS

# --- dates

_MONTHS = "January February March April May June July August September October November December".split()
_TOKENS = {
    "YYYY": r"(?P<year>[0-9]{4})",
    "MMMM": f"(?P<name>(?i:{'|'.join(_MONTHS)}))",
    "MMM": f"(?P<name>(?i:{'|'.join(name[:3] for name in _MONTHS)}))",
    "MM": r"(?P<month>[0-9]{2})",
    "M": r"(?P<month>[0-9]{1,2})",
    "DD": r"(?P<day>[0-9]{2})",
    "D": r"(?P<day>[0-9]{1,2})",
}
_FORMAT = re.compile(f"({'|'.join(_TOKENS)})")


def _is_format(form: str) -> bool:
    return sorted(part[0] for part in _FORMAT.split(form) if part in _TOKENS) == ["D", "M", "Y"]


def parsed_date(text: str, form: str) -> str | Unknown:
    """The date in a whole string of a format, as `YYYY-MM-DD`."""
    if not _is_format(form):
        return Unknown("a format of dates has not YYYY, MM and DD once each; M, MMM, MMMM and D can stand for them")
    parts = _FORMAT.split(form)
    match = re.fullmatch("".join(_TOKENS.get(part, re.escape(part)) for part in parts), text.strip())
    if match is None:
        return Unknown("a string is not a date in the format of the rule")
    fields = match.groupdict()
    named = [name[:3].lower() for name in _MONTHS]
    month = int(fields["month"]) if "month" in fields else named.index(fields["name"][:3].lower()) + 1
    return _written(int(fields["year"]), month, int(fields["day"]))


def _zone_problem(zone: str) -> str | None:
    return None if zone_named(zone) else f"there is no time zone {zone!r}; expected one such as 'Europe/Berlin'"


def _date_problem(form: str) -> str | None:
    if _is_format(form) or zone_named(form) is not None:
        return None
    return (
        f"{form!r} is neither a format of dates nor a time zone; expected a format with YYYY, MM and DD "
        "once each (M, MMM, MMMM and D can stand for them), such as 'MM/DD/YYYY', or a zone such as 'Europe/Berlin'"
    )


@rule_function("date", ("number", "text"), ("text",), required=1, zoned=True, result="text", problem=_date_problem)
def _date(value: Any, zone_or_format: str) -> Any:
    """`date(instant, zone)`, `date(text, "MM/DD/YYYY")`: the date in ISO 8601, such as `"2026-01-31"`."""
    if kind_of(value) == "text":
        return parsed_date(str(value), zone_or_format)
    local = local_time(value, zone_or_format)
    return local if isinstance(local, Unknown) else local.date().isoformat()


_LOCAL = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,6})?)?")


@rule_function("time", ("text",), ("text",), required=1, result="number", problem=_zone_problem)
def _time(text: str, zone: str | None = None) -> Any:
    """`time(text)`, `time(text, zone)`: the instant of an ISO 8601 date and time with its zone, or in a named one."""
    try:
        return seconds_of(moment_of(parsed_instant(text) if zone is None else _in_zone(text, zone)))
    except (ValueError, OverflowError) as error:
        return Unknown(str(error) if zone else "a string is not a date and time with its zone")


def _in_zone(text: str, zone: str) -> dt.datetime:
    """A local date and time in a zone.

    Raises:
        ValueError: the text is something else, there is no such zone, or the zone changes its clocks then.
    """
    zone_info = zone_named(zone)
    if zone_info is None:
        raise ValueError(_zone_problem(zone))
    if not _LOCAL.fullmatch(text):
        raise ValueError("a string is not a local date and time, such as '2026-01-31 09:30'")
    first, second = (dt.datetime.fromisoformat(text).replace(tzinfo=zone_info, fold=fold) for fold in (0, 1))
    if first.utcoffset() != second.utcoffset():
        raise ValueError(f"a local time does not exist or exists twice in {zone!r}, since its clocks change")
    return first


def _written(year: int, month: int, day: int) -> str | Unknown:
    try:
        return dt.date(year, month, day).isoformat()
    except ValueError:
        return Unknown("there is no such date")


def _of_date(change: Callable[[dt.date, int], Any]) -> Callable[[str, Any], Any]:
    def evaluate(text: str, number: Any) -> Any:
        if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", text, re.ASCII) or int(number) != number:
            return Unknown("a value is not a date such as '2026-01-31', or a whole number")
        try:
            return change(dt.date.fromisoformat(text), int(number))
        except (ValueError, OverflowError):
            return Unknown("there is no such date")

    return evaluate


@rule_function("add_months", ("text",), ("number",), result="text")
def _add_months(text: str, number: Any) -> Any:
    """`add_months(date, n)`: a date n months later; the last day of its month if that has no such day."""

    def later(date: dt.date, months: int) -> str:
        year, month = divmod(date.year * 12 + date.month - 1 + months, 12)
        last = (dt.date(year + month // 11, (month + 1) % 12 + 1, 1) - dt.timedelta(1)).day
        return date.replace(year=year, month=month + 1, day=min(date.day, last)).isoformat()

    return _of_date(later)(text, number)


@rule_function("add_days", ("text",), ("number",), result="text")
def _add_days(text: str, number: Any) -> Any:
    """`add_days(date, n)`: a date n days later."""
    return _of_date(lambda date, days: (date + dt.timedelta(days)).isoformat())(text, number)


# --- money

_SIGN = r"[A-Z]{0,3}[$€£¥₹₩₽₺₫₴₦฿₪]|[A-Z]{3}"
_SPACE = "[ \u00a0\u202f]"
_MONEY = re.compile(
    rf"(?P<minus>[-\u2212]?)(?:(?P<before>{_SIGN}){_SPACE}?)?(?P<inner>[-\u2212]?)"
    rf"(?P<number>[0-9](?:[0-9.,'\u2019\u00a0\u202f ]*[0-9])?)(?:{_SPACE}?(?P<after>{_SIGN}))?"
)
_GROUPS = re.compile(r"(?P<first>[1-9][0-9]{0,2})(?:(?P<sign>[.,'\u2019\u00a0\u202f ])[0-9]{3})(?:(?P=sign)[0-9]{3})*")


@rule_function("money", ("text",), result="mapping")
def _money(text: str) -> Any:
    """`money(text)`: the `amount` and the `currency` of `$842.15`, `1.234,50 €` or `USD 20`, as they are written."""
    match = _MONEY.fullmatch(text.strip())
    if match is None or len(text) > MAX_DIGITS or bool(match["before"]) is bool(match["after"]):
        return Unknown("a string is not an amount with one currency, such as '$842.15' or '1.234,50 EUR'")
    if match["minus"] and match["inner"]:
        return Unknown("an amount has two signs")
    amount = _amount(match["number"])
    if isinstance(amount, Unknown):
        return amount
    number = -amount if match["minus"] or match["inner"] else amount
    return {"amount": int(number) if number.denominator == 1 else number, "currency": match["before"] or match["after"]}


def _amount(written: str) -> Fraction | Unknown:
    """The number of an amount: groups of three digits, and decimals behind another sign."""
    whole, point, decimals = written, "", ""
    if (end := re.search(r"[.,](?=[0-9]+\Z)", written)) is not None:
        whole, point, decimals = written[: end.start()], end[0], written[end.end() :]
    groups = _GROUPS.fullmatch(whole)
    if groups is not None and groups["sign"] == point:  # as in 1,234,567
        whole, decimals = (whole + decimals, "") if len(decimals) == 3 else ("", decimals)
    elif groups is None and len(decimals) == 3 and re.fullmatch("[1-9][0-9]{0,2}", whole):
        return Unknown("an amount is ambiguous: its only sign can group digits or separate decimals")
    digits = re.sub("[^0-9]", "", whole)
    if not (groups or re.fullmatch("0|[1-9][0-9]*", whole)) or not digits:
        return Unknown("an amount has no exact form, such as 1,234.50 or 1.234,50")
    return Fraction(f"{digits}.{decimals or 0}")


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
