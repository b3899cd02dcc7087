"""Counters of one tenant in a store of all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from guardagent.policy.evaluation.counters import CountedAmount, CounterKey
from guardagent.session.counters import CounterReading, CounterStore, Reservation


@dataclass(frozen=True, slots=True)
class TenantCounters:
    """A `CounterStore` whose keys no other tenant has.

    Attributes:
        store: the store of all tenants.
        tenant: the tenant.
    """

    store: CounterStore
    tenant: str

    def read(self, key: CounterKey, now: float) -> CounterReading:
        return self.store.read(self._own(key), now)

    def reserve(
        self, reservation: str, amounts: Sequence[CountedAmount], now: float, seen: Mapping[CounterKey, Any]
    ) -> None:
        own = [replace(one, key=self._own(one.key)) for one in amounts]
        self.store.reserve(reservation, own, now, {self._own(key): version for key, version in seen.items()})

    def settle(self, reservation: str) -> None:
        self.store.settle(reservation)

    def release(self, reservation: str) -> None:
        self.store.release(reservation)

    def pending(self) -> list[Reservation]:
        return [one for one in self.store.pending() if one.counter.startswith(self._prefix)]

    @property
    def _prefix(self) -> str:
        return f"{self.tenant}/"  # no tenant has a slash

    def _own(self, key: CounterKey) -> CounterKey:
        return replace(key, counter=self._prefix + key.counter)
