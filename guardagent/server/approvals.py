"""Approvals that last: requests that wait for people, on any server, over restarts.

They are kept for all tenants in the state that servers share. A preview foresees the effect of an approval: the guard
judges the call in a copy of its session, without effect.

pending -> approved or edited   enough approvers agree about the same arguments, for each rule that escalated
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
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal

from guardagent.enforcement.approval import Approval, names_call, shown_digest
from guardagent.enforcement.calls import HostCall
from guardagent.enforcement.wire import read_value, write_value
from guardagent.errors import ForbiddenError, GuardError, error_text
from guardagent.policy.scope import EscalationStage
from guardagent.policy.views import host_text
from guardagent.server.service import RequestConflictError, UnknownItemError
from guardagent.server.service.guards import HostSession
from guardagent.server.settings import ApprovalRules
from guardagent.server.state import StateStore, StoredItem
from guardagent.session.session import Session
from guardagent.types import Decision, Verdict

JSON = dict[str, Any]
Groups = Collection[str]  # of an approver
Asking = Mapping[str, Sequence[EscalationStage]]  # rules that escalated, with what each states about who may approve
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
        steps: the answers: `by`, `choice`, `reason`, `at`, and what it grants by rule, if it does (`grant`).
        proposed: the digest of the call as the agent proposed it, if a reviewer's edit led to this one; else empty.
        stages: by rule, who may answer one after the other: `groups` (None for every approver), `quorum`, `since` and
            `until`. Empty if no rule has `escalate_to:`; then `quorum` of all approvers have to agree.
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
    stages: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> ApprovalRecord:
        """Returns the record of a stored value."""
        return cls(**{**content, "steps": tuple(content["steps"])})

    @property
    def content(self) -> dict[str, Any]:
        """Its value in a store."""
        content = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in content.items() if value or name not in ("proposed", "stages")}

    def at(self, now: float) -> ApprovalRecord:
        """Returns the record at a time: nothing can be approved or used after the deadline.

        Enough approvers may agree as a stage begins: those of the stage before can be enough for the next one.
        """
        if now >= self.deadline and self.status in ("pending", "approved", "edited"):
            return replace(self, status="expired")
        if self.status == "pending" and all(self._is_met(chain, now) for _, chain in self._chains):
            return replace(self, status="approved" if self.args is None else "edited")
        return self

    @property
    def _chains(self) -> list[tuple[Sequence[str], Sequence[Mapping[str, Any]]]]:
        """Rules with their stages."""
        plain = {"groups": None, "quorum": self.quorum, "since": self.created, "until": self.deadline}
        return [([rule], chain) for rule, chain in self.stages.items()] or [(self.rules, [plain])]

    def _is_met(self, chain: Sequence[Mapping[str, Any]], now: float) -> bool:
        """Whether in a stage that has begun, enough approvers who fit it agreed before its end; that stays so."""
        return any(stage["since"] <= now and self._agreeing_in(stage) >= stage["quorum"] for stage in chain)

    def _agreeing_in(self, stage: Mapping[str, Any]) -> int:
        last = {step["by"]: step for step in self.steps}
        return sum(last[by]["at"] < stage["until"] and fits(stage, last[by].get("groups")) for by in self.agreeing)

    def may_answer(self, now: float) -> list[JSON]:
        """Returns who may answer at a time, for each rule that lacks approvers; nobody if it is decided.

        Returns:
            `rules`, and their stage: its `groups` (None for every approver), `quorum`, how many agree (`agreeing`),
            `since` and `until`; and the `next` stage, or None.
        """
        entries = []
        for rules, chain in self._chains if self.at(now).status == "pending" else ():
            stage, *later = [stage for stage in chain if now < stage["until"]]
            if not self._is_met(chain, now):
                more = {"agreeing": self._agreeing_in(stage), "next": later[0] if later else None}
                entries.append({"rules": list(rules), **stage, **more})
        return entries

    @property
    def agreeing(self) -> tuple[str, ...]:
        """The approvers of the arguments as they are: those since the last edit, and who edited them."""
        last = max((at for at, step in enumerate(self.steps) if step["choice"] == "edit"), default=0)
        return tuple(dict.fromkeys(step["by"] for step in self.steps[last:]))

    @property
    def grants(self) -> dict[str, JSON]:
        """The least that all of its approvers grant, by rule; empty unless each of them grants more than the call."""
        granted: list[Mapping[str, JSON]] = [step.get("grant", {}) for step in self.steps]
        if self.status not in ("approved", "used") or not granted or not all(granted):
            return {}
        return {rule: _least([grant[rule] for grant in granted]) for rule in granted[0]}

    def answered(self, answer: Approval, by: str, now: float, groups: Groups = ()) -> ApprovalRecord:
        """Returns the record after an approver's answer, who is in some groups.

        Raises:
            RequestConflictError: it is decided, or this approver has answered; the message says who decided.
            ForbiddenError: this approver may not decide on it.
        """
        record = self.at(now)
        record.require_open(by, now, groups)
        step = {"by": by, "choice": answer.choice, "reason": answer.reason, "at": now}
        step |= {} if answer.grant is None else {"grant": answer.grant}
        step |= {"groups": sorted(groups)} if self.stages else {}
        record = replace(record, steps=(*record.steps, step))
        if answer.choice == "reject":
            return replace(record, status="rejected")
        if answer.choice == "edit":
            record = replace(record, args=write_value(answer.args, "args"))
        return record.at(now)

    def require_open(self, by: str, now: float, groups: Groups = ()) -> None:
        """Requires that an approver, who is in some groups, may answer.

        Raises:
            RequestConflictError, ForbiddenError: as `answered`.
        """
        status = self.at(now).status
        if status != "pending":
            who = " and ".join(dict.fromkeys(step["by"] for step in self.steps)) or "the deadline"
            raise RequestConflictError(f"this approval is {status}; decided by {who}")
        if self.four_eyes and by in (self.requested_by, self.user):
            raise ForbiddenError("a caller or user may not approve their own call; expected another approver")
        if by in self.agreeing:
            raise RequestConflictError("this approver has answered; expected another one")
        waiting = self.may_answer(now)
        if not any(fits(entry, groups) for entry in waiting):
            expected = "; or ".join(dict.fromkeys(_expected(entry, now) for entry in waiting))
            raise ForbiddenError(f"this approver is in no group that may answer now; expected {expected}")

    @property
    def answer(self) -> Approval:
        """The decision, for the guard that judges the call again; one that is pending or expired rejects.

        A used one stays as it was, for a request that is repeated: the history has the call already, and the ledger
        makes sure that nothing runs twice.
        """
        by = ", ".join(self.agreeing) or None
        if self.status in ("approved", "edited", "used"):
            if self.args is not None:
                return Approval("edit", read_value(self.args, "args"), by=by, of=self.digest)
            return Approval("approve", by=by, of=self.digest, grant=self.grants or None)
        if self.status == "rejected":
            last = self.steps[-1]
            return Approval("reject", reason=last["reason"], by=last["by"])
        return Approval("reject", reason=f"the approval is {self.status}")


def _least(granted: Sequence[JSON]) -> JSON:
    up_to = {name: min(terms["up_to"][name] for terms in granted) for name in granted[0]["up_to"]}
    return {**granted[0], "up_to": up_to, **{name: min(terms[name] for terms in granted) for name in ("calls", "for")}}


def fits(stage: Mapping[str, Any], groups: Groups | None) -> bool:
    """Whether approvers in some groups may answer in a stage."""
    return stage["groups"] is None or not set(stage["groups"]).isdisjoint(groups or ())


def clock_text(seconds: float, now: float) -> str:
    """Returns a time for people, such as `12:30 UTC`; with its date if that is another day than now."""
    time_of, today = (datetime.fromtimestamp(moment, UTC) for moment in (seconds, now))
    return f"{time_of:{'%H:%M' if time_of.date() == today.date() else '%Y-%m-%d %H:%M'}} UTC"


def _expected(entry: Mapping[str, Any], now: float) -> str:
    text, after = _approver_of(entry["groups"]), entry["next"]
    return f"{text}; from {clock_text(entry['until'], now)} on {_approver_of(after['groups'])}" if after else text


def _approver_of(groups: Sequence[str] | None) -> str:
    return "any approver" if groups is None else f"an approver of the group {' or '.join(map(repr, groups))}"


def stages_of(asks: Asking, rules: ApprovalRules, created: float) -> dict[str, list[JSON]]:
    """Returns the stages of a record; empty if no rule has any.

    Args:
        asks: the rules that escalated.
        rules: the server's settings, for what a rule or a stage does not state.
        created: when the first stages begin.
    """
    chains: dict[str, list[JSON]] = {}
    for rule, stages in asks.items() if any(asks.values()) else ():
        until = created
        for stage in stages or (EscalationStage(),):
            since, until = until, until + (rules.seconds if stage.deadline is None else stage.deadline)
            who = {"groups": stage.roles, "quorum": rules.quorum if stage.quorum is None else stage.quorum}
            chains.setdefault(rule, []).append({**who, "since": since, "until": until})
    return chains


# --- requests and answers

MAX_WAIT = 20.0  # seconds of a request that waits for an answer
APPROVAL = "approval"
_PAUSE = 0.25  # seconds between two looks at the approvals that requests wait for
_RACES = 5
_AT_ONCE, _SINGLY = 500, 50  # approvals in one read, and the most that are read singly
_LOOK_SECONDS, _LOOK_SHARE = 1.0, 100  # how old a look at all approvals gets, and its part of the time
_SETTLED = 2.0  # seconds after which a change that was announced has taken place
_log = logging.getLogger("guardagent")


Announce = Callable[..., None]
"""Tells others about a change of an approval: `Outbox.add`."""


def _nothing(*_about: Any, **_more: Any) -> None:
    """Announces nothing."""


_Waiting = tuple[JSON, "ApprovalRecord"]  # an approval as its readers saw it, and its record


@dataclass(slots=True)
class _Look:
    """The approvals of a tenant as they were read last: when to look again, all versions, and those that wait."""

    due: float = 0.0
    versions: dict[str, int] = field(default_factory=dict)
    waiting: dict[str, _Waiting] = field(default_factory=dict)

    def note(self, name: str, version: int, waiting: _Waiting | None) -> None:
        self.versions[name] = version
        if waiting is None:
            self.waiting.pop(name, None)
        else:
            self.waiting[name] = waiting


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
        self._looks: dict[str, _Look] = {}  # by tenant
        self._looking = threading.Lock()

    def request(
        self, session: HostSession, call: HostCall, verdict: Verdict, rules: ApprovalRules, asks: Asking, proposed: str
    ) -> JSON:
        """Records a request; one for the same call that still waits, or is approved, stays as it is.

        Args:
            session: the session of the call.
            call: the call that is shown.
            verdict: why it needs approval.
            rules: how it is answered.
            asks: the rules that escalated.
            proposed: as of `ApprovalRecord`.

        Raises:
            StateError: it cannot be stored.
        """
        name, now = approval_id(session, call), self._clock()
        stages = stages_of(asks, rules, now)
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
            min((chain[-1]["until"] for chain in stages.values()), default=now + rules.seconds),
            rules.quorum,
            rules.four_eyes,
            proposed=proposed,
            stages=stages,
        )
        for _ in range(_RACES):
            if self._state.get(APPROVAL, session.tenant, name) is None:
                self._announce_request(session.tenant, name, new)
            if self._state.add(APPROVAL, session.tenant, name, new.content):
                return self._noted(session.tenant, name, 1, new)
            item = self._state.get(APPROVAL, session.tenant, name)
            if item is None:
                continue
            approval_record = ApprovalRecord.of(item.value).at(now)
            if approval_record.status not in FINAL:
                return shown(name, item.version, approval_record, now)
            self._announce_request(session.tenant, name, new)
            if self._state.replace(APPROVAL, session.tenant, name, item.version, new.content):
                return self._noted(session.tenant, name, item.version + 1, new)
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
        approvals = [shown(item.name, item.version, ApprovalRecord.of(item.value), now) for item in items]
        return approvals, items[-1].number if len(items) == limit else None

    def waiting(self, tenant: str) -> list[JSON]:
        """Returns all approvals that wait, in the order in which they expire.

        All readers share a look at the state, for a second at least and for 100 times as long as it took: so watching
        takes a hundredth of the time at most. What this server itself changes shows at once.
        """
        with self._looking:
            look, begun = self._looks.setdefault(tenant, _Look()), time.monotonic()
            if begun >= look.due:
                self._renew(look, tenant)
                ended = time.monotonic()
                look.due = ended + max(_LOOK_SECONDS, _LOOK_SHARE * (ended - begun))
            now, looked = self._clock(), sorted(look.waiting.values(), key=lambda waiting: waiting[0]["deadline"])
        fresh = (shown(old["id"], old["version"], record, now) if record.stages else old for old, record in looked)
        return [approval for approval in fresh if approval["status"] == "pending" and approval["deadline"] > now]

    def _renew(self, look: _Look, tenant: str) -> None:
        """Reads the approvals that have changed; if they are many, all, in few reads."""
        seen = dict(look.versions)  # before the read: what this server adds meanwhile stays
        versions = self._state.versions(APPROVAL, tenant)
        for name in seen.keys() - versions.keys():
            look.versions.pop(name, None)
            look.waiting.pop(name, None)
        changed = [name for name, version in versions.items() if seen.get(name) != version]
        singly = (self._state.get(APPROVAL, tenant, name) for name in changed)
        for item in self._all(tenant) if len(changed) > _SINGLY else filter(None, singly):
            self._note(look, item.name, item.version, ApprovalRecord.of(item.value))

    def _all(self, tenant: str) -> Iterator[StoredItem]:
        before = None
        while items := self._state.page(APPROVAL, tenant, before, _AT_ONCE):
            yield from items
            before = items[-1].number

    def _note(self, look: _Look, name: str, version: int, record: ApprovalRecord) -> JSON:
        approval = shown(name, version, record, self._clock())
        look.note(name, version, (approval, record) if record.status == "pending" else None)
        return approval

    def _noted(self, tenant: str, name: str, version: int, record: ApprovalRecord) -> JSON:
        """Keeps the last look at a tenant's approvals up to date; returns the approval as its readers see it."""
        return self._note(self._looks.get(tenant) or _Look(), name, version, record)

    def answer(
        self, tenant: str, name: str, answer: Approval, by: str, version: int | None, groups: Groups = ()
    ) -> tuple[JSON, int]:
        """Records the answer of an approver.

        Args:
            tenant: the tenant of the approval.
            name: the id of the approval.
            answer: approve, reject with a reason, or edit with the complete new arguments.
            by: the id of the approver.
            version: the version that the approver has seen.
            groups: the groups of the approver.

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
            record.require_open(by, self._clock(), groups)
            raise RequestConflictError(f"the approval has version {current} by now; expected an answer to this one")
        answered = record.answered(answer, by, self._clock(), groups)
        self._announce("approval.answered", tenant, name, record.created, step=len(answered.steps))
        if not self._state.replace(APPROVAL, tenant, name, current, answered.content):
            self.read(tenant, name)[0].require_open(by, self._clock(), groups)
            raise RequestConflictError("the approval was answered at this moment; read it again")
        with self._looking:  # a look that has begun before must not bring it back
            return self._noted(tenant, name, current + 1, answered), current + 1

    def _announce_request(self, tenant: str, name: str, record: ApprovalRecord) -> None:
        self._announce("approval.requested", tenant, name, record.created)
        self._announce("approval.expired", tenant, name, record.created, due=record.deadline)
        for begin in {stage["since"] for chain in record.stages.values() for stage in chain[1:]}:
            self._announce("approval.escalated", tenant, name, record.created, due=begin)

    def end(self, tenant: str, ends: Callable[[Mapping[str, Any]], bool]) -> int:
        """Ends requests, such as those of a session that has ended: an answer could let nothing run.

        Args:
            tenant: the tenant.
            ends: whether a request that waits ends.

        Returns:
            The number of those that ended.
        """
        count = 0
        for approval in self.waiting(tenant):
            if ends(approval):
                name, now = approval["id"], self._clock()
                record, version = self.read(tenant, name)
                if record.status != "pending":
                    continue
                ended = replace(record, status="expired", deadline=min(now + _SETTLED, record.deadline))
                self._announce("approval.expired", tenant, name, record.created, due=ended.deadline)
                if self._state.replace(APPROVAL, tenant, name, version, ended.content):
                    count += 1
                    with self._looking:
                        self._noted(tenant, name, version + 1, ended)
        return count

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
        call = replace(call, args=read_value(record.call["args"], "args"), view=None)
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
    if call.view:
        content["view"] = host_text({call.tool: lambda _: call.view or ""}, call.tool, {})  # cut to its limit
    return {**content, "tags": sorted(call.tags)} if call.tags else content


def shown(name: str, version: int, record: ApprovalRecord, now: float) -> JSON:
    """Returns an approval as its readers see it at a time."""
    record = record.at(now)
    who = {"stages": record.stages, "may_answer": record.may_answer(now)}
    return {"id": name, "version": version, **record.content, "agreeing": list(record.agreeing), **who}


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
