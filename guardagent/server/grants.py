"""Grants: calls that approvers have allowed at once, until when, and how much of it is used.

The state that servers share has them; the store of counters has their uses, each in one atomic step with its call. The
answers in the record of an approval determine its grants with their ids: any server makes them, if the one that took
the last answer was killed before it did.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any

from guardagent.enforcement.wire import read_value, write_value
from guardagent.log import AuditLog
from guardagent.policy.evaluation.counters import CountedAmount
from guardagent.policy.scope import REVOKED, ApprovalScope, LiveGrant
from guardagent.server.approvals import ApprovalRecord
from guardagent.server.service import RequestConflictError, UnknownItemError
from guardagent.server.service.guards import HostSession
from guardagent.server.state import StateStore, StoredItem
from guardagent.session.calls import FindGrants
from guardagent.session.counters import CounterStore

JSON = dict[str, Any]
GRANT = "grant"
_LOGGED = "rule tool up_to any calls covers by made until approval user".split()
_RACES = 20
_FINISHED = 20  # grants that have ended and are kept beside later ones for the same calls; the log has all


class GrantBook:
    """The grants of all tenants. Those for the same calls are one item of the state.

    Args:
        state: stores them.
        counters: returns the counters of a tenant.
        log: returns the log of a tenant.
        clock: returns the seconds since the epoch.
    """

    def __init__(
        self,
        state: StateStore,
        counters: Callable[[str], CounterStore],
        log: Callable[[str], AuditLog],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._state, self._counters, self._log, self._clock = state, counters, log, clock

    def of(self, session: HostSession) -> FindGrants:
        """Returns the function that finds the live grants for a call of a session."""

        def find(rule: str, scope: ApprovalScope, args: Mapping[str, Any]) -> Iterable[LiveGrant]:
            item = self._state.get(GRANT, session.tenant, _slot(session, rule, scope, args))
            return [] if item is None else [_grant(json) for json in item.value["grants"] if json["revoked"] is None]

        return find

    def make(self, session: HostSession, approval: str, record: ApprovalRecord) -> None:
        """Makes the grants of an approval, if it has some and they were not made.

        Args:
            session: the session of the call that the approvers saw.
            approval: the id of the approval.
            record: the approval.

        Raises:
            LogError: the log cannot be written; nothing was granted.
        """
        if record.policy_version != session.digest:
            return  # the approvers agreed under the version before a reload
        args = read_value(record.call["args"], "args")
        for rule, granted in record.grants.items():
            scope, made = ApprovalScope.of(granted), record.steps[-1]["at"]
            slot, same = _slot(session, rule, scope, args), {name: args[name] for name in scope.same}
            content = {"id": f"g_{slot}.{_digest([approval, made])[:8]}", "rule": rule, **granted, "made": made}
            content |= {"same": write_value(same, "same"), "covers": scope.in_words(same), "by": list(record.agreeing)}
            content |= {"until": made + scope.seconds, "approval": approval, "session": session.id, "revoked": None}
            content |= {"policy": session.policy, "policy_version": session.digest}
            content |= {"agent": session.owner, "user": session.principal.get("id")}
            self._add(session, slot, content)

    def _add(self, session: HostSession, slot: str, content: JSON) -> None:
        for attempt in range(_RACES):
            now, item = self._clock(), self._state.get(GRANT, session.tenant, slot)
            grants = [] if item is None else item.value["grants"]
            if now >= content["until"] or any(json["id"] == content["id"] for json in grants):
                return
            if not attempt:  # before it takes effect
                about = {name: content[name] for name in _LOGGED}
                entry = {"kind": GRANT, "grant": content["id"], "conversation": session.conversation, **about}
                self._log(session.tenant).append({**entry, "args": content["same"]})
            kept = [json for at, json in enumerate(grants) if at < _FINISHED or now < json["until"]]
            if self._put(session.tenant, slot, item, [content, *kept]):
                return
        raise RequestConflictError("the grants for these calls change all the time; try again")

    def page(self, tenant: str, before: int | None, limit: int) -> tuple[list[JSON], int | None]:
        """Returns grants, the newest first, and the number from which the next page goes on."""
        items = self._state.page(GRANT, tenant, before, limit)
        grants = [json for item in items for json in item.value["grants"]]
        shown = [self._shown(tenant, json) for json in sorted(grants, key=lambda json: -json["made"])]
        return shown, items[-1].number if len(items) == limit else None

    def read(self, tenant: str, name: str) -> JSON:
        """Returns a grant with what is used and left of it.

        Raises:
            UnknownItemError: the tenant has no such grant.
        """
        return self._shown(tenant, self._find(tenant, name)[1])

    def revoke(self, tenant: str, name: str, by: str) -> JSON:
        """Revokes a grant: when this returns, no call is allowed under it any more.

        Args:
            tenant: the tenant of the grant.
            name: its id.
            by: the id of the person who revokes it.

        Raises:
            UnknownItemError: the tenant has no such grant.
        """
        for _ in range(_RACES):
            item, content = self._find(tenant, name)
            revoked = {**content, "revoked": content["revoked"] or {"by": by, "at": self._clock()}}
            grants = [revoked if json["id"] == name else json for json in item.value["grants"]]
            if content["revoked"] is None and not self._put(tenant, item.name, item, grants):
                continue
            mark, counters = f"revoked:{name}:{secrets.token_hex(8)}", self._counters(tenant)
            counters.reserve(mark, [CountedAmount(_grant(content).key(REVOKED), 1)], self._clock(), {})
            counters.settle(mark)  # a check that found the grant before, and still runs, reads this counter too
            entry = {"kind": "grant_revoked", "grant": name, "by": by, "rule": content["rule"]}
            self._log(tenant).append({**entry, "tool": content["tool"]})
            return self._shown(tenant, revoked)
        raise RequestConflictError("the grants for these calls change all the time; try again")

    def _put(self, tenant: str, slot: str, item: StoredItem | None, grants: list[JSON]) -> bool:
        if item is None:
            return self._state.add(GRANT, tenant, slot, {"created": self._clock(), "grants": grants})
        return self._state.replace(GRANT, tenant, slot, item.version, {**item.value, "grants": grants})

    def _find(self, tenant: str, name: str) -> tuple[StoredItem, JSON]:
        item = self._state.get(GRANT, tenant, name.removeprefix("g_").partition(".")[0])
        content = next((grant for grant in item.value["grants"] if grant["id"] == name), None) if item else None
        if item is not None and content is not None:
            return item, content
        raise UnknownItemError(f"there is no grant {name[:80]!r}")

    def _shown(self, tenant: str, content: JSON) -> JSON:
        grant, now = _grant(content), self._clock()
        readings = {name: self._counters(tenant).read(grant.key(name), now) for name in grant.scope.limits}
        spent = {name: reading.settled + reading.pending for name, reading in readings.items()}
        used = {name: _number(amount) for name, amount in spent.items()}
        left = {name: _number(Fraction(str(limit)) - spent[name]) for name, limit in grant.scope.limits.items()}
        is_live = "live" if now < grant.until else "over"
        status = "revoked" if content["revoked"] else "used up" if is_live == "live" and left["calls"] <= 0 else is_live
        return {**content, "used": used, "left": left, "status": status}


def are_over(now: float, item: StoredItem) -> bool:
    """Whether all grants of an item have ended."""
    return all(json["until"] <= now for json in item.value["grants"])


def _slot(session: HostSession, rule: str, scope: ApprovalScope, args: Mapping[str, Any]) -> str:
    """Returns the name of the grants for calls like this one: of this agent for this user, with these values."""
    who = [session.owner, session.principal.get("id"), session.policy, session.digest]
    return _digest([*who, rule, scope.tool, write_value({name: args[name] for name in scope.same}, "args")])[:40]


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _grant(content: Mapping[str, Any]) -> LiveGrant:
    return LiveGrant(content["id"], ApprovalScope.of(content), content["until"])


def _number(value: Any) -> int | float:
    return int(value) if value == int(value) else float(value)
