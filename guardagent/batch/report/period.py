"""The period of a report."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

from guardagent.errors import InputError

DAY = 86_400  # seconds


@dataclass(frozen=True, slots=True)
class Period:
    """Days in UTC, both included; None is open."""

    since: date | None = None
    until: date | None = None

    @property
    def is_open(self) -> bool:
        return self.since is None and self.until is None

    def holds(self, times: Any) -> Any:
        """Whether each time of an array is in the period; an unknown time is in the open period only."""
        import numpy as np

        first = -np.inf if self.since is None else _midnight(self.since)
        end = np.inf if self.until is None else _midnight(self.until) + DAY
        return np.full(len(times), fill_value=True) if self.is_open else (times >= first) & (times < end)


def parse_period(since: str | None, until: str | None) -> Period:
    """Returns the period of two dates such as `2026-05-31`.

    Raises:
        InputError: one is no date, or they are in the wrong order.
    """
    period = Period(_day("--since", since), _day("--until", until))
    if period.since and period.until and period.until < period.since:
        raise InputError(f"'--until' {until} is before '--since' {since}; expected a later day, or the same")
    return period


def _day(option: str, text: str | None) -> date | None:
    try:
        return None if text is None else date.fromisoformat(text)
    except ValueError:
        raise InputError(f"'{option}' {text!r} is not a date; expected one such as 2026-05-31") from None


def _midnight(day: date) -> float:
    return datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()
