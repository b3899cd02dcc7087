"""The clock of a session: the time of each check, with its zone."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable

from guardagent.errors import InputError
from guardagent.policy.language.instants import moment_of, name_of_zone, seconds_of, zone_named

HostClock = Callable[[], float | dt.datetime | None]
"""Returns seconds since the epoch, or a datetime with its zone; None for an unknown time."""


class ClockError(InputError):
    """The clock of the host cannot be read, or went back.

    Attributes:
        detail: the message with the clock's own error.
    """

    def __init__(self, problem: str, error: object = "") -> None:
        super().__init__(problem)
        self.detail = f"{problem}: {error}" if error else problem


Reading = tuple[int | None, str | None]
"""A reading of a clock: microseconds since the epoch, and the name of the zone; None if unknown."""


class Clock:
    """Reads the clock of the host.

    Args:
        read: the clock.
        zone: the zone of `hour(now)` and the like; by default that of the datetimes that the clock returns.

    Raises:
        InputError: the zone is invalid.
    """

    __slots__ = ("_read", "_zone")

    def __init__(self, read: HostClock = time.time, zone: dt.tzinfo | str | None = None) -> None:
        if not callable(read):
            raise InputError(f"'clock' has the type {type(read).__name__!r}; expected a function without parameters")
        self._read, self._zone = read, None if zone is None else _zone_name(zone)

    def read(self) -> Reading:
        """Reads the clock.

        Raises:
            ClockError: the clock raised an error, or returned something else than an instant.
        """
        if self._read is time.time:  # the common case
            return time.time_ns() // 1000, self._zone
        try:
            return self.reading_of(self._read())
        except ValueError as error:
            raise ClockError(f"the clock returned no instant: {error}") from None
        except Exception as error:
            raise ClockError(f"the clock raised {type(error).__name__}", error) from error

    def reading_of(self, value: float | dt.datetime | None) -> Reading:
        """The reading for an instant of the host.

        Raises:
            ValueError: the value is no instant.
        """
        zone = self._zone
        if value is None:
            return None, zone
        if zone is None and isinstance(value, dt.datetime) and value.tzinfo is not None:
            zone = name_of_zone(value.tzinfo)
        return moment_of(value), zone


def _zone_name(zone: dt.tzinfo | str) -> str:
    if isinstance(zone, str) and zone_named(zone) is not None:
        return zone
    try:
        if isinstance(zone, dt.tzinfo):
            return name_of_zone(zone)
    except ValueError as error:
        raise InputError(str(error)) from None
    raise InputError(f"there is no time zone {zone!r} on this machine; expected a name such as 'Europe/Berlin'")


def require_forward(moment: int, latest: int) -> None:
    """Raises an error if a moment is earlier than the latest call.

    Raises:
        ClockError: it is earlier.
    """
    if moment < latest:
        behind = float(seconds_of(latest - moment))
        raise ClockError(f"the clock went back: it is {behind:g} seconds before the last call of the conversation")
