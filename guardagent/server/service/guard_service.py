"""Everything that a server does for its callers, without HTTP.

It also deletes data that a server no longer needs, and ends sessions that their hosts abandoned.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from guardagent.enforcement import ToolGuard
from guardagent.enforcement.approval import shown_digest, with_changed_facts, with_edits
from guardagent.enforcement.calls import HostCall
from guardagent.enforcement.conversations import NotBegunError
from guardagent.enforcement.wire.messages import CALL, OUTCOME, read_approval, read_call, read_outcome, write_verdict
from guardagent.enforcement.wire.values import WireError, WireField, WireShape, choice, read_value, strings, write_value
from guardagent.errors import GuardError, InputError, LedgerError, error_text
from guardagent.policy.policies import Policies
from guardagent.server.access import Caller, TokenStore
from guardagent.server.approvals import APPROVAL, FINAL, ApprovalDesk, ApprovalRecord, preview, requested_call, shown
from guardagent.server.service import (
    ANSWER,
    RepeatedRequests,
    RequestConflictError,
    RequestRunningError,
    ServiceRequest,
    UnknownItemError,
)
from guardagent.server.service.guards import (
    SESSION,
    Attachments,
    GuardCache,
    HostSession,
    HostSessions,
    RunGuards,
    new_session,
    read_attachment,
)
from guardagent.server.service.policies import (
    CandidatePolicies,
    PolicyCatalogue,
    PolicyHistory,
    PolicyReports,
    WorkflowReports,
)
from guardagent.server.service.stores import LogQueries, ServerStores, TokenDesk
from guardagent.server.settings import RetentionSettings, ServerSettings
from guardagent.server.state import StateStore, StoredItem
from guardagent.server.webhooks import WebhookDelivery, WebhookOutbox
from guardagent.session.calls import ClaimConflictError, NotClaimedError, SessionEndedError
from guardagent.types import EMPTY, Decision, Verdict
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
        finish: Callable[[HostSession], object],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._state, self._settings, self._finish, self._clock = state, settings, finish, clock

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Deletes meanwhile, every few minutes."""
        stopped = threading.Event()
        thread = threading.Thread(target=self._run, args=(stopped,), name="retention", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stopped.set()
            thread.join(10.0)

    def _run(self, stopped: threading.Event) -> None:
        while not stopped.wait(PAUSE_SECONDS):
            try:
                self.sweep(stopped.is_set)
            except Exception as error:  # noqa: BLE001 - the next round tries again
                _log.error("the state cannot be cleaned up at present: %s", error_text(error))

    def sweep(self, is_stopped: Callable[[], bool] = lambda: False) -> None:
        """Deletes everything that is due.

        Raises:
            StateError: the store fails.
        """
        now, keep = self._clock(), self._settings
        if keep.abandoned_days is not None:
            for tenant, items in self._older(SESSION, "created", now - keep.abandoned_days * _DAY):
                for item in items:
                    if is_stopped():
                        return
                    self._end(HostSession(item.name, tenant, number=item.number, **item.value))
        for kind, field, seconds, is_due in (
            (ANSWER, "since", keep.answer_hours * _HOUR, _is_always),
            (APPROVAL, "created", keep.approval_days * _DAY, partial(_is_decided, now)),
            (SESSION, "created", keep.session_days * _DAY, _has_ended),
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

    def _end(self, session: HostSession) -> None:
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
_STEP = (
    "seq",
    "time",
    "kind",
    "tool",
    "call_id",
    "agent",
    "args",
    "decision",
    "rules",
    "reasons",
    "errors",
    "status",
    "output",
    "answer",
    "approver",
    "why",
)


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
WITHDRAW = WireShape(call_id=WireField(str), why=WireField(str))
REFUSE = WireShape(call=_CALL, problem=WireField(str))
FINAL_ANSWER = WireShape(input=WireField(str), output=WireField(str), facts=WireField(dict, EMPTY, read_value))
APPROVAL_ANSWER = WireShape(
    choice=choice("approve", "reject", "edit"),
    version=WireField(int),
    args=WireField(dict, None, more={"type": "object"}),
    reason=WireField(str, ""),
    of=WireField(str, None),
)
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
        self.settings, self.tokens = settings, TokenDesk(tokens)
        self.policies = PolicyCatalogue(settings.policies)
        self.stores = ServerStores(settings)
        self.attachments = Attachments(self.stores.state)
        self.sessions = HostSessions(self.stores.state)
        self.candidates = CandidatePolicies(self.stores.state, self.policies, settings.policies)
        self.guards = GuardCache(self.policies, self.candidates, self.stores, self.attachments, self.sessions)
        self.log = LogQueries(self.stores.log, self.stores.log_address)
        self.repeated = RepeatedRequests(self.stores.state)
        outbox = WebhookOutbox(self.stores.state, settings.webhooks)
        self.approvals = ApprovalDesk(self.stores.state, outbox.add)
        self.webhooks = WebhookDelivery(outbox, self.approvals, settings.webhooks)
        self.history = PolicyHistory(self.stores.state)
        for name in settings.policies:
            self.history.note(name, self.policies.current(name))
        self.reports = PolicyReports(self.policies, self.history, self.candidates, self.log)
        self.workflows = WorkflowReports(settings.workflows, self.policies)
        self.retention = Retention(self.stores.state, settings.retention, self._finish)
        self.verdicts = Counter[tuple[str, str]]()
        self.runs = RunGuards(settings.agents, self.stores.log)

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
        attachment, content = read_attachment(request.body, request.caller.tenant)
        self.policies.settings(attachment.policy, request.caller.tenant)
        version = self.policies.current(attachment.policy)
        guard = self.guards.new(attachment, version)
        self.attachments.add(attachment, content)
        return {
            "id": attachment.id,
            "coverage": guard.coverage.lines(),
            "reads_messages": _reads_messages(version),
            "judges_answers": guard.judges_answers,
            "policy": attachment.policy,
            "policy_version": version.digest,
        }

    def open_session(self, request: ServiceRequest) -> JSON:
        """Opens a session, or returns the one that the caller has opened alike.

        Raises:
            InputError: the request is invalid, or names a user although the policy does not let the host do this.
            UnknownItemError: the tenant has no such attachment.
            RequestConflictError: another session has this id.
        """
        fields, caller = NEW_SESSION.read(request.body), request.caller
        name, user = fields["id"] or f"s_{request.identity()[:32]}", fields["on_behalf_of"]
        attachment = self.attachments.find(caller.tenant, fields["attachment"])
        policy = self.policies.settings(attachment.policy, caller.tenant)
        if user is not None and policy.principal != "host":
            raise WireError("on_behalf_of", "this policy does not let an agent's host name the user")
        digest = self.policies.current(attachment.policy).digest
        principal = _principal(caller, user)
        session = new_session(
            name, caller, attachment, digest, principal, self.candidates.chosen(caller.tenant, attachment.policy)
        )
        return {"id": self.sessions.open(session).id}

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
        with self.guards.with_state(session, fields["state"]):
            if record.status == "pending" or not same_facts:
                verdict = guard.before(requested)
            else:
                verdict = guard.resolve(requested, record.answer)
        if not same_facts:
            verdict = with_changed_facts(verdict)
        if record.status in ("approved", "edited") and verdict.label == 0 and same_facts:
            self.approvals.use(session.tenant, approval)
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

    def list_sessions(self, tenant: str, before: int | None = None, limit: int = 50) -> JSON:
        """Returns the newest sessions of a tenant."""
        page = self.sessions.page(tenant, before, limit)
        cursor = str(page[-1].number) if len(page) == limit else None
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
        }

    def show_approval(self, tenant: str, name: str) -> JSON:
        """Returns an approval.

        Raises:
            UnknownItemError: the tenant has no such approval.
        """
        record, version = self.approvals.read(tenant, name)
        return shown(name, version, record)

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

    def answer_approval(self, caller: Caller, name: str, body: Any) -> JSON:
        """Records the answer of an approver, who is the caller.

        Raises:
            InputError: the request is invalid.
            UnknownItemError: the tenant has no such approval.
            RequestConflictError: it has another version by now, or is decided.
            ForbiddenError: this approver may not decide on it.
        """
        version = APPROVAL_ANSWER.read(body, is_open=True)["version"]
        answer = read_approval({name: value for name, value in body.items() if name != "version"}, "")
        answer_approval, _ = self.approvals.answer(caller.tenant, name, answer, caller.id, version)
        entry = {"kind": "approval_answer", "approval": name, "choice": answer.choice, "by": caller.id}
        self.stores.log(caller.tenant).append({**entry, "reason": answer.reason, "status": answer_approval["status"]})
        return answer_approval

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

    def reload_policy(self, caller: Caller, tenant: str, name: str) -> JSON:
        """Loads the files of a policy again, for new sessions; sessions that have begun keep their version.

        Raises:
            InputError: the files are invalid; the current version stays in force.
            UnknownItemError: the tenant has no such policy.
        """
        self.policies.settings(name, tenant)
        earlier = self.policies.current(name).digest
        reloaded = self.policies.reload(name)
        version = reloaded.digest
        if version != earlier:
            change = {"kind": "policy", "name": name, "policy": version, "earlier": earlier, "by": caller.id}
            self.stores.log(tenant).append(change)
            self.history.note(name, reloaded)
        return {"name": name, "version": version, "changed": version != earlier}

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

    # --- internals

    def _session(self, request: ServiceRequest) -> tuple[HostSession, ToolGuard]:
        session = self.sessions.of_caller(request.caller, request.path["id"])
        return session, self.guards.of(session)

    def _judged(
        self, session: HostSession, guard: ToolGuard, call: HostCall, verdict: Verdict, proposed: str = ""
    ) -> JSON:
        if verdict.label and guard.claimed_calls.may_hold(call):
            raise LedgerError("; ".join(verdict.errors) or "the verdict cannot be recorded")
        in_flight = call.claim is not None and verdict.label == 0
        json: JSON = {"verdict": self._counted(session, verdict), "in_flight": in_flight}
        if verdict.decision is Decision.ESCALATE:
            rules = self.policies.settings(session.policy, session.tenant).approvals
            json["approval"] = self.approvals.request(session, call, verdict, rules, proposed)
        return json

    def _counted(self, session: HostSession, verdict: Verdict) -> JSON:
        """Counts a verdict for the metrics, and returns it as JSON."""
        self.verdicts[session.policy, str(verdict.decision)] += 1
        return write_verdict(verdict)

    def _finish(self, session: HostSession) -> HostSession:
        """Ends a session: closes it for calls, stores the verdict, and then deletes the history."""
        guard = self.guards.of(session)
        try:
            verdict = write_verdict(guard.claimed_calls.finish(session.conversation))
        except SessionEndedError:  # by a server that is about to store its verdict, or stored it
            session = self.sessions.read(session.tenant, session.id)
            if session.status == "open":
                raise RequestRunningError("another server is ending the session; try again") from None
            return session
        session = self.sessions.end(session, verdict)
        self.stores.ledger.end(session.conversation)
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


def _principal(caller: Caller, user: Mapping[str, Any] | None) -> JSON:
    """The principal of a session, as rules read it.

    Raises:
        InputError: the user is invalid, or of another tenant.
    """
    if user is None:
        return dict(_plain(caller.principal.value))
    principal = read_principal({"tenant": caller.tenant, **user}, place="on_behalf_of")
    assert principal is not None
    if principal.tenant != caller.tenant:
        raise InputError("'on_behalf_of' is of another tenant; expected a user of the caller's")
    return dict(_plain(principal.value))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value


def _reads_messages(version: Policies) -> bool:
    return version.sources is not None or version.asks_models


def _summary(session: HostSession) -> JSON:
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
        "args": _plain(event.args),
        "agent": event.agent,
        "status": event.status or "in flight",
        "output": _plain(event.output),
        "time": event.time,
    }
