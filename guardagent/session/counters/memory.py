"""The interface of a store of counters, and the store in memory, for the sessions of one process.

A call takes up its amounts when it is allowed (`reserve`), and they count for good once it has run (`settle`). A call
that failed or never ran gives them back (`release`). An amount counts from the time of its reservation until its
counter's window has passed. No clock that goes back frees an amount: each key remembers the latest time it has seen.
"""

from __future__ import annotations

import itertools
import math
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, NamedTuple, Protocol

from guardagent.errors import CounterError, GuardError
from guardagent.policy.evaluation.counters import CountedAmount, CounterKey, Number

_SWEPT = 2  # other keys that a reservation looks at, to forget those whose amounts have long left their window


class CountersChangedError(GuardError):
    """A counter was raised since it was read, so the decision was made on an outdated value."""


@dataclass(frozen=True, slots=True)
class CounterReading:
    """The state of one key.

    Attributes:
        settled: the sum over the calls that ran, or whose outcome is unknown.
        pending: the sum over the calls in flight.
        version: changes with each reservation for the key.
    """

    settled: Number
    pending: Number
    version: Any


@dataclass(frozen=True, slots=True)
class Reservation:
    """A reserved amount of a call in flight, for the operator.

    Attributes:
        id: the id of the reservation; it begins with the id of the session.
        time: the time of the check, in seconds since the epoch.
    """

    id: str
    counter: str
    key: str
    amount: Number
    time: float


class CounterStore(Protocol):
    """A store of counters. Each method is atomic among all users of the store, and raises CounterError if it fails."""

    def read(self, key: CounterKey, now: float) -> CounterReading:
        """Returns the state of a key at a time."""

    def reserve(
        self, reservation: str, amounts: Sequence[CountedAmount], now: float, seen: Mapping[CounterKey, Any]
    ) -> None:
        """Reserves the amounts of a call in flight; on return they survive the end of the process.

        Args:
            reservation: a new id.
            amounts: the amounts, of different counters.
            now: the time of the check.
            seen: the version of each key that the decision depends on.

        Raises:
            CountersChangedError: one of these keys has another version; nothing was reserved.
        """

    def settle(self, reservation: str) -> None:
        """Counts a reservation for good. Does nothing if it was settled or released before."""

    def release(self, reservation: str) -> None:
        """Gives a reservation back. Does nothing if it was settled or released before."""

    def pending(self, prefix: str = "") -> list[Reservation]:
        """Returns the reservations of calls in flight, the oldest first. Some can belong to processes that ended.

        Args:
            prefix: the beginning of their ids.
        """


def id_range(prefix: str) -> tuple[str, str]:
    """Returns the first id with this prefix, and the first one after all of them, in the order of their bytes."""
    return prefix, f"{prefix[:-1]}{chr(ord(prefix[-1]) + 1)}"


@dataclass(slots=True)
class _CounterEntry:
    """An amount of a call."""

    time: float
    amount: Number
    is_pending: bool = True


@dataclass(slots=True)
class _Account:
    """The totals of one key, and the amounts that can still leave its window or are in flight, by time."""

    clock: float
    version: int = 0
    settled: Number = 0
    pending: Number = 0
    entries: dict[str, _CounterEntry] = field(default_factory=dict)

    def remove(self, reservation: str) -> _CounterEntry:
        entry = self.entries.pop(reservation)
        if entry.is_pending:
            self.pending -= entry.amount
        else:
            self.settled -= entry.amount
        return entry


