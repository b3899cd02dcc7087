"""The caller of a server with its id, roles and tenant, and the operations that roles may carry out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from guardagent.errors import ForbiddenError, InputError, UnknownNameError
from guardagent.types.values import SessionPrincipal

EVERY_TENANT = "*"
"""The tenant of an admin who manages all tenants."""

_ID = re.compile(r"[^\s\x00-\x1f\x7f](?:[^\x00-\x1f\x7f]{0,198}[^\s\x00-\x1f\x7f])?")
_TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")


class CallerRole(StrEnum):
    """A role of callers. An agent has no other role, so that it never decides about itself."""

    AGENT = "agent"
    APPROVER = "approver"
    AUDITOR = "auditor"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Caller:
    """An agent, a person or a service that calls a server.

    Attributes:
        id: its name.
        roles: its roles; without any, it may do nothing.
        tenant: its tenant, or `*` for an admin of all tenants.

    Raises:
        InputError: the id or the tenant is invalid, an agent has a second role, or `*` is not an admin's.
    """

    id: str
    roles: frozenset[CallerRole]
    tenant: str

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.id) or not self.id.isprintable():
            raise InputError(f"the principal is {self.id[:300]!r}; expected up to 200 printable characters")
        if CallerRole.AGENT in self.roles and len(self.roles) > 1:
            others = ", ".join(sorted(self.roles - {CallerRole.AGENT}))
            raise InputError(f"an agent also has the role {others}; expected 'agent' alone, or other roles")
        if self.tenant == EVERY_TENANT and CallerRole.ADMIN not in self.roles:
            raise InputError("the tenant is '*' without the role 'admin'; expected the name of one tenant")
        if self.tenant != EVERY_TENANT and not _TENANT.fullmatch(self.tenant):
            raise InputError(
                f"the tenant is {self.tenant[:300]!r}; expected letters, digits and . _ : -, such as 'shop'; "
                "or '*', every tenant, for an admin"
            )

    def can_see(self, tenant: str) -> bool:
        """Whether a tenant is the caller's."""
        return self.tenant in (EVERY_TENANT, tenant)

    @property
    def principal(self) -> SessionPrincipal:
        """The caller as the principal of its sessions, which policies read."""
        return SessionPrincipal(self.id, frozenset(map(str, self.roles)), self.tenant)


def roles_of(names: Iterable[str]) -> frozenset[CallerRole]:
    """Returns the roles with these names.

    Raises:
        UnknownNameError: there is no such role.
    """
    known = {str(role): role for role in CallerRole}
    names = list(names)
    for name in names:
        if name not in known:
            raise UnknownNameError("role", name, known)
    return frozenset(known[name] for name in names)


# --- operations

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
