"""The settings of the console."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    """The time for which people stay signed in.

    Attributes:
        is_served: whether there is a console at all.
        idle_seconds: without use.
        longest_seconds: in any case.
    """

    is_served: bool = True
    idle_seconds: float = 1800.0
    longest_seconds: float = 43_200.0
