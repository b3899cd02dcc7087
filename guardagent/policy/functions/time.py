"""`time(text)`: the instant of a date and time with its zone in ISO 8601, in seconds since the epoch."""

from __future__ import annotations

from fractions import Fraction

from guardagent.policy.functions import RuleFunction
from guardagent.policy.language.instants import moment_of, parsed_instant, seconds_of
from guardagent.policy.language.values import Unknown


def _instant(text: str) -> int | Fraction | Unknown:
    try:
        return seconds_of(moment_of(parsed_instant(text)))
    except (ValueError, OverflowError):
        return Unknown("a string is not a date and time with its zone")


FUNCTION = RuleFunction(_instant, (("text",),), result="number")
