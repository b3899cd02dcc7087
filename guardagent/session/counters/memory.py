"""Counters in memory, for the sessions of one process."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from guardagent.errors import CounterError
from guardagent.policy.evaluation.counters import CountedAmount, CounterKey, Number
from guardagent.session.counters.protocol import CounterReading, CountersChangedError, Reservation

_SWEPT = 2  # other keys that a reservation looks at, to forget those whose amounts have long left their window


@dataclass(slots=True)
class _Entry:
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
    entries: dict[str, _Entry] = field(default_factory=dict)

    def remove(self, reservation: str) -> _Entry:
        entry = self.entries.pop(reservation)
        if entry.is_pending:
            self.pending -= entry.amount
        else:
            self.settled -= entry.amount
        return entry


class Store:
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

    def pending(self) -> list[Reservation]:
        with self._lock:
            found = [
                Reservation(one, key.counter, key.key, entry.amount, entry.time)
                for key, account in self._accounts.items()
                for one, entry in account.entries.items()
                if entry.is_pending
            ]
        return sorted(found, key=lambda one: (one.time, one.id))

    def _version(self, key: CounterKey) -> int:
        account = self._accounts.get(key)
        return 0 if account is None else account.version

    def _add(self, reservation: str, counted: CountedAmount, now: float) -> None:
        account = self._accounts.setdefault(counted.key, _Account(now))
        account.clock = max(account.clock, now)
        for expired in _expired(account, counted.key, now):
            account.remove(expired)
            self._forget(expired, counted.key)
        account.entries[reservation] = _Entry(account.clock, counted.amount)
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
        left = [one for one in self._keys.pop(reservation, ()) if one != key]
        if left:
            self._keys[reservation] = left

    def copied(self) -> Store:
        """Returns an independent copy."""
        copy = Store(self.name)
        with self._lock:
            for key, account in self._accounts.items():
                entries = {one: replace(entry) for one, entry in account.entries.items()}
                copy._accounts[key] = replace(account, entries=entries)
            copy._keys = {one: list(keys) for one, keys in self._keys.items()}
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


def _expired(account: _Account, key: CounterKey, now: float) -> dict[str, _Entry]:
    """Returns the amounts out of their window: the oldest ones, since times never go back."""
    found: dict[str, _Entry] = {}
    if key.window is None:
        return found
    now = max(now, account.clock)
    for reservation, entry in account.entries.items():
        if now - entry.time <= key.window:
            break
        found[reservation] = entry
    return found
