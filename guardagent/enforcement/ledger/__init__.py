"""Ledgers: which calls people were asked about, and which approvals were used.

A ledger outlives whatever a host makes for each request. A `SqliteLedger` outlives the process, too, and processes
share it.
"""

from guardagent.enforcement.ledger.memory import MemoryLedger
from guardagent.enforcement.ledger.protocol import Ledger, RecordedRequest
from guardagent.enforcement.ledger.sqlite import SqliteLedger

__all__ = ["Ledger", "MemoryLedger", "RecordedRequest", "SqliteLedger"]
