"""Approvals that last: requests that wait for people, on any server, over restarts.

They are kept for all tenants in the state that servers share. A preview foresees the effect of an approval: the guard
judges the call in a copy of its session, without effect.

pending -> approved or edited   enough approvers agree about the same arguments
pending -> rejected             one approver rejects
pending -> expired              the deadline passes
approved or edited -> used      the call was allowed with it, once
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from guardagent.enforcement.approval import Approval, names_call, shown_digest
from guardagent.enforcement.calls import HostCall
from guardagent.enforcement.wire import read_value, write_value
from guardagent.errors import ForbiddenError, GuardError, error_text
from guardagent.server.service import RequestConflictError, UnknownItemError
from guardagent.server.service.guards import HostSession
from guardagent.server.settings import ApprovalRules, WebhookEvent
from guardagent.server.state import StateStore
from guardagent.session.session import Session
from guardagent.types import Decision, Verdict

ApprovalStatus = Literal["pending", "approved", "edited", "rejected", "expired", "used"]
FINAL: tuple[ApprovalStatus, ...] = ("rejected", "expired", "used")


@dataclass(frozen=True, slots=True)
class ApprovalRecord:
    """An approval, bound to one call with its arguments in one version of a policy.

    Attributes:
        session: the session of the call.
        policy, policy_version: the policy that asks, and the digest of its version.
        call: the call's id, tool, arguments and agent as they were proposed.
        digest: of the call and its facts; an approval is for no other ones.
        rules, reasons: the rules that escalated, and what they say.
        requested_by: the id of the caller.
        user: the id of the principal on whose behalf the agent acts.
        created, deadline: in seconds since the epoch.
        quorum, four_eyes: as in `ApprovalRules`.
        status: the last one that was stored; `at` tells the one at a time.
        args: the arguments of the last edit; None if nobody edited them.
        steps: the answers: `by`, `choice`, `reason`, `at`.
        proposed: the digest of the call as the agent proposed it, if a reviewer's edit led to this one; else empty.
    """

    session: str
    policy: str
    policy_version: str
    call: Mapping[str, Any]
    digest: str
    rules: Sequence[str]
    reasons: Sequence[str]
    requested_by: str
    user: str | None
    created: float
    deadline: float
    quorum: int = 1
    four_eyes: bool = True
    status: ApprovalStatus = "pending"
    args: Mapping[str, Any] | None = None
    steps: tuple[Mapping[str, Any], ...] = ()
    proposed: str = ""

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> ApprovalRecord:
        """Returns the record of a stored value."""
        return cls(**{**content, "steps": tuple(content["steps"])})

    @property
    def content(self) -> dict[str, Any]:
        """Its value in a store."""
        content = {name: getattr(self, name) for name in self.__slots__}
        return content if self.proposed else {name: value for name, value in content.items() if name != "proposed"}

    def at(self, now: float) -> ApprovalRecord:
        """Returns the record at a time: nothing can be approved or used after the deadline."""
        is_late = now >= self.deadline and self.status in ("pending", "approved", "edited")
        return replace(self, status="expired") if is_late else self

    @property
    def agreeing(self) -> tuple[str, ...]:
        """The approvers of the arguments as they are: those since the last edit, and who edited them."""
        last = max((at for at, step in enumerate(self.steps) if step["choice"] == "edit"), default=0)
        return tuple(dict.fromkeys(step["by"] for step in self.steps[last:]))

    def answered(self, answer: Approval, by: str, now: float) -> ApprovalRecord:
        """Returns the record after an approver's answer.

        Raises:
            RequestConflictError: it is decided, or this approver has answered; the message says who decided.
            ForbiddenError: this approver may not decide on it.
        """
        record = self.at(now)
        record.require_open(by)
        step = {"by": by, "choice": answer.choice, "reason": answer.reason, "at": now}
        record = replace(record, steps=(*record.steps, step))
        if answer.choice == "reject":
            return replace(record, status="rejected")
        if answer.choice == "edit":
            record = replace(record, args=answer.args)
        if len(record.agreeing) < record.quorum:
            return record
        return replace(record, status="approved" if record.args is None else "edited")

    def require_open(self, by: str) -> None:
        """Requires that an approver may answer.

        Raises:
            RequestConflictError, ForbiddenError: as `answered`.
        """
        if self.status != "pending":
            who = " and ".join(dict.fromkeys(step["by"] for step in self.steps)) or "the deadline"
            raise RequestConflictError(f"this approval is {self.status}; decided by {who}")
        if self.four_eyes and by in (self.requested_by, self.user):
            raise ForbiddenError("a caller or user may not approve their own call; expected another approver")
        if by in self.agreeing:
            raise RequestConflictError("this approver has answered; expected another one")

    @property
    def answer(self) -> Approval:
        """The decision, for the guard that judges the call again; one that is pending or expired rejects.

        A used one stays as it was, for a request that is repeated: the history has the call already, and the ledger
        makes sure that nothing runs twice.
        """
        by = ", ".join(self.agreeing) or None
        if self.status in ("approved", "edited", "used"):
            if self.args is not None:
                return Approval("edit", self.args, by=by, of=self.digest)
            return Approval("approve", by=by, of=self.digest)
        if self.status == "rejected":
            last = self.steps[-1]
            return Approval("reject", reason=last["reason"], by=last["by"])
        return Approval("reject", reason=f"the approval is {self.status}")


# --- requests and answers

JSON = dict[str, Any]
MAX_WAIT = 20.0  # seconds of a request that waits for an answer
APPROVAL = "approval"
_PAUSE = 0.25  # seconds between two looks at the approvals that requests wait for
_RACES = 5
_AT_ONCE = 500  # approvals in one read
_LOOK_SECONDS, _LOOK_SHARE = 1.0, 20  # how old a look at all approvals gets, and its part of the time
_log = logging.getLogger("guardagent")


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
        self._looks: dict[str, tuple[float, dict[str, JSON]]] = {}  # by tenant: when the next is due, and what waits
        self._looking = threading.Lock()

    def request(
        self, session: HostSession, call: HostCall, verdict: Verdict, rules: ApprovalRules, proposed: str = ""
    ) -> JSON:
        """Records a request; one for the same call that still waits, or is approved, stays as it is.

        Args:
            session: the session of the call.
            call: the call that is shown.
            verdict: why it needs approval.
            rules: how it is answered.
            proposed: as of `ApprovalRecord`.

        Raises:
            StateError: it cannot be stored.
        """
        name, now = approval_id(session, call), self._clock()
        new = ApprovalRecord(
            session.id,
            session.policy,
            session.digest,
            _call(call),
            shown_digest(call),
            tuple(verdict.rules),
            tuple(verdict.reasons),
            session.owner,
            session.principal.get("id"),
            now,
            now + rules.seconds,
            rules.quorum,
            rules.four_eyes,
            proposed=proposed,
        )
        for _ in range(_RACES):
            if self._state.get(APPROVAL, session.tenant, name) is None:
                self._announce_request(session.tenant, name, new)
            if self._state.add(APPROVAL, session.tenant, name, new.content):
                return self._noted(session.tenant, shown(name, 1, new))
            item = self._state.get(APPROVAL, session.tenant, name)
            if item is None:
                continue
            approval_record = ApprovalRecord.of(item.value).at(now)
            if approval_record.status not in FINAL:
                return shown(name, item.version, approval_record)
            self._announce_request(session.tenant, name, new)
            if self._state.replace(APPROVAL, session.tenant, name, item.version, new.content):
                return self._noted(session.tenant, shown(name, item.version + 1, new))
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

    def versions(self, tenant: str, names: Collection[str]) -> Mapping[str, int]:
        """Returns the versions of approvals, of those that there are."""
        return self._state.versions(APPROVAL, tenant, names)

    def page(self, tenant: str, before: int | None, limit: int) -> tuple[list[JSON], int | None]:
        """Returns the newest approvals, and the number from which the next page goes on."""
        items, now = self._state.page(APPROVAL, tenant, before, limit), self._clock()
        approvals = [shown(item.name, item.version, ApprovalRecord.of(item.value).at(now)) for item in items]
        return approvals, items[-1].number if len(items) == limit else None

    def waiting(self, tenant: str) -> list[JSON]:
        """Returns all approvals that wait, in the order in which they expire.

        All readers share a look at the state, for a second at least and for 20 times as long as it took: so watching
        takes a twentieth of the time at most. What this server itself changes shows at once.
        """
        with self._looking:
            begun = time.monotonic()
            due, waiting = self._looks.get(tenant, (0.0, {}))
            if begun >= due:
                waiting, ended = {json["id"]: json for json in self._pending(tenant)}, time.monotonic()
                self._looks[tenant] = ended + max(_LOOK_SECONDS, _LOOK_SHARE * (ended - begun)), waiting
            now, pending = self._clock(), list(waiting.values())
        return sorted((json for json in pending if json["deadline"] > now), key=lambda json: json["deadline"])

    def _pending(self, tenant: str) -> Iterator[JSON]:
        before = None
        while items := self._state.page(APPROVAL, tenant, before, _AT_ONCE):
            pending = (item for item in items if item.value["status"] == "pending")
            yield from (shown(item.name, item.version, ApprovalRecord.of(item.value)) for item in pending)
            before = items[-1].number

    def _noted(self, tenant: str, json: JSON) -> JSON:
        """Keeps the last look at a tenant's approvals up to date."""
        _, waiting = self._looks.get(tenant, (0.0, {}))
        if json["status"] == "pending":
            waiting[json["id"]] = json
        else:
            waiting.pop(json["id"], None)
        return json

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
            RequestConflictError: it has another version by now, or is decided, or the answer names another call.
            ForbiddenError: this approver may not decide on it.
        """
        record, current = self.read(tenant, name)
        shown_call, _, facts = record.digest.partition(".")
        named_call, _, other = (record.digest if answer.of is None else answer.of).partition(".")
        if named_call != shown_call or other.partition("+")[2] not in ("", facts.partition("+")[2]):
            raise RequestConflictError("the answer names another call, or other facts; expected the digest of this one")
        if version != current:
            record.require_open(by)
            raise RequestConflictError(f"the approval has version {current} by now; expected an answer to this one")
        answered = record.answered(answer, by, self._clock())
        self._announce("approval.answered", tenant, name, record.created, step=len(answered.steps))
        if not self._state.replace(APPROVAL, tenant, name, current, answered.content):
            self.read(tenant, name)[0].require_open(by)
            raise RequestConflictError("the approval was answered at this moment; read it again")
        with self._looking:  # a look that has begun before must not bring it back
            return self._noted(tenant, shown(name, current + 1, answered)), current + 1

    def _announce_request(self, tenant: str, name: str, record: ApprovalRecord) -> None:
        self._announce("approval.requested", tenant, name, record.created)
        self._announce("approval.expired", tenant, name, record.created, due=record.deadline)

    def use(self, tenant: str, name: str) -> None:
        """Notes that the call of an approval was allowed; the ledger has made sure that it was so once."""
        record, version = self.read(tenant, name)
        self._state.replace(APPROVAL, tenant, name, version, replace(record, status="used").content)


class ApprovalWatch:
    """Requests that wait for answers. They need no thread: one look at the state, now and then, is for all of them.

    Args:
        desk: has the approvals.
    """

    def __init__(self, desk: ApprovalDesk) -> None:
        self._desk = desk
        self._waiting: defaultdict[tuple[str, str], dict[asyncio.Future[bool], int]] = defaultdict(dict)
        self._task: asyncio.Task[None] | None = None

    async def changed(self, tenant: str, name: str, version: int, seconds: float) -> bool:
        """Waits until an approval has another version than this one. Returns False if it has not in these seconds."""
        changed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting[tenant, name][changed] = version
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._watch())
        try:
            async with asyncio.timeout(seconds):
                return await changed
        except TimeoutError:
            return False
        finally:
            del self._waiting[tenant, name][changed]
            if not self._waiting[tenant, name]:
                del self._waiting[tenant, name]

    async def _watch(self) -> None:
        while self._waiting:
            await asyncio.sleep(_PAUSE)
            names: defaultdict[str, list[str]] = defaultdict(list)
            for tenant, name in self._waiting:
                names[tenant].append(name)
            for tenant in names:
                try:
                    versions = await asyncio.to_thread(self._desk.versions, tenant, names[tenant])
                except GuardError as error:  # the wait goes on, and ends in time
                    _log.error("the approvals that requests wait for cannot be read: %s", error)
                    continue
                for name in names[tenant]:
                    for changed, version in self._waiting.get((tenant, name), {}).items():
                        if versions.get(name) != version and not changed.done():
                            changed.set_result(True)


def approval_id(session: HostSession, call: HostCall) -> str:
    """Returns the id of the approval of a call; every server has the same one."""
    text = json.dumps([session.tenant, session.id, session.digest, shown_digest(call)])
    return f"a_{hashlib.sha256(text.encode()).hexdigest()[:40]}"


def requested_call(session: HostSession, call: HostCall, name: str, record: ApprovalRecord) -> tuple[HostCall, bool]:
    """Returns the call that an approval is about, for the call that an agent's host repeats.

    It is that call itself, or what a reviewer's edit made of it. Also returns whether the facts are those that the
    reviewers see.

    Raises:
        UnknownItemError: the approval is for another call.
    """
    if record.proposed == shown_digest(call):
        call = replace(call, args=read_value(record.call["args"], "args"))
    if name == approval_id(session, call):
        return call, True
    if record.session != session.id or not names_call(record.digest, call):
        raise UnknownItemError("this call has no such approval; an approval is for one call with its arguments")
    return call, False


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
