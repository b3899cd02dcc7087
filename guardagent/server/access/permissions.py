"""The operations of a server, and the roles that may carry them out."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from guardagent.errors import ForbiddenError
from guardagent.server.access.caller import Caller, CallerRole

_AGENT, _APPROVER, _AUDITOR, _ADMIN = CallerRole.AGENT, CallerRole.APPROVER, CallerRole.AUDITOR, CallerRole.ADMIN


class AccessedOperation(StrEnum):
    """An operation that needs a role."""

    CALL = "call"
    """Open a session, check, use and record its calls, take its snapshot, and finish it."""
    JUDGE = "judge"
    """Have a finished run judged."""
    READ_SESSIONS = "read sessions"
    READ_APPROVALS = "read approvals"
    FOLLOW_APPROVALS = "follow approvals"
    """Read an approval; an agent only sees the status of those that it waits for."""
    ANSWER_APPROVALS = "answer approvals"
    READ_POLICIES = "read policies"
    CHANGE_POLICIES = "change policies"
    READ_LOG = "read the log"
    READ_METRICS = "read metrics"
    MANAGE_TOKENS = "manage tokens"
    READ_INTERFACE = "read the interface"
    """Read the description of the interface."""


PERMITTED: Mapping[AccessedOperation, frozenset[CallerRole]] = MappingProxyType(
    {
        AccessedOperation.CALL: frozenset({_AGENT}),
        AccessedOperation.JUDGE: frozenset({_AGENT}),
        AccessedOperation.READ_SESSIONS: frozenset({_APPROVER, _AUDITOR, _ADMIN}),
        AccessedOperation.READ_APPROVALS: frozenset({_APPROVER, _AUDITOR, _ADMIN}),
        AccessedOperation.FOLLOW_APPROVALS: frozenset({_AGENT, _APPROVER, _AUDITOR, _ADMIN}),
        AccessedOperation.ANSWER_APPROVALS: frozenset({_APPROVER}),
        AccessedOperation.READ_POLICIES: frozenset({_APPROVER, _AUDITOR, _ADMIN}),
        AccessedOperation.CHANGE_POLICIES: frozenset({_ADMIN}),
        AccessedOperation.READ_LOG: frozenset({_AUDITOR, _ADMIN}),
        AccessedOperation.READ_METRICS: frozenset({_AUDITOR, _ADMIN}),
        AccessedOperation.MANAGE_TOKENS: frozenset({_ADMIN}),
        AccessedOperation.READ_INTERFACE: frozenset({_AGENT, _APPROVER, _AUDITOR, _ADMIN}),
    }
)
"""The roles of each operation. One that is missing here is nobody's."""


def authorize(caller: Caller, operation: AccessedOperation, tenant: str) -> None:
    """Requires that a caller may carry out an operation.

    Args:
        caller: who calls.
        operation: the operation.
        tenant: the tenant of the thing that it concerns.

    Raises:
        ForbiddenError: the caller has no such role, or another tenant.
    """
    permitted = PERMITTED.get(operation, frozenset())
    if not caller.roles & permitted:
        expected = " or ".join(repr(str(role)) for role in sorted(permitted)) or "no caller"
        raise ForbiddenError(f"the caller may not {operation}; expected the role {expected}")
    if not caller.can_see(tenant):
        raise ForbiddenError("this belongs to another tenant")
