"""The totals of one key, as a store outside of this process keeps them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any, NamedTuple

from guardagent.errors import CounterError
from guardagent.policy.evaluation.counters import CounterKey, Number
from guardagent.session.counters.protocol import CounterReading


class FoundAmount(NamedTuple):
    """An amount that is, or is about to be, out of its window."""

    reservation: str
    time: float
    amount: str
    is_pending: bool


def reading_of(
    key: CounterKey, row: tuple[str, str, Any, float], found: Iterable[FoundAmount], now: float
) -> tuple[CounterReading, float, list[str]]:
    """Returns the state of a key, its latest time, and the reservations that are out of its window.

    Args:
        key: the key.
        row: its totals (settled, pending), its version and its latest time.
        found: the amounts that may be out of the window.
        now: the time of the check.

    Raises:
        CounterError: these are not values that a store writes.
    """
    settled, pending, version, latest = number(row[0]), number(row[1]), row[2], row[3]
    if not all(isinstance(time, int | float) for time in (latest, *(one.time for one in found))):
        raise CounterError(f"the counter {key.counter!r} has a time that is no number; it was changed or is damaged")
    window = math.inf if key.window is None else key.window
    clock, expired = max(latest, now), []
    for one in found:
        if clock - one.time > window:
            expired.append(one.reservation)
            settled -= 0 if one.is_pending else number(one.amount)
            pending -= number(one.amount) if one.is_pending else 0
    if settled < 0 or pending < 0:
        raise CounterError(f"the counter {key.counter!r} has a total below zero; it was changed or is damaged")
    return CounterReading(settled, pending, version), clock, expired


def number(text: str) -> Number:
    """Reads a total or an amount.

    Raises:
        CounterError: it is no number.
    """
    try:
        return Fraction(text) if "/" in text else int(text)
    except (ValueError, TypeError, ZeroDivisionError):
        raise CounterError(f"{text!r} is not a number; the store of counters was changed or is damaged") from None
