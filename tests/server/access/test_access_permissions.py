"""Roles and tenants: who may do what."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guardagent.errors import ForbiddenError, InputError
from guardagent.server.access import EVERY_TENANT, AccessedOperation, Caller, CallerRole, authorize

SETS = [frozenset(combination) for size in range(5) for combination in combinations(CallerRole, size)]
OPERATIONS = st.sampled_from(AccessedOperation)


def may(caller: Caller, operation: AccessedOperation, tenant: str) -> bool:
    try:
        authorize(caller, operation, tenant)
    except ForbiddenError:
        return False
    return True


AGENTS = {
    AccessedOperation.CALL,
    AccessedOperation.JUDGE,
    AccessedOperation.READ_INTERFACE,
    AccessedOperation.FOLLOW_APPROVALS,
}


@given(st.sampled_from(SETS), OPERATIONS, st.sampled_from(["shop", "bank", EVERY_TENANT]))
def test_roles_and_tenants(roles: frozenset[CallerRole], operation: AccessedOperation, tenant: str) -> None:
    """An agent only calls, judges and reads about that; nobody without a role does anything; only admins see all."""
    try:
        caller = Caller("somebody", roles, tenant)
    except InputError:
        assert (CallerRole.AGENT in roles and len(roles) > 1) or (tenant == EVERY_TENANT and "admin" not in roles)
        return
    allowed = {name for name in ("shop", "bank") if may(caller, operation, name)}
    assert allowed <= ({"shop", "bank"} if tenant == EVERY_TENANT else {tenant})
    if "agent" in roles:
        assert bool(allowed) is (operation in AGENTS)
    if not roles:
        assert not allowed


@pytest.mark.parametrize(
    ("operation", "roles"),
    [
        (AccessedOperation.CALL, {"agent"}),
        (AccessedOperation.JUDGE, {"agent"}),
        (AccessedOperation.ANSWER_APPROVALS, {"approver"}),
        (AccessedOperation.FOLLOW_APPROVALS, {"agent", "approver", "auditor", "admin"}),
        (AccessedOperation.CHANGE_POLICIES, {"admin"}),
        (AccessedOperation.MANAGE_TOKENS, {"admin"}),
        (AccessedOperation.READ_LOG, {"auditor", "admin"}),
        (AccessedOperation.READ_METRICS, {"auditor", "admin"}),
    ],
)
def test_the_table(operation: AccessedOperation, roles: set[str]) -> None:
    """Each operation belongs to the roles that the page names."""
    allowed_roles = {
        str(other) for other in CallerRole if may(Caller("p", frozenset({other}), "shop"), operation, "shop")
    }
    assert allowed_roles == roles
