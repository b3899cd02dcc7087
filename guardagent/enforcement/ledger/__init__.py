"""Ledgers: approval requests, the approvals that were used, and conversations.

A ledger outlives the objects that a host builds for each request, and all but the one in memory outlive the process. A
ledger is named by an address: `memory:`, `sqlite:PATH`, `postgresql://…` or `redis://…`. The part before the colon
selects a module of `stores/`, which is loaded when its first ledger is opened.
"""

from guardagent.enforcement.ledger.addresses import LEDGERS, open_ledger
from guardagent.enforcement.ledger.protocol import Ledger, RecordedRequest
from guardagent.enforcement.ledger.stores.memory import MemoryLedger
from guardagent.enforcement.ledger.stores.sqlite import SqliteLedger

__all__ = ["LEDGERS", "Ledger", "MemoryLedger", "RecordedRequest", "SqliteLedger", "open_ledger"]
