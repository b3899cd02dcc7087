"""Approvals that last: requests that wait for people, on any server, over restarts."""

from guardagent.server.approval_record import ApprovalRecord, ApprovalRules
from guardagent.server.approvals import ApprovalDesk

__all__ = ["ApprovalDesk", "ApprovalRecord", "ApprovalRules"]
