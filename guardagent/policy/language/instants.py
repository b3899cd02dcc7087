"""Instants: exact seconds since the epoch, to the microsecond, and their local time in a zone."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

from guardagent.policy.language.values import Unknown, exact

MICROSECONDS = 1_000_000
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_TICK = dt.timedelta(microseconds=1)
LAST = 253_402_300_800 * MICROSECONDS  # the end of year 9999
_FINE = 2**33  # below, floats are closer than microseconds: at most one whole number of these is a float's decimal
_OFFSET = re.compile(r"([+-])(\d\d):(\d\d)(?::(\d\d))?")
EXPECTED = "expected seconds since the epoch, or a date and time with its zone, such as '2026-01-31T12:00:00+00:00'"


def moment_of(value: object) -> int:
    """Returns an instant in microseconds since the epoch.

    Args:
        value: a number of seconds, or a datetime with a zone.

    Raises:
        ValueError: the value is no instant; with the expectation.
    """
    if type(value) is float and 0 <= value < _FINE and (near := round(value * MICROSECONDS)) / MICROSECONDS == value:
        return near  # the common case
    if isinstance(value, dt.datetime):
        if value.utcoffset() is None:
            raise ValueError(f"{value.isoformat()!r} has no time zone; {EXPECTED}")
        return (value - _EPOCH) // _TICK
    if isinstance(value, int | float | Decimal | Fraction) and type(value) is not bool:
        seconds = exact(value)
        if type(seconds) is not Unknown and 0 <= (moment := round(seconds * MICROSECONDS)) < LAST:  # type: ignore[operator]
            return moment
        raise ValueError(f"{value!r} is not a number of seconds between 1970 and 9999; {EXPECTED}")
    raise ValueError(f"a value of type {type(value).__name__!r} is not an instant; {EXPECTED}")


def parsed_instant(text: str) -> dt.datetime:
    """Reads a date and time with its zone, in ISO 8601.

    Raises:
        ValueError: the text is something else; with the expectation.
    """
    try:
        found = dt.datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text[:60]!r} is not a date and time; {EXPECTED}") from None
    if found.utcoffset() is None:
        raise ValueError(f"{text[:60]!r} has no time zone; {EXPECTED}")
    return found


def seconds_of(moment: int) -> int | Fraction:
    """The exact seconds of a moment."""
    whole, rest = divmod(moment, MICROSECONDS)
    return Fraction(moment, MICROSECONDS) if rest else whole


def name_of_zone(zone: dt.tzinfo) -> str:
    """The name of a time zone, such as `Europe/Berlin`, or its offset, such as `+01:00`.

    Raises:
        ValueError: the zone has neither.
    """
    name = getattr(zone, "key", None) or getattr(zone, "zone", None)  # of zoneinfo, and of pytz
    if isinstance(name, str) and zone_named(name) is not None:
        return name
    if isinstance(zone, dt.timezone):
        return _offset_text(int(zone.utcoffset(None).total_seconds()))
    expected = "a zone of 'zoneinfo', or a 'datetime.timezone'"
    raise ValueError(f"the time zone has the type {type(zone).__name__!r}; expected {expected}")


def _offset_text(seconds: int) -> str:
    if seconds == 0:
        return "UTC"
    hours, rest = divmod(abs(seconds), 3600)
    return f"{'-' if seconds < 0 else '+'}{hours:02}:{rest // 60:02}" + (f":{rest % 60:02}" if rest % 60 else "")


@lru_cache(256)
def zone_named(name: str) -> dt.tzinfo | None:
    """The time zone with this name or offset, or None."""
    if name == "UTC":
        return dt.UTC
    try:
        if found := _OFFSET.fullmatch(name):
            sign = -1 if found[1] == "-" else 1
            hours, minutes, seconds = (int(part or 0) for part in found.groups()[1:])
            return dt.timezone(sign * dt.timedelta(hours=hours, minutes=minutes, seconds=seconds))
        return ZoneInfo(name)
    except (ValueError, KeyError, OSError):  # no such zone, an offset of a day or more, a folder of zones
        return None


def local_time(seconds: Any, zone: str) -> dt.datetime | Unknown:
    """The local date and time of an instant in a zone."""
    found = zone_named(zone)
    if found is None:
        return Unknown(f"there is no time zone {zone!r} on this machine")
    try:
        return (_EPOCH + dt.timedelta(microseconds=round(seconds * MICROSECONDS))).astimezone(found)
    except OverflowError:
        return Unknown("a number is not an instant between the years 1 and 9999")
