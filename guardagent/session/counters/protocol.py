"""The interface of a store of counters.

A call takes up its amounts when it is allowed (`reserve`), and they count for good once it has run (`settle`). A call
that failed or never ran gives them back (`release`). An amount counts from the time of its reservation until its
counter's window has passed. No clock that goes back frees an amount: each key remembers the latest time it has seen.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from guardagent._support.plugins import Plugins
from guardagent.errors import GuardError, InputError
from guardagent.policy.evaluation.counters import CountedAmount, CounterKey, Number
from guardagent.policy.policies import Policies

_PLACE = "guardagent.session.counters"
STORES = Plugins(
    "store of counters",
    "",
    ("Store",),
    group="guardagent.counters",
    members={
        "memory": f"{_PLACE}.memory:Store",
        "sqlite": f"{_PLACE}.stores.sqlite:Store",
        "postgresql": f"{_PLACE}.stores.postgresql:Store",
        "redis": f"{_PLACE}.redis:Store",
        "rediss": f"{_PLACE}.stores.rediss:Store",
    },
    adapt=lambda module: module.Store,
)
_EXPECTED = "expected an address such as 'sqlite:counters.db', 'memory:' for this process alone, or a store"


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

    def pending(self) -> list[Reservation]:
        """Returns the reservations of calls in flight, the oldest first. Some can belong to processes that ended."""


def new_counters(policies: Policies) -> CounterStore | None:
    """Returns a store in memory in which every count is zero, to judge recorded calls without any live counter.

    Returns None if the policy has no counters.
    """
    store: CounterStore | None = STORES.load("memory")() if policies.counters else None
    return store


_lock = threading.Lock()
_opened: dict[str, CounterStore] = {}


def open_counters(address: CounterStore | str) -> CounterStore:
    """Returns the store with an address; the same object for the same address.

    Args:
        address: `memory:`, `sqlite:PATH`, `postgresql://…`, `redis://…` or the address of another plug-in; a store is
            returned as it is.

    Raises:
        InputError: the address is invalid, or the store cannot be opened.
    """
    if not isinstance(address, str):
        if all(callable(getattr(address, name, None)) for name in ("read", "reserve", "settle", "release")):
            return address
        raise InputError(f"'counters' has the type {type(address).__name__!r}; {_EXPECTED}")
    scheme, colon, rest = address.partition(":")
    if not colon:
        raise InputError(f"'counters' is {address!r}; {_EXPECTED}")
    with _lock:
        if address not in _opened:
            _opened[address] = STORES.load(scheme)(rest)
        return _opened[address]