class MemoryCounters:
    """A store that ends with the process. Its address is `memory:`; `memory:NAME` is another one.

    Args:
        name: the name of the store.
    """

    def __init__(self, name: str = "") -> None:
        self.name = name
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._accounts: dict[CounterKey, _Account] = {}
        self._keys: dict[str, list[CounterKey]] = {}  # reservation in flight -> its keys
        self._versions = itertools.count(1)
        self._unswept: list[CounterKey] = []

    def read(self, key: CounterKey, now: float) -> CounterReading:
        self._require_process()
        with self._lock:
            account = self._accounts.get(key)
            if account is None:
                return CounterReading(0, 0, 0)
            settled, pending = account.settled, account.pending
            for entry in _expired(account, key, now).values():
                settled -= 0 if entry.is_pending else entry.amount
                pending -= entry.amount if entry.is_pending else 0
            return CounterReading(settled, pending, account.version)

    def reserve(
        self, reservation: str, amounts: Sequence[CountedAmount], now: float, seen: Mapping[CounterKey, Any]
    ) -> None:
        self._require_process()
        with self._lock:
            if any(self._version(key) != version for key, version in seen.items()):
                raise CountersChangedError("a counter was raised since it was read")
            for counted in amounts:
                self._add(reservation, counted, now)
            if amounts:
                self._keys[reservation] = [counted.key for counted in amounts]
                self._forget_some(now)

    def settle(self, reservation: str) -> None:
        self._close(reservation, counts=True)

    def release(self, reservation: str) -> None:
        self._close(reservation, counts=False)

    def pending(self, prefix: str = "") -> list[Reservation]:
        with self._lock:
            reservations = [
                Reservation(name, key.counter, key.key, entry.amount, entry.time)
                for key, account in self._accounts.items()
                for name, entry in account.entries.items()
                if entry.is_pending and name.startswith(prefix)
            ]
        return sorted(reservations, key=lambda reservation: (reservation.time, reservation.id))

    def _version(self, key: CounterKey) -> int:
        account = self._accounts.get(key)
        return 0 if account is None else account.version

    def _add(self, reservation: str, counted: CountedAmount, now: float) -> None:
        account = self._accounts.setdefault(counted.key, _Account(now))
        account.clock = max(account.clock, now)
        for expired in _expired(account, counted.key, now):
            account.remove(expired)
            self._forget(expired, counted.key)
        account.entries[reservation] = _CounterEntry(account.clock, counted.amount)
        account.pending += counted.amount
        account.version = next(self._versions)

    def _close(self, reservation: str, *, counts: bool) -> None:
        self._require_process()
        with self._lock:
            for key in self._keys.pop(reservation, ()):
                account = self._accounts.get(key)
                if account is None or reservation not in account.entries:  # out of its window
                    continue
                entry = account.entries[reservation]
                account.pending -= entry.amount
                account.settled += entry.amount if counts else 0
                if counts and key.window is not None:  # the amount leaves the window later
                    entry.is_pending = False
                else:
                    del account.entries[reservation]

    def _forget_some(self, now: float) -> None:
        """Forgets keys without amounts in their window, a few at each reservation."""
        self._unswept = self._unswept or list(self._accounts)
        for key in self._unswept[-_SWEPT:]:
            account = self._accounts.get(key)
            if account is not None and _is_over(account, key, now):
                for reservation in account.entries:
                    self._forget(reservation, key)
                del self._accounts[key]
        del self._unswept[-_SWEPT:]

    def _forget(self, reservation: str, key: CounterKey) -> None:
        """Forgets that a reservation is in flight for a key."""
        left = [other_key for other_key in self._keys.pop(reservation, ()) if other_key != key]
        if left:
            self._keys[reservation] = left

    def copied(self) -> MemoryCounters:
        """Returns an independent copy."""
        copy = MemoryCounters(self.name)
        with self._lock:
            for key, account in self._accounts.items():
                entries = {name: replace(entry) for name, entry in account.entries.items()}
                copy._accounts[key] = replace(account, entries=entries)
            copy._keys = {name: list(keys) for name, keys in self._keys.items()}
        return copy

    def _require_process(self) -> None:
        if os.getpid() != self._process:
            raise CounterError(
                "the counters are in the memory of another process; share a file: counters='sqlite:PATH'"
            )


def _is_over(account: _Account, key: CounterKey, now: float) -> bool:
    if key.window is None:
        return not account.entries and not account.settled
    return now - account.clock > 2 * key.window  # so that a clock that goes back frees nothing


def _expired(account: _Account, key: CounterKey, now: float) -> dict[str, _CounterEntry]:
    """Returns the amounts out of their window: the oldest ones, since times never go back."""
    entries: dict[str, _CounterEntry] = {}
    if key.window is None:
        return entries
    now = max(now, account.clock)
    for reservation, entry in account.entries.items():
        if now - entry.time <= key.window:
            break
        entries[reservation] = entry
    return entries


# --- the totals that a store outside of this process keeps


class FoundAmount(NamedTuple):
    """An amount that is, or is about to be, out of its window."""

    reservation: str
    time: float
    amount: str
    is_pending: bool


def reading_of(
    key: CounterKey, row: tuple[str, str, Any, float], amounts: Iterable[FoundAmount], now: float
) -> tuple[CounterReading, float, list[str]]:
    """Returns the state of a key, its latest time, and the reservations that are out of its window.

    Args:
        key: the key.
        row: its totals (settled, pending), its version and its latest time.
        amounts: those that may be out of the window.
        now: the time of the check.

    Raises:
        CounterError: these are not values that a store writes.
    """
    settled, pending, version, latest = number(row[0]), number(row[1]), row[2], row[3]
    if not all(isinstance(time, int | float) for time in (latest, *(found_amount.time for found_amount in amounts))):
        raise CounterError(f"the counter {key.counter!r} has a time that is not a number; it was changed or is damaged")
    window = math.inf if key.window is None else key.window
    clock, expired = max(latest, now), []
    for found_amount in amounts:
        if clock - found_amount.time > window:
            expired.append(found_amount.reservation)
            settled -= 0 if found_amount.is_pending else number(found_amount.amount)
            pending -= number(found_amount.amount) if found_amount.is_pending else 0
    if settled < 0 or pending < 0:
        raise CounterError(f"the counter {key.counter!r} has a total below zero; it was changed or is damaged")
    return CounterReading(settled, pending, version), clock, expired


def number(text: str) -> Number:
    """Reads a total or an amount.

    Raises:
        CounterError: it is not a number.
    """
    try:
        return Fraction(text) if "/" in text else int(text)
    except (ValueError, TypeError, ZeroDivisionError):
        raise CounterError(f"{text!r} is not a number; the store of counters was changed or is damaged") from None
