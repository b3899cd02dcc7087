"""Everything that a server does for its callers, without HTTP.

It also deletes data that a server no longer needs, and ends sessions that their hosts abandoned.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from guardagent.enforcement import ToolGuard
from guardagent.enforcement.approval import shown_digest, with_changed_facts, with_edits
from guardagent.enforcement.calls import HostCall
from guardagent.enforcement.conversations import NotBegunError
from guardagent.enforcement.ledger.staging import StagedOperation, staged
from guardagent.enforcement.wire.messages import CALL, OUTCOME, read_approval, read_call, read_outcome, write_verdict
from guardagent.enforcement.wire.values import WireError, WireField, WireShape, choice, read_value, strings, write_value
from guardagent.errors import GuardError, InputError, LedgerError, error_text, name_hint
from guardagent.policy.views import RenderedView, view_for
from guardagent.server.access import Caller, TokenStore
from guardagent.server.approvals import APPROVAL, FINAL, ApprovalDesk, ApprovalRecord, preview, requested_call, shown
from guardagent.server.channels import CARD, ChannelDelivery, LogFollower, Outbox, channels_of
from guardagent.server.grants import GRANT, GrantBook, are_over
from guardagent.server.service import (
    ANSWER,
    RepeatedRequests,
    RequestConflictError,
    RequestRunningError,
    ServiceRequest,
    UnknownItemError,
    guards,
    policies,
    repeated,
)
from guardagent.server.service.migration import SessionMigration, reads_messages
from guardagent.server.service.reports import RuleReports
from guardagent.server.service.stores import LogQueries, ServerStores, TokenDesk
from guardagent.server.settings import RetentionSettings, ServerSettings
from guardagent.server.state import ItemGroup, NewItem, StateStore, StoredItem
from guardagent.server.stops import StopBook, StopDesk, seconds_of
from guardagent.session.calls import ClaimConflictError, HistoryChangedError, NotClaimedError, SessionEndedError
from guardagent.types import EMPTY, Decision, Verdict, thaw
from guardagent.types.values import read_principal

# --- retention

PAUSE_SECONDS = 300.0
_PAGE = 500
_HOUR, _DAY = 3600.0, 86_400.0
_log = logging.getLogger("guardagent")


class Retention:
    """Keeps the state small. All servers that share it may do this at the same time.

    The ledger remembers the names of ended sessions, so that none begins anew without its history.

    Args:
        state: has the items.
        settings: how long they are kept.
        finish: ends a session, as its host would.
        clock: returns the seconds since the epoch.
    """

    def __init__(
        self,
        state: StateStore,
        settings: RetentionSettings,
        finish: Callable[[guards.HostSession], object],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._state, self._settings, self._finish, self._clock = state, settings, finish, clock

    def running(self) -> contextlib.AbstractContextManager[None]:
        """Deletes meanwhile, every few minutes."""
        return repeated("cleaning up the state", PAUSE_SECONDS, self.sweep)

    def sweep(self, is_stopped: Callable[[], bool] = lambda: False) -> None:
        """Deletes everything that is due.

        Raises:
            StateError: the store fails.
        """
        now, keep = self._clock(), self._settings
        if keep.abandoned_days is not None:
            for tenant, items in self._older(guards.SESSION, "created", now - keep.abandoned_days * _DAY):
                for item in items:
                    if is_stopped():
                        return
                    self._end(guards.HostSession(item.name, tenant, number=item.number, **item.value))
        for kind, field, seconds, is_due in (
            (ANSWER, "since", keep.answer_hours * _HOUR, _is_always),
            (APPROVAL, "created", keep.approval_days * _DAY, partial(_is_decided, now)),
            (GRANT, "created", keep.approval_days * _DAY, partial(are_over, now)),
            (CARD, "created", keep.approval_days * _DAY, _is_always),
            (guards.SESSION, "created", keep.session_days * _DAY, _has_ended),
        ):
            for tenant, items in self._older(kind, field, now - seconds):
                if is_stopped():
                    return
                self._state.delete(kind, tenant, *(stored_item.name for stored_item in items if is_due(stored_item)))

    def _older(self, kind: str, field: str, before: float) -> Iterator[tuple[str, list[StoredItem]]]:
        """Yields tenants with items from before a time, some at once."""
        for tenant in self._state.tenants(kind):
            after = 0
            while page := self._state.oldest(kind, tenant, after, _PAGE):
                older = [stored_item for stored_item in page if stored_item.value[field] < before]
                if not older:
                    break
                yield tenant, older
                after = page[-1].number

    def _end(self, session: guards.HostSession) -> None:
        if session.status != "open":
            return
        try:
            self._finish(session)
        except GuardError as error:  # such as a version of the policy that this server lacks
            _log.warning("the abandoned session %r cannot be ended: %s", session.conversation, error)


def _is_always(_item: StoredItem) -> bool:
    return True


def _is_decided(now: float, item: StoredItem) -> bool:
    return ApprovalRecord.of(item.value).at(now).status in FINAL


def _has_ended(item: StoredItem) -> bool:
    return bool(item.value["status"] == "ended")


# --- the service

JSON = dict[str, Any]
MAX_TIMELINE = 500
REPLAYED_DAYS = 30
_RACES = 20
_STEP = "seq time kind tool call_id agent args facts decision rules reasons errors status output answer".split()
_STEP += "approver why grants grant covers by".split()


_CALL = WireField(dict, more=CALL.schema)
_STATE = WireField(None, None, read_value)
_USER = {"properties": {"id": {"type": "string"}, "roles": strings().schema, "tenant": {"type": "string"}}}
NO_FIELDS = WireShape()
NEW_SESSION = WireShape(
    attachment=WireField(str),
    id=WireField(str, None),
    on_behalf_of=WireField(dict, None, more={"type": "object", **_USER, "required": ["id"]}),
)
CHECK = WireShape(call=_CALL, state=_STATE, reserve=WireField(bool, default=True))
RESOLVE = WireShape(call=_CALL, approval=WireField(str), state=_STATE)
RECORD = WireShape(call_id=WireField(str), outcome=WireField(dict, read=read_outcome, more=OUTCOME.schema))
MAX_OUTCOMES = 100
CALLS = WireShape(  # its parts are read as those of `RECORD` and `CHECK`
    outcomes=WireField(list, (), more={"items": RECORD.schema, "maxItems": MAX_OUTCOMES}),
    call=WireField(dict, EMPTY, more=CALL.schema),
    state=_STATE,
    reserve=WireField(bool, default=True),
)
WITHDRAW = WireShape(call_id=WireField(str), why=WireField(str))
REFUSE = WireShape(call=_CALL, problem=WireField(str))
FINAL_ANSWER = WireShape(input=WireField(str), output=WireField(str), facts=WireField(dict, EMPTY, read_value))
MAX_ANSWERS = 100
TERMS = WireShape(
    up_to=WireField(dict, EMPTY, more={"additionalProperties": {"type": "number", "minimum": 0}}),
    calls=WireField(int, None),
    **{"for": WireField(None, None, seconds_of, {"type": ["string", "number", "null"]})},
)
_ANSWER = {
    "choice": choice("approve", "reject", "edit"),
    "version": WireField(int),
    "args": WireField(dict, None, more={"type": "object"}),
    "reason": WireField(str, ""),
    "of": WireField(str, None),
    "grant": WireField(dict, None, TERMS.read, TERMS.schema),
}
_NAMED_ANSWER = WireShape(id=WireField(str), **_ANSWER)
APPROVAL_ANSWER = WireShape(**_ANSWER)


def _read_answers(answers: Any, where: str) -> list[JSON]:
    if not 0 < len(answers) <= MAX_ANSWERS:
        raise WireError(where, f"has {len(answers)} answers; expected 1 to {MAX_ANSWERS}")
    for at, answer in enumerate(answers):
        _NAMED_ANSWER.read(answer, f"{where}[{at}]")
    return [dict(answer) for answer in answers]


ANSWERS = WireShape(answers=WireField(list, read=_read_answers, more={"items": _NAMED_ANSWER.schema, "minItems": 1}))
RELOAD = WireShape(running=replace(choice("keep", "deny", "apply"), default="keep"))
SHADOW = WireShape(text=WireField(str, None))
REPLAY = WireShape(text=WireField(str))


class GuardService:
    """The operations of a server. Any server process with the same stores continues any session.

    Each operation works for the tenant of its caller alone. Whether the caller has the role is decided before.

    Args:
        settings: the settings of the server.
        tokens: the tokens that admins manage; None if there are none.

    Raises:
        InputError: a setting or a policy is invalid, or a store cannot be opened.
    """

    def __init__(self, settings: ServerSettings, tokens: TokenStore | None = None) -> None:
        self.settings = settings
        self.policies = policies.PolicyCatalogue(settings.policies)
        self.stores = ServerStores(settings)
        self.tokens = TokenDesk(tokens, self.stores.log)
        self.policies.share(self.stores.state)
        self.attachments = guards.Attachments(self.stores.state)
        self.sessions = guards.HostSessions(self.stores.state)
        self.candidates = policies.CandidatePolicies(self.stores.state, self.policies, settings.policies)
        self.grants = GrantBook(self.stores.state, self.stores.counters, self.stores.log)
        kept = self.stores, self.attachments, self.sessions
        self.stops = StopBook(self.stores.ledger, self.sessions.known, self.stores.log)
        self.guards = guards.GuardCache(self.policies, self.candidates, *kept, self.grants.of, self.stops)
        self.migration = SessionMigration(self.policies, self.stores, self.sessions, self.guards)
        self.log = LogQueries(self.stores.log, self.stores.log_address)
        self.repeated = RepeatedRequests(self.stores.state)
        channels = channels_of(self)
        outbox = Outbox(self.stores.state, channels)
        self.approvals = ApprovalDesk(self.stores.state, outbox.add)
        self.stop_desk = StopDesk(self.stops, self.sessions, self.guards, self.approvals, self.stores.log)
        self.channels = ChannelDelivery(outbox, self.approvals, channels, self.log.entry)
        self.log_events = LogFollower(self.log, self.stores.state, outbox, channels, self.tenants)
        self.history = policies.PolicyHistory(self.stores.state)
        for name, setting in settings.policies.items():
            current = self.policies.current(name)
            self.history.note(name, current, setting.commit())
            if current.zone_note and setting.zone is None:
                _log.warning("policy %r: %s, or set its 'zone' in the settings", name, current.zone_note)
        self.reports = policies.PolicyReports(self.policies, self.history, self.candidates, self.log)
        self.rules = RuleReports(self.policies, self.reports, self.log, self.approvals)
        self.workflows = policies.WorkflowReports(settings.workflows, self.policies)
        self.retention = Retention(self.stores.state, settings.retention, self._finish)
        self.verdicts = Counter[tuple[str, str]]()
        self.runs = guards.RunGuards(settings.agents, self.stores.log)

    def tenants(self) -> frozenset[str]:
        """Returns the tenants with sessions or tokens, whose logs may have entries."""
        return self.tokens.tenants() | frozenset(self.sessions.tenants())

    def close(self) -> None:
        """Closes the stores."""
        self.runs.close()
        self.stores.close()

    # --- the tools of an agent, and its sessions

    def attach(self, request: ServiceRequest) -> JSON:
        """Attaches an agent's tools to a policy. Attaching the same tools again changes nothing.

        Raises:
            InputError: the request is invalid, or the tools do not fit the rules.
            UnknownItemError: the tenant has no such policy.
        """
        attachment, content = guards.read_attachment(request.body, request.caller.tenant)
        self.policies.settings(attachment.policy, request.caller.tenant)
        version = self.policies.current(attachment.policy)
        guard = self.guards.new(attachment, version)
        self.attachments.add(attachment, content)
        return {
            "id": attachment.id,
            "coverage": guard.coverage.lines(),
            "reads_messages": reads_messages(version),
            "judges_answers": guard.judges_answers,
            "takes_outcomes": True,  # with the next check: see `calls`
            "states_timeouts": True,
            "policy": attachment.policy,
            "policy_version": version.digest,
        }

    def open_sessions(self, reads: Sequence[Callable[[], ServiceRequest]]) -> list[JSON | Exception]:
        """Opens sessions in one step. One that the same caller has opened alike is not opened again.

        Args:
            reads: functions that return the requests.

        Returns:
            The answer to each request, or its error: an `InputError` if it is invalid, or names a user although the
            policy does not let the host do this; an `UnknownItemError` if the tenant has no such attachment; a
            `RequestConflictError` if another session has this id, and a `RepeatedKeyError` if another request had the
            key.
        """
        results: list[JSON | Exception] = []
        new: list[tuple[int, ServiceRequest, guards.HostSession]] = []
        for read in reads:
            try:
                request = read()
                session = self._new_session(request)
            except Exception as error:  # noqa: BLE001 - the error of this request alone
                results.append(error)
            else:
                new.append((len(results), request, session))
                results.append({"id": session.id})
        added = self.stores.state.add_groups([self._items(request, session) for _, request, session in new])
        for (at, request, session), is_new in zip(new, added, strict=True):
            try:
                if is_new:
                    self.sessions.keep(session)
                else:
                    results[at] = self._opened_earlier(request, session)
            except Exception as error:  # noqa: BLE001 - as above
                results[at] = error
        return results

    def _items(self, request: ServiceRequest, session: guards.HostSession) -> ItemGroup:
        """A new session, and the answer for a repetition of its request."""
        items: list[NewItem] = [(guards.SESSION, session.id, session.content)]
        if request.key is not None:
            answer = {"id": session.id}
            items.append(self.repeated.item(request.caller.id, request.key, _opening(request), answer))
        return session.tenant, items

    def _new_session(self, request: ServiceRequest) -> guards.HostSession:
        fields, caller = NEW_SESSION.read(request.body), request.caller
        name, user = fields["id"] or f"s_{request.identity()[:32]}", fields["on_behalf_of"]
        attachment = self.attachments.find(caller.tenant, fields["attachment"])
        policy = self.policies.settings(attachment.policy, caller.tenant)
        if user is not None and policy.principal != "host":
            raise WireError("on_behalf_of", "this policy does not let an agent's host name the user")
        digest = self.policies.current(attachment.policy).digest
        candidate = self.candidates.chosen(caller.tenant, attachment.policy)
        return guards.new_session(name, caller, attachment, digest, _principal(caller, user), candidate)

    def _opened_earlier(self, request: ServiceRequest, session: guards.HostSession) -> JSON:
        about = request.caller.tenant, request.caller.id, request.key, _opening(request)
        return self.repeated.once(  # type: ignore[no-any-return]
            *about, lambda: {"id": self.sessions.open(session).id}, takes_over=True
        )

    # --- calls

    def check(self, request: ServiceRequest) -> JSON:
        """Judges a call; an allowed one is in flight from then on, and the host runs it and records its outcome.

        Raises:
            InputError: the request is invalid.
            UnknownItemError: the caller has no such session.
        """
        session, guard = self._session(request)
        fields = CHECK.read(request.body)
        reserve = fields["reserve"]
        call = read_call(fields["call"], session.conversation, claim=request.identity() if reserve else None)
        with self.guards.with_state(session, fields["state"]):
            verdict = guard.before(call) if reserve else guard.preview(call)
        return self._judged(session, guard, call, verdict)

    def resolve(self, request: ServiceRequest) -> JSON:
        """Judges an escalated call again, with the answers of its reviewers.

        While they have not answered, it stays escalated. An approval covers the call once, as the reviewers saw it. An
        edit that needs an approval of its own opens another request, whose id this call takes, too.

        Raises:
            InputError: the request is invalid.
            UnknownItemError: the caller has no such session, or there is no such approval of this call.
        """
        session, guard = self._session(request)
        fields = RESOLVE.read(request.body)
        call = read_call(fields["call"], session.conversation, claim=request.identity())
        approval = fields["approval"]
        record, _ = self.approvals.read(session.tenant, approval)
        requested, same_facts = requested_call(session, call, approval, record)
        self.grants.make(session, approval, record)
        with self.guards.with_state(session, fields["state"]):
            if record.status == "pending" or not same_facts:
                verdict = guard.before(requested)
            else:
                verdict = guard.resolve(requested, record.answer)
        if not same_facts:
            verdict = with_changed_facts(verdict)
        is_spent = verdict.label == 0 or (record.grants and verdict.decision is Decision.ESCALATE)
        if record.status in ("approved", "edited") and is_spent and same_facts:
            self.approvals.use(session.tenant, approval)  # after its grant has ended, another request opens
        edited = with_edits(requested, record.answer) if same_facts else requested
        proposed = shown_digest(call) if edited.digest != call.digest else ""
        judged = self._judged(session, guard, edited, verdict, proposed)
        if verdict.label or not proposed:
            return judged
        return {**judged, "args": write_value(edited.args, "args")}  # also for a repeated request

    def record(self, request: ServiceRequest) -> JSON:
        """Records the outcome of a call, once; any server may have checked it.

        Raises:
            InputError: the request is invalid.
            UnknownItemError: the caller has no such session, or no such call was allowed.
            RequestConflictError: another outcome was recorded, or the session has ended.
        """
        session, guard = self._session(request)
        fields = RECORD.read(request.body)
        with _settling():
            settled = guard.claimed_calls.record(session.conversation, **fields)
        return {"status": "in flight" if settled is None else settled.status}

    def calls(self, request: ServiceRequest) -> JSON:
        """Records the outcomes of earlier calls in their order, then judges the next call.

        Each part may be missing. They take effect as requests of their own, so a repetition changes nothing. An outcome
        that is refused refuses the request: later outcomes are not recorded, and the call is not judged.

        Raises:
            as `record` and `check`.
        """
        self.sessions.of_caller(request.caller, request.path["id"])
        if len(CALLS.read(request.body)["outcomes"]) > MAX_OUTCOMES:
            raise WireError("outcomes", f"has more than {MAX_OUTCOMES} outcomes; expected fewer")
        check, answer = dict(request.body), JSON(outcomes=[])
        for at, outcome in enumerate(check.pop("outcomes", ())):
            try:
                answer["outcomes"].append(self.record(replace(request, body=outcome)))
            except WireError as error:
                raise WireError(f"outcomes[{at}]{'.' if error.where else ''}{error.where}", error.problem) from None
        return {**answer, **(self.check(replace(request, body=check)) if check else {})}

    def withdraw(self, request: ServiceRequest) -> JSON:
        """Withdraws a call that never ran. One that was not checked yet can no longer be.

        Raises:
            as `record`.
        """
        session, guard = self._session(request)
        fields = WITHDRAW.read(request.body)
        with _settling():
            guard.claimed_calls.withdraw(session.conversation, **fields)
        return {"status": "withdrawn"}

    def refuse(self, request: ServiceRequest) -> JSON:
        """Denies a call that the host cannot state as it would run, such as one of an unknown tool.

        Raises:
            InputError: the request is invalid.
            UnknownItemError: the caller has no such session.
        """
        session, guard = self._session(request)
        fields = REFUSE.read(request.body)
        call = read_call(fields["call"], session.conversation)
        return {"verdict": self._counted(session, guard.refuse(call, fields["problem"]))}

    def turn(self, request: ServiceRequest) -> JSON:
        """Notes a new message of the user, so that denials are counted anew.

        Raises:
            UnknownItemError: the caller has no such session.
        """
        session, guard = self._session(request)
        NO_FIELDS.read(request.body)
        guard.turn(session.conversation)
        return {}

    def answer(self, request: ServiceRequest) -> JSON:
        """Judges the agent's final answer before the user sees it.

        Raises:
            InputError: the request is invalid.
            UnknownItemError: the caller has no such session.
        """
        session, guard = self._session(request)
        verdict = guard.answer(session.conversation, *FINAL_ANSWER.read(request.body).values())
        return {"verdict": self._counted(session, verdict)}

    def finish(self, request: ServiceRequest) -> JSON:
        """Ends a session for all servers. Finishing it again returns the same verdict.

        Raises:
            UnknownItemError: the caller has no such session.
        """
        name = self.sessions.of_caller(request.caller, request.path["id"]).id
        NO_FIELDS.read(request.body)
        session = self.sessions.read(request.caller.tenant, name)
        if session.status == "open":
            session = self._finish(session)
        self.guards.forget(session)
        return {"verdict": session.verdict}

    def judge_run(self, request: ServiceRequest) -> JSON:
        """Judges a finished run of an agent that the settings name.

        Raises:
            InputError: the request is invalid.
            UnknownItemError: the tenant has no such agent.
        """
        verdict = self.runs.judge(request.caller, request.body)
        self.verdicts["", str(verdict.decision)] += 1
        return {"verdict": write_verdict(verdict)}

    # --- for people

    def list_sessions(self, tenant: str, before: int | None, limit: int, fits: guards.SessionFilter = bool) -> JSON:
        """Returns the newest sessions of a tenant, of those that fit; by default, all do."""
        page, number = self.sessions.search(tenant, before, limit, fits)
        cursor = None if number is None else str(number)
        return {"sessions": [_summary(session_row) for session_row in page], "cursor": cursor}

    def show_session(self, tenant: str, name: str) -> JSON:
        """Returns a session: its calls, the states of its rules, its obligations, and its time line from the log.

        The history of a session that has ended is deleted; its time line stays in the log.

        Raises:
            UnknownItemError: the tenant has no such session.
        """
        session = self.sessions.read(tenant, name)
        entries = self.log.entries(tenant, None, MAX_TIMELINE, {"session": name})
        shown = {**_summary(session), "verdict": session.verdict, "timeline": [_step(entry) for entry in entries]}
        if session.status != "open":
            return {**shown, "calls": [], "rules": {}, "obligations": {}}
        current = self.guards.of(session).claimed_calls.session(session.conversation)
        return {
            **shown,
            "calls": [_call(event) for event in current.history],
            "rules": current.status,
            "obligations": current.obligations,
            **({} if current.effect is None else {"effect": current.effect}),
        }

    def show_approval(self, tenant: str, name: str) -> JSON:
        """Returns an approval.

        Raises:
            UnknownItemError: the tenant has no such approval.
        """
        record, version = self.approvals.read(tenant, name)
        json = shown(name, version, record, time.time())
        if record.status == "pending":
            with contextlib.suppress(GuardError):  # it allows one call, or its policy is unknown here
                json["grantable"] = self._grantable(tenant, record)
        views = {source: view.text for source, view in self.views(tenant, json).items()}
        return {**json, "views": views} if views else json

    def views(self, tenant: str, approval: Mapping[str, Any]) -> dict[str, RenderedView]:
        """Returns the call of an approval as the `policy` and the agent's `host` show it; empty without views."""
        call, edited = approval["call"], approval["args"]
        views = {"host": RenderedView(call["view"])} if call.get("view") and edited is None else {}
        version = self.policies.version(approval["policy"], approval["policy_version"])
        if version is None or version.source is None or not version.source.views:
            return views
        try:
            session = self.sessions.read(tenant, approval["session"])
            guard = self.guards.of(session)
            if (view := view_for(version, guard.names.resolve(call["tool"]))) is None:
                return views
            is_open = session.status == "open"
            history = guard.claimed_calls.session(session.conversation).history if is_open else ()
            args, facts = read_value(call["args"] if edited is None else edited, "args"), call.get("facts") or {}
            return {"policy": view.render(args, read_value(facts, "facts"), history), **views}
        except GuardError as error:
            return {"policy": RenderedView(f"(the view cannot be shown: {error})"), **views}

    def preview_approval(self, tenant: str, name: str) -> JSON:
        """Returns what would happen if an approval that waits were approved now; see `preview`.

        Raises:
            UnknownItemError: the tenant has no such approval.
            GuardError: its session cannot be read.
        """
        record, _ = self.approvals.read(tenant, name)
        session = self.sessions.read(tenant, record.session)
        if session.status != "open":
            raise RequestConflictError("the session of the call has ended; it will not run")
        guard = self.guards.of(session)
        tool = guard.names.resolve(record.call["tool"])
        return preview(guard.claimed_calls.session(session.conversation), tool, record)

    def answer_approval(self, caller: Caller, name: str, body: Any, *, via: str = "") -> JSON:
        """Records the answer of an approver, who is the caller; `via` is the channel if it did not come over the API.

        Raises:
            InputError: the request is invalid, or grants more than a rule lets it.
            UnknownItemError: the tenant has no such approval.
            RequestConflictError: it has another version by now, or is decided.
            ForbiddenError: this approver may not decide on it.
        """
        fields = APPROVAL_ANSWER.read(body, is_open=True)
        answer = read_approval({name: value for name, value in body.items() if name not in ("version", "grant")}, "")
        if fields["grant"] is not None:
            if answer.choice != "approve":
                raise InputError(f"'grant' beside the choice {answer.choice!r}; expected it only beside 'approve'")
            terms = {bound: value for bound, value in fields["grant"].items() if value is not None}
            grant = self._grantable(caller.tenant, self.approvals.read(caller.tenant, name)[0], terms)
            answer = replace(answer, grant=grant)
        answered, _ = self.approvals.answer(caller.tenant, name, answer, caller.id, fields["version"], caller.groups)
        entry = {"kind": "approval_answer", "approval": name, "choice": answer.choice, "by": caller.id}
        entry |= {"via": via} if via else {}
        granted = {} if answer.grant is None else {"granted": answer.grant}
        about = {"reason": answer.reason, "status": answered["status"], **granted}
        self.stores.log(caller.tenant).append({**entry, **about})
        record, _ = self.approvals.read(caller.tenant, name)
        if record.grants:  # an answer to a call of a session that is gone is taken all the same
            self.grants.make(self.sessions.read(caller.tenant, record.session), name, record)
        return answered

    def _grantable(self, tenant: str, record: ApprovalRecord, terms: Mapping[str, Any] = EMPTY) -> dict[str, JSON]:
        """Returns what an answer with these terms grants, by rule; without any, what it may grant at most.

        Raises:
            InputError: a rule allows one call only, a bound is above its scope, or the call would not be covered.
            GuardError: the policy of the session is unknown here.
        """
        guard, grants = self.guards.of(self.sessions.read(tenant, record.session)), dict[str, JSON]()
        tool, args = guard.names.resolve(record.call["tool"]), read_value(record.call["args"], "args")
        for rule in record.rules:
            if guard.policies.responses.get(rule) is Decision.ESCALATE:
                scope = guard.policies.approval_scopes.get(rule)
                if scope is None or record.args is not None:
                    raise InputError(f"rule {rule!r} lets a reviewer approve this one call; expected no 'grant'")
                scope = scope.narrowed(terms)
                uses = scope.uses(tool, args)
                if uses is None or any(amount > scope.limits[limit] for limit, amount in uses.items()):
                    raise InputError(f"the call itself does not fit what rule {rule!r} covers: {scope.in_words()}")
                grants[rule] = {**scope.content, "covers": scope.in_words(args)}
        known = {name for grant in grants.values() for name in grant["up_to"]}
        for name in terms.get("up_to", {}):
            if name not in known:
                raise InputError(f"'grant' has the unknown bound {name!r}{name_hint(name, known)}")
        return grants

    def list_policies(self, tenant: str) -> JSON:
        """Returns the policies that a tenant may use."""
        names = self.policies.names(tenant)
        return {"policies": [{"name": name, "version": self.policies.current(name).digest} for name in names]}

    def show_policy(self, tenant: str, name: str) -> JSON:
        """Returns a policy with its rules in plain English.

        Raises:
            UnknownItemError: the tenant has no such policy.
        """
        self.policies.settings(name, tenant)
        current = self.policies.current(name)
        rules = [{"id": rule.id, "message": rule.source.message} for rule in current.rules]
        return {"name": name, "version": current.digest, "rules": rules}

    def list_versions(self, tenant: str, name: str) -> JSON:
        """Returns the versions of a policy that this server has, the current one first.

        Raises:
            UnknownItemError: the tenant has no such policy.
        """
        self.policies.settings(name, tenant)
        return {"name": name, "versions": self.policies.held(name)}

    def reload_policy(self, caller: Caller, tenant: str, name: str, body: Any = None) -> JSON:
        """Loads the files of a policy again, for new sessions; sessions that have begun keep their version.

        With `running` `deny`, they may make no call any more: a stop that a person can lift covers them. With `apply`,
        they go on under the new version if their histories can be replayed under it, and are under that stop if not.

        Raises:
            InputError: the files are invalid; the current version stays in force.
            UnknownItemError: the tenant has no such policy.
        """
        running = RELOAD.read({} if body is None else body)["running"]
        commit = self.policies.settings(name, tenant).commit()
        earlier = self.policies.current(name).digest
        try:
            reloaded = self.policies.reload(name)
        except InputError as error:
            raise InputError(f"{error}; nothing was changed: the version before stays in force") from None
        version = reloaded.digest
        if version != earlier:
            change = {"kind": "policy", "name": name, "policy": version, "earlier": earlier, "by": caller.id}
            self.stores.log(tenant).append(change | ({"commit": commit} if commit else {}))
        self.history.note(name, reloaded, commit)
        json = {"name": name, "version": version, "changed": version != earlier}
        if running == "keep":
            self.stop_desk.note_later(caller, name, version)
        else:
            json["stop"] = self.stop_desk.stop_earlier(caller, name, version, migrates=running == "apply")
        return json

    def shadow_policy(self, caller: Caller, tenant: str, name: str, body: Any) -> JSON:
        """Lets a candidate judge new sessions too, without effect; the log has where it decides otherwise.

        Raises:
            InputError: the request or the candidate is invalid.
            UnknownItemError: the tenant has no such policy.
        """
        self.policies.settings(name, tenant)
        candidate = self.candidates.choose(tenant, name, SHADOW.read(body)["text"])
        self.stores.log(tenant).append({"kind": "policy", "name": name, "candidate": candidate, "by": caller.id})
        return {"name": name, "candidate": candidate}

    def replay_policy(self, tenant: str, name: str, body: Any, days: int | None = None) -> JSON:
        """Returns what a candidate would have decided on the calls of the tenant's log, or of its last days.

        Raises:
            InputError: the request or the candidate is invalid.
            UnknownItemError: the tenant has no such policy.
        """
        self.policies.settings(name, tenant)
        text = REPLAY.read(body)["text"]
        self.stores.log(tenant)
        return self.candidates.replay(name, text, self.stores.log_address(tenant), self.reports.digests(name), days)

    def examine_policy(self, tenant: str, name: str, text: str, cases: str) -> JSON:
        """Returns the findings of lint on a candidate, how its cases differ, and a replay of the last days.

        Raises:
            InputError: the candidate is invalid.
            UnknownItemError: the tenant has no such policy.
        """
        self.policies.settings(name, tenant)
        examined = self.candidates.examine(name, text, cases)
        try:
            replayed = self.replay_policy(tenant, name, {"text": text}, REPLAYED_DAYS)
        except (InputError, RequestConflictError) as error:
            replayed = {"problem": str(error)}
        return {**examined, "replayed": replayed, "days": REPLAYED_DAYS}

    def require_ready(self) -> None:
        """Makes sure that the state can be read.

        Raises:
            GuardError: it cannot.
        """
        self.stores.state.get("ready", "", "")
        self.stores.ledger.policy_of("ready")

    # --- operations that are committed together

    def stage(
        self, handle: Callable[[GuardService, ServiceRequest], JSON], request: ServiceRequest
    ) -> StagedOperation | None:
        """Carries out an operation on a session in memory, to be committed later; None if something has to wait."""
        session = self.sessions.at_hand(request.caller, request.path["id"])
        sends_state = not isinstance(request.body, dict) or request.body.get("state") is not None
        if session is None or sends_state or not self.stores.ledger.stages:
            return None
        guard = self.guards.at_hand(session)
        if guard is None or self.policies.settings(session.policy, session.tenant).state:
            return None
        operation = StagedOperation(session.conversation)
        work = partial(handle, self, request)
        return operation if guard.stage(operation, work, begins=not session.number) else None

    def count(self, operation: StagedOperation) -> None:
        """Counts the verdicts of a committed operation for the metrics."""
        self.verdicts.update(operation.verdicts)

    # --- internals

    def _session(self, request: ServiceRequest) -> tuple[guards.HostSession, ToolGuard]:
        session = self._migrated(self.sessions.of_caller(request.caller, request.path["id"]))
        return session, self.guards.of(session)

    def _migrated(self, session: guards.HostSession) -> guards.HostSession:
        """Returns a session under the version that a reload has put into force for it; else its stop denies its calls.

        Raises:
            LedgerError: as `StopBook.migration`.
        """
        for _ in range(_RACES):
            stop = self.stops.migration(session)
            moved = self.stores.ledger.moved
            if stop is None and (session.conversation not in moved or staged() is not None):
                return session
            current = self.sessions.read(session.tenant, session.id)
            self.guards.forget(session)
            if stop is None:
                moved.discard(session.conversation)
                return self.sessions.keep(current)
            try:
                if current.status == "open" and current.digest != stop.version:
                    current = self.migration.move(current, str(stop.version))
            except HistoryChangedError:
                continue
            except Exception as error:  # noqa: BLE001 - whatever it is, the session stays stopped, and says why
                self.stops.stays(session, error_text(error))
                return session
            return self.sessions.keep(current)
        raise LedgerError("other servers kept adding to the session; try again")

    def _judged(
        self, session: guards.HostSession, guard: ToolGuard, call: HostCall, verdict: Verdict, proposed: str = ""
    ) -> JSON:
        if verdict.label and guard.claimed_calls.may_hold(call):
            raise LedgerError("; ".join(verdict.errors) or "the verdict cannot be recorded")
        in_flight = call.claim is not None and verdict.label == 0
        json: JSON = {"verdict": self._counted(session, verdict), "in_flight": in_flight}
        if in_flight and (seconds := guard.lifecycle.timeout(call)) is not None:
            json["timeout"] = seconds
        if verdict.decision is Decision.ESCALATE:
            if staged() is not None:
                raise LedgerError("an approval is requested at once, after a verdict that is committed")
            rules = self.policies.settings(session.policy, session.tenant).approvals
            asks = {rule: stages for rule, stages in guard.policies.escalations.items() if rule in verdict.rules}
            json["approval"] = self.approvals.request(session, call, verdict, rules, asks, proposed)
        return json

    def _counted(self, session: guards.HostSession, verdict: Verdict) -> JSON:
        """Counts a verdict for the metrics, and returns it as JSON."""
        counted = session.policy, str(verdict.decision)
        if (operation := staged()) is None:
            self.verdicts[counted] += 1
        else:
            operation.verdicts.append(counted)
        return write_verdict(verdict)

    def _finish(self, session: guards.HostSession) -> guards.HostSession:
        """Ends a session: closes it for calls, stores the verdict, and then deletes the history."""
        session = self._migrated(session)
        guard = self.guards.of(session)
        try:
            verdict = write_verdict(guard.claimed_calls.finish(session.conversation))
        except SessionEndedError:  # by a server that is about to store its verdict, or stored it
            session = self.sessions.read(session.tenant, session.id)
            if session.status == "open":
                raise RequestRunningError("another server is ending the session; try again") from None
            return session
        session = self.sessions.change(session, status="ended", verdict=verdict)
        self.stores.ledger.end(session.conversation)
        self.approvals.end(session.tenant, lambda waiting: waiting["session"] == session.id)
        return session


