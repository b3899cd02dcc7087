"""Numbers, and the local time of an instant at the changes of daylight saving time and around the world."""

from __future__ import annotations

import datetime as dt
from fractions import Fraction
from typing import Any

import pytest

from guardagent.policy.functions import rule_functions
from guardagent.policy.language.values import Unknown

FUNCTIONS = rule_functions()


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("12", 12),
        (" -0.50\n", Fraction(-1, 2)),
        ("+7", 7),
        ("007", 7),
        ("1,234.50", Fraction(2469, 2)),
        ("-1,234,567", -1234567),
        ("0.1", Fraction(1, 10)),
        ("1" * 400, int("1" * 400)),
        *(
            (text, None)
            for text in ("", " ", "1,234", "12,34", "1,23,456", "1234,567.0", "1.234,50", "1e5", "0x1", ".5", "5.")
        ),
        *((text, None) for text in ("--5", "1 000", "$5", "5 EUR", "\uff15", "\u0665", "NaN", "inf", "1_0", "1" * 401)),
    ],
)
def test_a_number_is_exact_or_unknown(text: str, number: int | Fraction | None) -> None:
    """The notation is strict: a single comma is ambiguous."""
    result = FUNCTIONS["number"].apply([text])
    assert isinstance(result, Unknown) if number is None else result == number


def local(text: str, zone: str) -> tuple[Any, ...]:
    """The date, weekday, hour and minute of an instant in a zone."""
    seconds = Fraction(dt.datetime.fromisoformat(text).timestamp())
    return tuple(FUNCTIONS[name].apply([seconds, zone]) for name in ("date", "weekday", "hour", "minute"))


@pytest.mark.parametrize(
    ("instant", "zone", "expected"),
    [
        ("2026-03-29T00:59:59.999999Z", "Europe/Berlin", ("2026-03-29", 7, 1, 59)),
        ("2026-03-29T01:00:00Z", "Europe/Berlin", ("2026-03-29", 7, 3, 0)),  # 2:00 to 3:00 does not exist
        ("2026-10-25T00:30:00Z", "Europe/Berlin", ("2026-10-25", 7, 2, 30)),
        ("2026-10-25T01:30:00Z", "Europe/Berlin", ("2026-10-25", 7, 2, 30)),  # 2:30 comes twice
        ("2026-10-25T02:00:00Z", "Europe/Berlin", ("2026-10-25", 7, 3, 0)),
        ("2026-11-01T05:59:00Z", "America/New_York", ("2026-11-01", 7, 1, 59)),
        ("2026-11-01T06:00:00Z", "America/New_York", ("2026-11-01", 7, 1, 0)),
        ("2026-04-04T15:00:00Z", "Australia/Lord_Howe", ("2026-04-05", 7, 1, 30)),  # the change is half an hour
        ("2026-12-31T18:14:59Z", "Asia/Kathmandu", ("2026-12-31", 4, 23, 59)),
        ("2026-12-31T18:15:00Z", "Asia/Kathmandu", ("2027-01-01", 5, 0, 0)),
        ("2026-02-28T23:59:59Z", "UTC", ("2026-02-28", 6, 23, 59)),
        ("2028-02-28T23:59:59-00:01", "UTC", ("2028-02-29", 2, 0, 0)),
        ("2026-01-05T02:00:00Z", "-02:30", ("2026-01-04", 7, 23, 30)),
    ],
)
def test_local_times(instant: str, zone: str, expected: tuple[Any, ...]) -> None:
    assert local(instant, zone) == expected


NOWHERE = ("Europe/Berlim", "", "../etc/passwd", "/etc", "+25:00", "+1:00", "Europe", "utc+1")
NEVER: tuple[Any, ...] = (10**12, -(10**12), 10**400, Fraction(10**30, 7))


@pytest.mark.parametrize(
    ("seconds", "zone"), [*((0, zone) for zone in NOWHERE), *((seconds, "UTC") for seconds in NEVER)]
)
def test_an_unknown_zone_and_a_time_outside_of_the_calendar_are_unknown(seconds: Any, zone: str) -> None:
    assert isinstance(FUNCTIONS["hour"].apply([seconds, zone]), Unknown)
