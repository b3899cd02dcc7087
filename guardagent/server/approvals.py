"""Approvals that last: requests that wait for people, on any server, over restarts.

They are kept for all tenants in the state that servers share. A preview foresees the effect of an approval: the guard
judges the call in a copy of its session, without effect.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from guardagent.enforcement.approval import Approval
from guardagent.enforcement.calls import HostCall
from guardagent.enforcement.wire import read_value, write_value
from guardagent.errors import GuardError, error_text
from guardagent.server.approval_record import FINAL, ApprovalRecord, ApprovalRules
from guardagent.server.service.guards import HostSession
from guardagent.server.service.requests import RequestConflictError, UnknownItemError
from guardagent.server.settings import WebhookEvent
from guardagent.server.state import StateStore
from guardagent.session.session import Session
from guardagent.types import Decision, Verdict

JSON = dict[str, Any]
MAX_WAIT = 20.0  # seconds of a request that waits for an answer
APPROVAL = "approval"
_PAUSE = 0.25
_RACES = 5


class Announce(Protocol):
    """Tells others about a change of an approval: see `WebhookOutbox.add`."""

    def __call__(
        self,
        event: WebhookEvent,
        tenant: str,
        approval: str,
        requested: float,
        *,
        step: int = 0,
        due: float | None = None,
    ) -> None: ...


def _nothing(*_about: Any, **_more: Any) -> None:
    """Announces nothing."""


class ApprovalDesk:
    """Takes requests and answers. Each change is conditional, so that two servers never decide one approval twice.

    Args:
        state: stores the records.
        announce: receives each change before it takes place.
        clock: returns the seconds since the epoch.
    """

    def __init__(
        self, state: StateStore, announce: Announce = _nothing, clock: Callable[[], float] = time.time
    ) -> None:
        self._state, self._announce, self._clock = state, announce, clock

    def request(self, session: HostSession, call: HostCall, verdict: Verdict, rules: ApprovalRules) -> JSON:
        """Records a request; one for the same call that still waits, or is approved, stays as it is.

        Raises:
            StateError: it cannot be stored.
        """
        name, now = approval_id(session, call), self._clock()
        new = ApprovalRecord(
            session.id,
            session.policy,
            session.digest,
            _call(call),
            call.digest,
            tuple(verdict.rules),
            tuple(verdict.reasons),
            session.owner,
            session.principal.get("id"),
            now,
            now + rules.seconds,
            rules.quorum,
            rules.four_eyes,
        )
        for _ in range(_RACES):
            if self._state.get(APPROVAL, session.tenant, name) is None:
                self._announce_request(session.tenant, name, new)
            if self._state.add(APPROVAL, session.tenant, name, new.content):
                return shown(name, 1, new)
            item = self._state.get(APPROVAL, session.tenant, name)
            if item is None:
                continue
            approval_record = ApprovalRecord.of(item.value).at(now)
            if approval_record.status not in FINAL:
                return shown(name, item.version, approval_record)
            self._announce_request(session.tenant, name, new)
            if self._state.replace(APPROVAL, session.tenant, name, item.version, new.content):
                return shown(name, item.version + 1, new)
        raise RequestConflictError("the approval changes all the time; try again")

    def read(self, tenant: str, name: str) -> tuple[ApprovalRecord, int]:
        """Returns an approval as it is now, and its version.

        Raises:
            UnknownItemError: the tenant has no such approval.
        """
        item = self._state.get(APPROVAL, tenant, name)
        if item is None:
            raise UnknownItemError(f"there is no approval {name[:80]!r}")
        return ApprovalRecord.of(item.value).at(self._clock()), item.version

    def wait(self, tenant: str, name: str, seconds: float) -> tuple[ApprovalRecord, int]:
        """Waits for an answer, but at most for these seconds; returns the record and its version."""
        end = time.monotonic() + min(seconds, MAX_WAIT)
        first = approval_records = self.read(tenant, name)
        while approval_records[1] == first[1] and approval_records[0].status == "pending" and time.monotonic() < end:
            time.sleep(_PAUSE)
            approval_records = self.read(tenant, name)
        return approval_records

    def page(self, tenant: str, before: int | None, limit: int) -> tuple[list[JSON], int | None]:
        """Returns the newest approvals, and the number from which the next page goes on."""
        items, now = self._state.page(APPROVAL, tenant, before, limit), self._clock()
        approvals = [shown(item.name, item.version, ApprovalRecord.of(item.value).at(now)) for item in items]
        return approvals, items[-1].number if len(items) == limit else None

    def answer(self, tenant: str, name: str, answer: Approval, by: str, version: int | None) -> tuple[JSON, int]:
        """Records the answer of an approver.

        Args:
            tenant: the tenant of the approval.
            name: the id of the approval.
            answer: approve, reject with a reason, or edit with the complete new arguments.
            by: the id of the approver.
            version: the version that the approver has seen.

        Raises:
            UnknownItemError: the tenant has no such approval.
            RequestConflictError: it has another version by now, or is decided.
            ForbiddenError: this approver may not decide on it.
        """
        record, current = self.read(tenant, name)
        if version != current:
            record.require_open(by)
            raise RequestConflictError(f"the approval has version {current} by now; expected an answer to this one")
        answered = record.answered(answer, by, self._clock())
        self._announce("approval.answered", tenant, name, record.created, step=len(answered.steps))
        if not self._state.replace(APPROVAL, tenant, name, current, answered.content):
            self.read(tenant, name)[0].require_open(by)
            raise RequestConflictError("the approval was answered at this moment; read it again")
        return shown(name, current + 1, answered), current + 1

    def _announce_request(self, tenant: str, name: str, record: ApprovalRecord) -> None:
        self._announce("approval.requested", tenant, name, record.created)
        self._announce("approval.expired", tenant, name, record.created, due=record.deadline)

    def use(self, tenant: str, name: str) -> None:
        """Notes that the call of an approval was allowed; the ledger has made sure that it was so once."""
        record, version = self.read(tenant, name)
        self._state.replace(APPROVAL, tenant, name, version, replace(record, status="used").content)


def approval_id(session: HostSession, call: HostCall) -> str:
    """Returns the id of the approval of a call; every server has the same one."""
    text = json.dumps([session.tenant, session.id, session.digest, call.digest])
    return f"a_{hashlib.sha256(text.encode()).hexdigest()[:40]}"


def _call(call: HostCall) -> JSON:
    content: JSON = {"id": call.id, "tool": call.tool, "args": write_value(call.args, "args"), "agent": call.agent}
    if call.facts:
        content["facts"] = write_value(call.facts, "facts")
    if call.action is not None:
        content["action"] = call.action
    return {**content, "tags": sorted(call.tags)} if call.tags else content


def shown(name: str, version: int, record: ApprovalRecord) -> JSON:
    """Returns an approval as its readers see it."""
    content: Mapping[str, Any] = record.content
    return {"id": name, "version": version, **content, "agreeing": list(record.agreeing)}


# --- previews


def preview(session: Session, tool: str, record: ApprovalRecord) -> JSON:
    """Returns the expected verdict.

    Args:
        session: the session of the call.
        tool: the rules' name of its tool.
        record: the approval.

    Returns:
        `decision`, `reasons`, `errors`; `obligations`, which the call would add; and `settles`, which it would meet.
    """
    copy = session.fork()
    before = copy.obligations
    try:
        verdict = _judged(copy, tool, record)
    except GuardError as error:
        return _shown("unknown", (), (error_text(error),), {}, {})
    after = copy.obligations if verdict.label == 0 else before
    decision = "unknown" if verdict.errors else str(verdict.decision)
    return _shown(decision, verdict.reasons, verdict.errors, _without(after, before), _without(before, after))


def _judged(copy: Session, tool: str, record: ApprovalRecord) -> Verdict:
    call = record.call
    args = read_value(record.args if record.args is not None else call["args"], "args")
    facts = read_value(call.get("facts") or {}, "facts")
    verdict = copy.check(
        tool,
        args,
        facts=facts or None,
        action=call.get("action"),
        agent=call.get("agent"),
        tags=tuple(call.get("tags", ())),
    )
    return copy.approve(verdict) if verdict.decision is Decision.ESCALATE else verdict


def _without(some: dict[str, str], others: dict[str, str]) -> dict[str, str]:
    return {name: text for name, text in some.items() if name not in others}


def _shown(decision: str, reasons: Any, errors: Any, obligations: JSON, settles: JSON) -> JSON:
    return {
        "decision": decision,
        "reasons": list(reasons),
        "errors": list(errors),
        "obligations": obligations,
        "settles": settles,
    }
