"""Counters across conversations, in stores that several processes can share.

A store is named by an address: `memory:`, `sqlite:PATH`, `postgresql://…` or `redis://…`. The part before the colon
selects a module of `stores/`, which is loaded when its first store is opened.
"""

from guardagent.session.counters.protocol import (
    STORES,
    CounterReading,
    CountersChangedError,
    CounterStore,
    Reservation,
    new_counters,
    open_counters,
)

__all__ = [
    "STORES",
    "CounterReading",
    "CounterStore",
    "CountersChangedError",
    "Reservation",
    "new_counters",
    "open_counters",
]
