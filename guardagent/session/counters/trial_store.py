"""The counters of trial calls: a store that no trial call changes, and the trial calls themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from guardagent.policy.evaluation.counters import CountedAmount, CounterKey
from guardagent.policy.evaluation.monitor_interface import SessionCall
from guardagent.session.counters.memory import Store
from guardagent.session.counters.protocol import CounterReading, CounterStore, Reservation


class TrialStore:
    """A store for trial calls.

    Args:
        store: the store of the session, which is only read.
        calls: the calls that the session has counted; those that follow after now do not count here.
        known: the number of those that count; all of the present ones by default.
        trials: the amounts of earlier trial calls.
    """

    def __init__(
        self, store: CounterStore, calls: Sequence[SessionCall], known: int | None = None, trials: Store | None = None
    ) -> None:
        self._store, self._calls = store, calls
        self._known = len(calls) if known is None else known
        self._trials = trials or Store()

    def copied(self) -> TrialStore:
        """Returns a store in which other trial calls follow."""
        return TrialStore(self._store, self._calls, self._known, self._trials.copied())

    def read(self, key: CounterKey, now: float) -> CounterReading:
        live, own = self._store.read(key, now), self._trials.read(key, now)
        settled, pending = live.settled, live.pending
        for call in self._calls[self._known :]:
            later = 0 if call.reservation is None else sum(one.amount for one in call.counted if one.key == key)
            pending -= later if call.status is None else 0
            settled -= later if call.status in ("ok", "unknown") else 0
        return CounterReading(max(0, settled) + own.settled, max(0, pending) + own.pending, own.version)

    def reserve(
        self, reservation: str, amounts: Sequence[CountedAmount], now: float, seen: Mapping[CounterKey, Any]
    ) -> None:
        self._trials.reserve(reservation, amounts, now, seen)

    def settle(self, reservation: str) -> None:
        self._trials.settle(reservation)

    def release(self, reservation: str) -> None:
        self._trials.release(reservation)

    def pending(self) -> list[Reservation]:
        return [*self._store.pending(), *self._trials.pending()]
