"""What every adapter asks: one guard for an agent, whatever framework it runs in.

    before(call) -> Verdict      decides; never raises
    after(call, outcome)         records what came of it; never raises
    run(guard, call, execute)    both, around one call

The decision is made here, and the adapter translates it into what its host understands. The rest of this package serves
`ToolGuard`: the conversations with their sessions, names, approvals, schemas and the deadline of a check.
"""

from guardagent.enforcement.approval import Approval, ApprovalRequest, Approver, terminal_approver
from guardagent.enforcement.calls import HostCall, Outcome
from guardagent.enforcement.ledger import Ledger, MemoryLedger, SqliteLedger
from guardagent.enforcement.names import Coverage, ToolSpec
from guardagent.enforcement.run import arun, run
from guardagent.enforcement.tool_guard import ToolGuard

__all__ = [
    "Approval",
    "ApprovalRequest",
    "Approver",
    "Coverage",
    "HostCall",
    "Ledger",
    "MemoryLedger",
    "Outcome",
    "SqliteLedger",
    "ToolGuard",
    "ToolSpec",
    "arun",
    "run",
    "terminal_approver",
]
