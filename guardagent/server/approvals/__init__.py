"""Approvals that last: requests that wait for people, on any server, over restarts."""

from guardagent.server.approvals.approval_desk import ApprovalDesk
from guardagent.server.approvals.approval_record import ApprovalRecord, ApprovalRules

__all__ = ["ApprovalDesk", "ApprovalRecord", "ApprovalRules"]
