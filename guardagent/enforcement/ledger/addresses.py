"""The addresses of ledgers."""

from __future__ import annotations

import threading

from guardagent._support.plugins import Plugins
from guardagent.enforcement.ledger.protocol import Ledger
from guardagent.errors import InputError

_PLACE = "guardagent.enforcement.ledger"
LEDGERS = Plugins(
    "ledger",
    "",
    ("Store",),
    group="guardagent.ledgers",
    members={
        "memory": f"{_PLACE}.stores.memory:MemoryLedger",
        "sqlite": f"{_PLACE}.stores.sqlite:SqliteLedger",
        "postgresql": f"{_PLACE}.stores.postgresql:PostgresLedger",
        "redis": f"{_PLACE}.redis:RedisLedger",
        "rediss": f"{_PLACE}.stores.rediss:Store",
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
