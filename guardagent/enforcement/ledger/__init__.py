"""Ledgers: approval requests, and the approvals that were used.

A ledger outlives the objects that a host builds for each request. A `SqliteLedger` also outlives the process, and
several processes share it.
"""

from guardagent.enforcement.ledger.memory import MemoryLedger
from guardagent.enforcement.ledger.protocol import Ledger, RecordedRequest
from guardagent.enforcement.ledger.sqlite import SqliteLedger

__all__ = ["Ledger", "MemoryLedger", "RecordedRequest", "SqliteLedger"]
