"""The scope of a policy (`applies_to:`): the principals and agents whose calls it judges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from guardagent.types.values import ASSIGNED


@dataclass(frozen=True, slots=True)
class Scope:
    """The calls that a policy judges. Each given set must match; None matches everyone.

    Attributes:
        roles: the principal has one of these roles.
        tenants: the principal is of one of these tenants.
        agents: one of these agents proposes the call.
        excluded: calls that the policy does not judge.
    """

    roles: frozenset[str] | None = None
    tenants: frozenset[str] | None = None
    agents: frozenset[str] | None = None
    excluded: Scope | None = None

    def covers(self, principal: Mapping[str, Any] | None, agent: str | None) -> bool:
        """Whether a policy judges a call. It does if the principal or the agent is unknown.

        It also does for a role that the call has given up, or that only one of two principals has.
        """
        within, outside = self.matches(principal, agent, ASSIGNED), self.excluded
        return within is not False and (outside is None or outside.matches(principal, agent, "roles") is not True)

    def permits(self, principal: Mapping[str, Any] | None, agent: str | None) -> bool:
        """Whether a policy surely judges a call by its effective roles, so that it lists its tools for this call."""
        within, outside = self.matches(principal, agent, "roles"), self.excluded
        return within is True and (outside is None or outside.matches(principal, agent, ASSIGNED) is False)

    def matches(self, principal: Mapping[str, Any] | None, agent: str | None, roles: str) -> bool | None:
        """Whether a call matches the sets; None if it is unknown. `roles`: the key of the roles that count."""
        known = principal or {}
        matches = (
            _meets(self.roles, known.get(roles, known.get("roles"))),
            _meets(self.tenants, None if known.get("tenant") is None else (known["tenant"],)),
            _meets(self.agents, None if agent is None else (agent,)),
        )
        return False if False in matches else None if None in matches else True


def _meets(wanted: frozenset[str] | None, values: tuple[str, ...] | None) -> bool | None:
    if wanted is None:
        return True
    return None if values is None else not wanted.isdisjoint(values)
