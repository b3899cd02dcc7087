"""Ledgers: approval requests, the approvals that were used, and conversations.

A ledger outlives the objects that a host builds for each request, and all but the one in memory outlive the process. A
ledger is named by an address: `memory:`, `sqlite:PATH`, `postgresql://…` or `redis://…`. The part before the colon
selects the ledger; the module and the driver of one on a server are loaded when it is first opened.
"""

from __future__ import annotations

import threading

from guardagent._support.plugins import Plugins
from guardagent.enforcement.ledger.history import Ledger, MemoryLedger, RecordedRequest
from guardagent.enforcement.ledger.tables import SqliteLedger
from guardagent.errors import InputError

__all__ = ["LEDGERS", "METHODS", "Ledger", "MemoryLedger", "RecordedRequest", "SqliteLedger", "open_ledger"]

_PLACE = "guardagent.enforcement.ledger"
LEDGERS = Plugins(
    "ledger",
    "",
    ("Store",),
    group="guardagent.ledgers",
    members={
        "memory": MemoryLedger,
        "sqlite": SqliteLedger,
        "postgresql": f"{_PLACE}.tables:PostgresLedger",
        "redis": f"{_PLACE}.redis:RedisLedger",
        "rediss": f"{_PLACE}.redis:open_with_tls",
    },
    adapt=lambda module: module.Store,
)
METHODS = ("record_request", "recorded_request", "reject", "use", "end", "journal")
_lock = threading.Lock()
_opened: dict[str, Ledger] = {}


def open_ledger(address: Ledger | str) -> Ledger:
    """Returns the ledger with an address; the same object for the same address.

    Args:
        address: `memory:`, `sqlite:PATH`, `postgresql://…`, `redis://…` or the address of another plug-in; a ledger is
            returned as it is.

    Raises:
        InputError: the address is invalid, or the ledger cannot be opened.
    """
    if not isinstance(address, str):
        return address
    scheme, colon, rest = address.partition(":")
    if not colon:
        raise InputError(f"ledger is {address!r}; expected an address such as 'sqlite:ledger.db', or a SqliteLedger")
    with _lock:
        if address not in _opened:
            _opened[address] = LEDGERS.load(scheme)(rest)
        return _opened[address]
