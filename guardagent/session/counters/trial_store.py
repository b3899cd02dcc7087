"""The counters of trial calls: a store that no trial call changes, and the trial calls themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from guardagent.policy.evaluation.counters import CountedAmount, CounterKey
from guardagent.session.counters.protocol import CounterReading, CounterStore, Reservation
from guardagent.session.counters.stores.memory import Store


class TrialStore:
    """A store for trial calls.

    Args:
        store: the store of the session, which is only read.
        trials: the amounts of earlier trial calls.
    """

    def __init__(self, store: CounterStore, trials: Store | None = None) -> None:
        self._store = store
        self._trials = trials or Store()

    def copied(self) -> TrialStore:
        """Returns a store in which other trial calls follow."""
        return TrialStore(self._store, self._trials.copied())

    def read(self, key: CounterKey, now: float) -> CounterReading:
        live, own = self._store.read(key, now), self._trials.read(key, now)
        return CounterReading(live.settled + own.settled, live.pending + own.pending, own.version)

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
