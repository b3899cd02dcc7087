"""Durations: a number and a unit, such as `24h`; their values are seconds."""

from __future__ import annotations

import re
from fractions import Fraction

SECONDS: dict[str, Fraction | int] = {"ms": Fraction(1, 1000), "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
DURATION = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?)(ms|[smhdw])")


def seconds(number: int | Fraction, unit: str) -> int | Fraction:
    """The seconds of a number of units."""
    found = number * Fraction(SECONDS[unit])
    return int(found) if found.denominator == 1 else found


def duration_of(text: str) -> int | Fraction | None:
    """The seconds of a duration; None for other strings."""
    found = DURATION.fullmatch(text)
    return found and seconds(Fraction(found[1]), found[2])
