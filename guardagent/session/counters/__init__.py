"""Counters across conversations: their stores, which several processes can share, and the counters of one session.

A store is named by an address: `memory:`, `sqlite:PATH`, `postgresql://…` or `redis://…`. The part before the colon
selects the store, whose module is loaded when the first one is opened. A session reads values for rules, and reserves
the amounts of allowed calls.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from guardagent._support.plugins import Plugins
from guardagent.errors import GuardError, InputError
from guardagent.policy.evaluation.counters import CountedAmount, Counter, CounterKey, Number
from guardagent.policy.evaluation.monitor_interface import ClockError, SessionCall
from guardagent.policy.language.values import Unknown
from guardagent.policy.monitors.conversation import Judgement
from guardagent.policy.policies import Policies
from guardagent.session.counters.memory import (
    CounterReading,
    CountersChangedError,
    CounterStore,
    MemoryCounters,
    Reservation,
)
from guardagent.types import Decision

if TYPE_CHECKING:
    import logging


__all__ = [
    "STORES",
    "CounterReading",
    "CounterStore",
    "CountersChangedError",
    "Reservation",
    "SessionCounters",
    "new_counters",
    "open_counters",
]

_PLACE = "guardagent.session.counters"
STORES = Plugins(
    "store of counters",
    "",
    ("Store",),
    group="guardagent.counters",
    members={
        "memory": MemoryCounters,
        "sqlite": f"{_PLACE}.tables:SqliteCounters",
        "postgresql": f"{_PLACE}.tables:PostgresCounters",
        "redis": f"{_PLACE}.redis:RedisCounters",
        "rediss": f"{_PLACE}.redis:open_with_tls",
    },
    adapt=lambda module: module.Store,
)
_lock = threading.Lock()
_opened: dict[str, CounterStore] = {}
_EXPECTED = "expected an address such as 'sqlite:counters.db', 'memory:' for this process alone, or a store"
MAX_TRIES = 200  # attempts to judge a call while other sessions raise the same counters
_MAX_PAUSE = 0.01  # seconds between them


def new_counters(policies: Policies) -> MemoryCounters | None:
    """Returns a store in memory in which every count is zero, to judge recorded calls without any live counter.

    Returns None if the policy has no counters.
    """
    return MemoryCounters() if policies.counters else None


def open_counters(address: CounterStore | str) -> CounterStore:
    """Returns the store with an address; the same object for the same address.

    Args:
        address: `memory:`, `sqlite:PATH`, `postgresql://…`, `redis://…` or the address of another plug-in; a store is
            returned as it is.

    Raises:
        InputError: the address is invalid, or the store cannot be opened.
    """
    if not isinstance(address, str):
        if all(callable(getattr(address, name, None)) for name in ("read", "reserve", "settle", "release", "pending")):
            return address
        raise InputError(f"'counters' has the type {type(address).__name__!r}; {_EXPECTED}")
    scheme, colon, rest = address.partition(":")
    if not colon:
        raise InputError(f"'counters' is {address!r}; {_EXPECTED}")
    with _lock:
        if address not in _opened:
            _opened[address] = STORES.load(scheme)(rest)
        return _opened[address]


class SessionCounters:
    """The counters as one session sees them.

    Args:
        counters: the counters of the policy.
        store: the store of the counters.
        clock: returns seconds since the epoch.
        session: the id of the session.
        scope: identifies the conversation whose history other processes share; empty if none does, or it is unknown.
    """

    def __init__(
        self,
        counters: Sequence[Counter],
        store: CounterStore,
        clock: Callable[[], float],
        session: str,
        scope: Callable[[], str] = str,
    ) -> None:
        self._counters = {counter.name: counter for counter in counters}
        self._store, self._clock, self._session, self._scope = store, clock, session, scope
        self._readings: dict[CounterKey, CounterReading] = {}
        self._now: float | None = None
        self._calls: list[SessionCall] = []  # the calls with reservations
        self._unsettled: list[SessionCall] = []  # calls whose outcome the store has not taken yet

    @classmethod
    def of(
        cls,
        policies: Policies,
        store: CounterStore | str | None,
        clock: Callable[[], float],
        session: str,
        scope: Callable[[], str] = str,
        *,
        has_grants: bool = False,
    ) -> SessionCounters | None:
        """Opens the counters of a policy; None if it has none, and no grants, whose uses are counted too.

        Raises:
            InputError: the policy has counters and there is no store, or it cannot be opened.
        """
        if not policies.counters and not has_grants:
            return None
        if store is None:
            names = ", ".join(repr(counter.name) for counter in policies.counters) or "the uses of grants"
            raise InputError(
                f"the policy has counters across conversations ({names}), and there is no store for them; expected "
                "counters='sqlite:PATH' for the processes of one machine, 'postgresql://...' or 'redis://...' for "
                "several machines, or counters='memory:' for this process alone"
            )
        return cls(policies.counters, open_counters(store), clock, session, scope)

    def trial_store(self) -> TrialStore:
        """Returns a store for trial calls that follow those of this session."""
        return self._store.copied() if isinstance(self._store, TrialStore) else TrialStore(self._store, self._calls)

    # --- values

    def refresh(self) -> None:
        """Discards the values that were read before."""
        self._readings, self._now = {}, None
        for call in self._unsettled[:]:
            self._unsettled.remove(call)
            self.settle(call)

    def named(self, name: str, keys: Sequence[Any]) -> Number | Unknown:
        """Returns the present value of the counter with this name for the values of its keys, outside of a check."""
        key = self._counters[name].key_of(keys)
        return key if isinstance(key, Unknown) else _value(self._store.read(key, self._clock_time()))

    def value(self, key: CounterKey) -> Number | Unknown:
        """Returns the value of a counter. It is read once for each check."""
        reading = self._readings.get(key)
        if reading is None:
            reading = self._readings[key] = self._store.read(key, self._time())
        return _value(reading)

    def _time(self) -> float:
        if self._now is None:
            self._now = self._clock_time()
        return self._now

    def _clock_time(self) -> float:
        now = self._clock()
        if math.isnan(now):
            raise ClockError("the time is unknown; expected 'time' of each call in the history, and 'now' of the case")
        if not math.isfinite(now):
            raise ClockError(f"the clock of the session is {now}; expected seconds since the epoch")
        return now

    # --- a call

    def judged(
        self, call: SessionCall, judge: Callable[[], Judgement | None], lifted: Decision | None = None
    ) -> Judgement | None:
        """Judges a call and, if it is allowed, reserves its amounts in one atomic step.

        Args:
            call: the call.
            judge: judges it by the current values.
            lifted: as for `Judgement.decision`.
        """
        for attempt in range(MAX_TRIES):
            judgement = judge()
            if judgement is not None and judgement.decision(lifted) > Decision.WARN:
                return judgement
            try:
                self.reserve(call, {key: reading.version for key, reading in self._readings.items()})
            except CountersChangedError:
                time.sleep(random.uniform(0, min(_MAX_PAUSE, attempt / 1000)))  # noqa: S311 - no secret
            except GuardError as error:
                return _failed(judgement, "the counters cannot be written, so the call may not run", error)
            else:
                return judgement
        return _failed(None, "other conversations kept raising the same counters; propose the call again")

    def reserve(self, call: SessionCall, seen: dict[CounterKey, object] | None = None) -> None:
        """Reserves the amounts of a call.

        Raises:
            CountersChangedError: a value that `seen` has with its version has changed.
        """
        if not call.counted and not seen:
            return
        reservation = f"{self._prefix(call)}{secrets.token_hex(8)}"
        self._store.reserve(reservation, call.counted, self._time(), seen or {})
        if call.counted:
            call.reservation = reservation
            self._calls.append(call)

    def settle(self, call: SessionCall) -> None:
        """Counts the amounts of a call that ran, and gives back those of one that failed or was withdrawn.

        If the store fails, the amounts stay in flight, and the next check tries again.
        """
        if call.reservation is None:
            return
        try:
            if call.status in ("failed", "withdrawn"):
                self._store.release(call.reservation)
            else:
                self._store.settle(call.reservation)
        except GuardError as error:
            self._unsettled.append(call)
            _log().warning("the amounts of %r stay in flight in the counters: %s", call.tool, error)

    def release(self, call: SessionCall) -> None:
        """Gives back the amounts of a call that does not run after all."""
        if call.reservation is not None:
            reservation, call.reservation = call.reservation, None
            self._store.release(reservation)

    # --- what a killed process has left

    def lost(self, calls: Sequence[SessionCall], call: SessionCall | None = None) -> list[str]:
        """Returns the reservations of this conversation, or of one call of it, that belong to none of these calls."""
        pending = {reservation.id for reservation in self._store.pending(self._prefix(call))}
        return sorted(pending.difference(known.reservation for known in calls)) if pending else []

    def give_back(self, reservations: Iterable[str]) -> None:
        """Gives back reservations of calls that never ran."""
        for reservation in reservations:
            self._store.release(reservation)

    def _prefix(self, call: SessionCall | None) -> str:
        """Returns the beginning of the reservations of a call, or of all calls.

        It follows from the conversation, the call and its claim, so that any process finds what another one reserved.
        What follows is different each time: a process that was stopped, and goes on late, gives back its own alone.
        """
        scope = self._scope()
        prefix = f"{self._session}:" + (f"{_tag(scope)}." if scope else "")
        if call is None or not scope:
            return prefix
        return f"{prefix}{_tag(call.id, None if call.claim is None else call.claim['request'])}."


def _tag(*parts: str | None) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def _value(reading: CounterReading) -> Number | Unknown:
    if not reading.pending:
        return reading.settled
    bounds = reading.settled, reading.settled + reading.pending
    return Unknown("depends on calls that are in flight", bounds=bounds)


def _failed(judgement: Judgement | None, problem: str, error: GuardError | None = None) -> Judgement:
    judgement = judgement or Judgement()
    judgement.fail(problem)
    if error is not None:
        judgement.withheld += (f"counters: {error}",)
    return judgement


def _log() -> logging.Logger:
    import logging  # here: most sessions log nothing

    return logging.getLogger("guardagent")


class TrialStore:
    """A store for trial calls.

    Args:
        store: the store of the session, which is only read.
        calls: the calls that the session has counted; those that follow after now do not count here.
        known: the number of those that count; all of the present ones by default.
        trials: the amounts of earlier trial calls.
    """

    def __init__(
        self,
        store: CounterStore,
        calls: Sequence[SessionCall],
        known: int | None = None,
        trials: MemoryCounters | None = None,
    ) -> None:
        self._store, self._calls = store, calls
        self._known = len(calls) if known is None else known
        self._trials = trials or MemoryCounters()

    def copied(self) -> TrialStore:
        """Returns a store in which other trial calls follow."""
        return TrialStore(self._store, self._calls, self._known, self._trials.copied())

    def read(self, key: CounterKey, now: float) -> CounterReading:
        live, own = self._store.read(key, now), self._trials.read(key, now)
        settled, pending = live.settled, live.pending
        for call in self._calls[self._known :]:
            later = (
                0
                if call.reservation is None
                else sum(counted_amount.amount for counted_amount in call.counted if counted_amount.key == key)
            )
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

    def pending(self, prefix: str = "") -> list[Reservation]:
        return [*self._store.pending(prefix), *self._trials.pending(prefix)]