@contextlib.contextmanager
def _settling() -> Iterator[None]:
    """Turns errors of settling a call into those of a request."""
    try:
        yield
    except (NotClaimedError, NotBegunError) as error:
        raise UnknownItemError(str(error)) from None
    except (ClaimConflictError, SessionEndedError) as error:
        raise RequestConflictError(str(error)) from None


def _opening(request: ServiceRequest) -> Any:
    return ["sessions", request.body]


def _principal(caller: Caller, user: Mapping[str, Any] | None) -> JSON:
    """The principal of a session, as rules read it.

    Raises:
        InputError: the user is invalid, or of another tenant.
    """
    if user is None:
        return dict(thaw(caller.principal.value))
    principal = read_principal({"tenant": caller.tenant, **user}, place="on_behalf_of")
    assert principal is not None
    if principal.tenant != caller.tenant:
        raise InputError("'on_behalf_of' is of another tenant; expected a user of the caller's")
    return dict(thaw(principal.value))


def _summary(session: guards.HostSession) -> JSON:
    return {
        "id": session.id,
        "owner": session.owner,
        "principal": session.principal,
        "policy": session.policy,
        "policy_version": session.digest,
        "attachment": session.attachment,
        "created": session.created,
        "status": session.status,
    }


def _step(entry: Mapping[str, Any]) -> JSON:
    """An entry of the log as a step of a time line."""
    return {name: entry[name] for name in _STEP if entry.get(name) not in (None, [], "")}


def _call(event: Any) -> JSON:
    return {
        "id": event.id,
        "tool": event.tool,
        "args": thaw(event.args),
        "agent": event.agent,
        "status": event.status or "in flight",
        "output": thaw(event.output),
        "time": event.time,
    }
