"""One guard for an agent's tools, shared by the adapters of all frameworks.

    before(call) -> Verdict      decides; never raises
    after(call, outcome)         records the outcome; never raises
    run(guard, call, execute)    both, around one call

The guard decides; the adapter translates the decision for its host. The rest of this package serves
`ToolGuard`: the conversations with their sessions, names, approvals, schemas and the deadline of a check.
"""

from guardagent.enforcement.approval import Approval, ApprovalRequest, Approver, terminal_approver
from guardagent.enforcement.calls import HostCall, Outcome, make_ids_unique
from guardagent.enforcement.enforcement_point import EnforcementPoint
from guardagent.enforcement.ledger import Ledger, MemoryLedger, SqliteLedger
from guardagent.enforcement.names import Coverage, ToolSpec
from guardagent.enforcement.tool_guard import ToolGuard, arun, run

__all__ = [
    "Approval",
    "ApprovalRequest",
    "Approver",
    "Coverage",
    "EnforcementPoint",
    "HostCall",
    "Ledger",
    "MemoryLedger",
    "Outcome",
    "SqliteLedger",
    "ToolGuard",
    "ToolSpec",
    "arun",
    "make_ids_unique",
    "run",
    "terminal_approver",
]
