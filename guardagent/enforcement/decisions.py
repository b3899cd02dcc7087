"""Decides on calls.

The rules decide on a call, or a reviewer's answer, or the reason why it cannot be judged at all. A call that another
program runs is settled in any process that shares the ledger.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from guardagent._support.execution import verdict_or_denial
from guardagent.enforcement.approval import Approval, names_call, saw_other_facts, with_changed_facts, with_edits
from guardagent.enforcement.calls import REPEATED_ID, REPEATS, RESOURCE, HostCall, Outcome
from guardagent.enforcement.conversations import CallRecorder, Conversation, Conversations, WaitState
from guardagent.enforcement.host_usage import ModelUsage
from guardagent.enforcement.ledger import Ledger, RecordedRequest
from guardagent.enforcement.ledger.history import REJECTED
from guardagent.enforcement.names import AcceptedTools, Names
from guardagent.enforcement.stops import Stops, stop_verdict, tools_of
from guardagent.errors import InputError, error_text
from guardagent.policy.dispatch import inner_call
from guardagent.policy.evaluation.monitor_interface import SessionCall
from guardagent.policy.policies import Policies
from guardagent.policy.views import HostView, host_text, view_for
from guardagent.session.calls import ClaimSettlement, HistoryChangedError
from guardagent.session.session import Session
from guardagent.types import EMPTY, Decision, Verdict, thaw, unchecked_verdict
from guardagent.types.values import SessionPrincipal, read_principal

_log = logging.getLogger("guardagent")


def gave_up(verdict: Verdict) -> bool:
    """Whether the agent used up its replans, so that control returns to the user."""
    return bool(verdict.details.get("gave_up"))


# --- decisions

_FACTS = "facts "  # no rule has a space in its id
MAX_RACES = 10  # attempts to judge a call while other calls are recorded between its verdict and its record

_NEVER_SAW = (
    "the host's messages show call {!r}, which this guard never saw, and a rule about {!r} looks at earlier calls; "
    "keep conversations with ToolGuard(ledger=SqliteLedger(...)), or restore this one with guard.restore(snapshot, key)"
)
NO_STOPS = "the rule {!r} has 'on_violation: halt_tool', and nothing could stop the tool; expected a stop_file"
_NAMES_NO_CALL = (
    "the answer does not name this call of {!r}: it is for another call, or for none; "
    'answer with {{"choice": "{}", "of": ...}}, where the value of "of" is the digest of the request'
)
_FOREIGN_REQUEST = (
    "the approval of {!r} was requested by another guard, which may have used it; have all processes share one "
    'ToolGuard(ledger=SqliteLedger(...)), or say approvals="this host\'s"'
)


@dataclass(frozen=True, slots=True)
class Decider:
    """Gives verdicts and records them.

    Attributes:
        policies: the rules.
        own: whether they are this package's policies, whose sessions are trusted to give permits.
        names: maps the host's tool names to the rules' names.
        accepted: the accepted tools of servers.
        facts: the host's facts, or a function that returns them for a call.
        conversations: the conversations with their sessions.
        ledger: stores the requested and used approvals.
        own_requests_only: whether an approval counts only if this ledger has a request for it.
        recorder: records the verdicts.
        stops: the calls that a person has stopped; None if nobody can.
        host_views: the host's functions that show calls to reviewers, by tool.
        principal: returns the present principal of a conversation; None if it does not change.
    """

    policies: Policies
    own: bool
    names: Names
    accepted: AcceptedTools
    facts: Mapping[str, Any] | Callable[[HostCall], Mapping[str, Any]]
    conversations: Conversations
    ledger: Ledger
    own_requests_only: bool
    recorder: CallRecorder
    stops: Stops | None = None
    host_views: Mapping[str, HostView] = field(default_factory=lambda: EMPTY)
    principal: Callable[[str], Mapping[str, Any] | None] | None = None

    def decide(self, call: HostCall, wait: WaitState | None) -> Verdict:
        """Decides on a call that is about to run."""
        call, verdict = self._judged(call, self._judge_and_halt)
        return self.record(call, verdict, wait)

    def preview(self, call: HostCall, wait: WaitState | None) -> Verdict:
        """Decides on a call ahead of time. Only an escalation is recorded."""
        call, verdict = self._judged(call, partial(self._judge, reserve=False))
        return self.record(call, verdict, wait) if verdict.decision is Decision.ESCALATE else verdict

    def resolve(self, call: HostCall, approval: Approval, wait: WaitState | None) -> Verdict:
        """Decides on a call that a reviewer has answered."""
        if self.recorder.records is not None:
            self.recorder.records.approval(call, approval)
        call, verdict = self._judged(call, lambda call: self._judge_answer(call, approval))
        return self.record(with_edits(call, approval), verdict, wait, edited=call)

    def _judged(self, call: HostCall, judge: Callable[[HostCall], Verdict]) -> tuple[HostCall, Verdict]:
        """Judges a call with what its host knows by now. Returns the call, too. Every error denies."""

        def work() -> Verdict:
            nonlocal call
            call = self._with_usage(call if self.principal is None else self._with_current_roles(call, self.principal))
            return judge(call)

        verdict = verdict_or_denial(work)
        return call, verdict

    def _with_usage(self, call: HostCall) -> HostCall:
        """Returns a call with what models have used, if its host states it."""
        conversation = self.conversations.in_memory(call.conversation)
        usage: ModelUsage | None = None if conversation is None else conversation.notes.get(ModelUsage)
        if usage is None:
            return call
        session = self.conversations.current(call.conversation).session
        return replace(call, usage=usage.total(session.usage if self.own else None))

    def _with_current_roles(self, call: HostCall, read: Callable[[str], Mapping[str, Any] | None]) -> HostCall:
        """Returns a call without the roles that the principal has lost since the conversation began.

        Raises:
            InputError: the principal is unavailable, or another one.
        """
        known: SessionPrincipal | None = getattr(self.conversations.of(call.conversation).session, "principal", None)
        current = None if known is None else read_principal(read(str(call.conversation)))
        if known is None or current == known:
            return call
        if current is None or _identity(current) != _identity(known):
            raise InputError(
                f"the conversation began with the principal {known.id!r} of the tenant {known.tenant!r}, who is "
                "withdrawn, or acts for somebody else now"
            )
        left = (known.roles or frozenset()) & (current.roles or frozenset())
        if left == known.roles and call.principal is None:
            return call
        stated = {"id": known.id, "tenant": known.tenant, "roles": left} if call.principal is None else call.principal
        return replace(call, principal={**stated, "roles": sorted(left.intersection(stated.get("roles") or ()))})

    def record(
        self, call: HostCall, verdict: Verdict, wait: WaitState | None, edited: HostCall | None = None
    ) -> Verdict:
        """Records a verdict; `edited` is the call before the reviewer's edits."""
        if wait is not None and wait.expired:
            return verdict  # the caller has already denied the call
        if verdict.decision is Decision.ESCALATE:
            verdict = verdict_or_denial(partial(self.request_approval, call, verdict, edited))
        return self.recorder.record_verdict(call, verdict)

    def request_approval(self, call: HostCall, verdict: Verdict, edited: HostCall | None = None) -> Verdict:
        """Records an approval request in the ledger. Returns the verdict."""
        self.ledger.record_request(call, (*verdict.rules, *_facts_shown(call)), edited)
        return verdict

    # --- the rules

    def _judge_and_halt(self, call: HostCall) -> Verdict:
        """Judges a call that is about to run. Where it violates a rule with `halt_tool`, its tool is stopped.

        Raises:
            GuardError: the tool cannot be stopped.
        """
        verdict = self._judge(call)
        if not self.own or not verdict.label:
            return verdict
        policies = self._policies_of(self.conversations.known(call.conversation))
        broken = sorted(policies.tool_halts.intersection(verdict.rules))
        if not broken:
            return verdict
        if self.stops is None:
            raise InputError(NO_STOPS.format(broken[0]))
        tool, _ = inner_call(policies.dispatch, self.names.resolve(call.tool), call.args)
        stop = self.stops.halt_tool(call, tool, f"the rule {broken[0]!r} was violated")
        return replace(verdict, details={**verdict.details, "stop": stop.id})

    def _judge(self, call: HostCall, *, reserve: bool = True) -> Verdict:
        conversation = self.conversations.current(call.conversation)
        return self._precheck(conversation, call) or self._check(conversation, call, reserve=reserve)

    def _precheck(self, conversation: Conversation, call: HostCall) -> Verdict | None:
        """Denies a call that needs no rule to be denied. Otherwise takes over the host's messages and returns None.

        Raises:
            InputError: the call cannot be judged.
        """
        if not isinstance(call.id, str):
            raise InputError(f"the call's id is {call.id!r}; expected a string")
        if REPEATED_ID.search(call.id):
            return unchecked_verdict(REPEATS, checked_by="policy")
        if (stopped := self.stopped(call, conversation)) is not None:
            return stopped
        if (late := self.accepted.unaccepted(call.tool)) is not None:
            return replace(
                unchecked_verdict(late.problem, checked_by="policy"), details={"difference": late.difference}
            )
        if conversation.hung_checks:
            raise InputError(f"a check of conversation {conversation.id!r} exceeded its deadline and is still running")
        if (unseen := conversation.unseen_call(call)) is not None and self._looks_back(conversation, call):
            raise InputError(_NEVER_SAW.format(unseen, call.tool))
        if call.messages is not None:
            conversation.messages = call.messages
        return None

    def stopped(self, call: HostCall, conversation: Conversation | None = None) -> Verdict | None:
        """Returns the denial of a call that a person has stopped; None if nobody has."""
        if self.stops is None:
            return None
        policies = self._policies_of(conversation or self.conversations.known(call.conversation))
        return stop_verdict(self.stops, call, self.names, policies)

    def timeout(self, call: HostCall) -> float | None:
        """Returns the seconds for which the tool of a call may run, or one that it calls; None for any time."""
        policies = self.conversations.policies_of(call.conversation) or self.policies
        timeouts: Mapping[str, float] = getattr(policies, "timeouts", EMPTY)
        names = tools_of(call, self.names, policies) if timeouts else frozenset[str]()
        return min((seconds for name, seconds in timeouts.items() if name in names), default=None)

    def _check(self, conversation: Conversation, call: HostCall, *, reserve: bool = True) -> Verdict:
        """Checks a call and each alternate reading of it; denies the call if a reading is denied."""
        if call.tool != RESOURCE or _is_claimed(conversation, call):
            return self._check_reading(conversation, call, reserve=reserve)
        others = [self._check_reading(conversation, other, reserve=False) for other in call.alternate_readings()]
        refused = [verdict for verdict in others if verdict.label]
        if refused:
            itself = self._check_reading(conversation, call, reserve=False)
            worst = next((verdict for verdict in refused if verdict.decision is not Decision.ESCALATE), refused[0])
            if itself.decision <= Decision.DENY or worst.decision is not Decision.ESCALATE:
                return replace(worst, decision=Decision.DENY, grant=None)
        return self._check_reading(conversation, call, reserve=reserve)

    def _check_reading(self, conversation: Conversation, call: HostCall, *, reserve: bool) -> Verdict:
        facts, options = self._facts_of(call), self._options_of(conversation, call)
        tool = self.names.resolve(call.tool)
        for _ in range(MAX_RACES):
            try:
                verdict = conversation.session.check(
                    tool,
                    call.sealed if self.own and call.sealed is not None else call.args,
                    facts=facts or None,
                    action=call.action,
                    agent=call.agent,
                    reserve=reserve,
                    **options,
                )
                break
            except HistoryChangedError:
                conversation.session.catch_up()
        else:
            raise InputError("other processes kept adding to the conversation; propose the call again")
        for permit in conversation.session.lapsed() if self.own else ():
            self.recorder.expire(conversation, permit)
        ungranted = verdict.grant is None if self.own else isinstance(verdict, Verdict) and verdict.permit is None
        if reserve and ungranted and verdict.label == 0 and call.claim is None:
            raise InputError(f"{call.tool!r} was allowed without a permit; expected the verdict of a session")
        if verdict.decision is Decision.ESCALATE and not self._policies_of(conversation).can_be_approved(verdict):
            return replace(verdict, decision=Decision.DENY, grant=None)  # an approval would not help
        return verdict

    def _options_of(self, conversation: Conversation, call: HostCall) -> dict[str, Any]:
        """The options of a check that only some calls have."""
        options: dict[str, Any] = {"tags": call.tags} if call.tags else {}
        if conversation.journal is not None or (self.own and conversation.session.policies.shadow is not None):
            options["id"] = call.id
        if call.principal is not None:
            options["principal"] = call.principal
        if call.claim is not None:
            options |= {"id": call.id, "claim": call.claim}
        return options

    def _looks_back(self, conversation: Conversation, call: HostCall) -> bool:
        kind = SessionCall(self.names.resolve(call.tool), EMPTY).labelled(call.action, None, call.tags)
        return not self.own or self._policies_of(conversation).looks_back(kind)

    def _policies_of(self, conversation: Conversation) -> Policies:
        """The rules under which a conversation runs: their version, with those for its task."""
        return conversation.session.policies if self.own else self.policies

    def _facts_of(self, call: HostCall) -> Mapping[str, Any]:
        try:
            facts = self.facts(call) if callable(self.facts) else self.facts
        except Exception as error:  # noqa: BLE001 - a host's function
            _log.error("the facts of a call are unavailable: %s", error_text(error))
            raise InputError(
                f"the facts are unavailable: {type(error).__name__}"
            ) from None  # the model must not see the message
        for mapping in (facts, call.facts):
            if not isinstance(mapping, Mapping):
                raise InputError(f"the facts are a {type(mapping).__name__}; expected a mapping of names to values")
        return {**facts, **call.known_facts} if call.facts or call.usage is not None else facts

    # --- a person

    def views(self, call: HostCall) -> dict[str, str]:
        """Returns the call as its policy and the host show it to a reviewer, as text. Never raises."""
        views = {"policy": "", "host": host_text(self.host_views, call.tool, call.args)}
        try:
            session = self.conversations.known(call.conversation).session
            outer = getattr(session.policies, "dispatch", EMPTY)
            tool, args = inner_call(outer, self.names.resolve(call.tool), call.args)
            if (view := view_for(session.policies, tool)) is not None:
                views["policy"] = view.render(args, self._facts_of(call), session.history).text
        except Exception as error:  # noqa: BLE001 - the reviewer sees the arguments in any case
            views["policy"] = f"(the view failed: {type(error).__name__})"
        return {source: text for source, text in views.items() if text}

    def _judge_answer(self, call: HostCall, approval: Approval) -> Verdict:
        conversation = self.conversations.current(call.conversation)
        if _is_claimed(conversation, call):
            return self._check(conversation, with_edits(call, approval))
        if approval.choice == "reject":
            if approval.of is not None and not names_call(approval.of, call):
                raise InputError(_NAMES_NO_CALL.format(call.tool, "reject"))
            self.ledger.reject(call)
            reason = f"a reviewer rejected this call{f': {approval.reason}' if approval.reason else ''}"
            return Verdict(Decision.DENY, reasons=(reason,), checked_by="policy")
        shown = self._shown_request(call, approval)
        if (
            barred := self._precheck(conversation, call)
        ) is not None:  # the situation may have changed since the request
            return barred
        if approval.choice == "edit":
            self._require_not_rejected(with_edits(call, approval))
            verdict = self._check(conversation, with_edits(call, approval))
        elif approval.grant is not None:
            verdict = self._check(conversation, call)
        else:
            same_facts = not saw_other_facts(approval.of, call)
            same_facts &= shown is None or {*_facts_shown(call)} == {
                rule for rule in shown.rules if rule.startswith(_FACTS)
            }
            verdict = self._approve(conversation, call, shown, same_facts=same_facts)
        if verdict.label == 0:
            try:
                self.ledger.use(call)
            except Exception as error:
                self.recorder.revoke(with_edits(call, approval), verdict, error_text(error))
                raise
        return verdict

    def _require_not_rejected(self, edited: HostCall) -> None:
        """Requires that a host which repeats an edit does not reopen the request of the edited call.

        Raises:
            InputError: a reviewer rejected the edited call, or it was used before.
        """
        question = self.ledger.recorded_request(edited)
        if question is not None and question.rejected:
            raise InputError(REJECTED)

    def _shown_request(self, call: HostCall, approval: Approval) -> RecordedRequest | None:
        """Returns the recorded request that an approval answers; None if another guard requested it.

        Raises:
            InputError: the approval is for another call, or was used before.
        """
        ledger = (approval.of or "").partition(".")[2].partition("+")[0]
        if not names_call(approval.of, call):
            raise InputError(_NAMES_NO_CALL.format(call.tool, approval.choice))
        question = self.ledger.recorded_request(call)
        if question is not None and question.rejected:
            raise InputError(REJECTED)
        if (question is None or ledger not in ("", self.ledger.name)) and self.own_requests_only:
            raise InputError(_FOREIGN_REQUEST.format(call.tool))
        return question

    def _approve(
        self, conversation: Conversation, call: HostCall, shown: RecordedRequest | None, *, same_facts: bool
    ) -> Verdict:
        for _ in range(MAX_RACES):  # another call may be recorded in between
            verdict = self._check(conversation, call)
            if verdict.decision is not Decision.ESCALATE:
                return verdict
            if not same_facts:
                return with_changed_facts(verdict)
            if shown is not None and not set(verdict.rules) <= set(shown.rules):
                return verdict
            try:
                return conversation.session.approve(verdict)
            except InputError:
                continue
            except HistoryChangedError:
                conversation.session.catch_up()
        raise InputError("other calls kept coming between the approval and the call; approve it again")


def _identity(principal: SessionPrincipal | None) -> tuple[object, ...]:
    """Returns the ids and tenants of a principal and of those that it acts for."""
    return () if principal is None else (principal.id, principal.tenant, *_identity(principal.on_behalf_of))


def _facts_shown(call: HostCall) -> tuple[str, ...]:
    """Returns the mark of a call's facts, which is beside the rules in the record of a request."""
    return (f"{_FACTS}{call.facts_digest}",) if call.facts else ()


def _is_claimed(conversation: Conversation, call: HostCall) -> bool:
    """Whether a call that its program runs has a place in the history."""
    return call.claim is not None and conversation.session.claimed(call.id) is not None


# --- claimed calls


@dataclass(frozen=True, slots=True)
class ClaimRecorder:
    """Settles claimed calls by their ids.

    Attributes:
        conversations: the conversations with their sessions.
        recorder: has the log.
    """

    conversations: Conversations
    recorder: CallRecorder

    def record(self, conversation: str, call_id: str, outcome: Outcome) -> ClaimSettlement | None:
        """Records the outcome of a call, once; None if it has not ended and stays in flight.

        Raises:
            NotBegunError: the conversation has not begun.
            NotClaimedError: no call with this id was allowed.
            ClaimConflictError: the call has another outcome.
            GuardError: the ledger cannot be written.
        """
        session = self.conversations.known(conversation).session
        if not outcome.ended:
            return None
        status = session.status_of(outcome.output, outcome.failed, outcome.other_outputs)
        settled = session.settle_claimed(call_id, outcome.output, status == "failed" or outcome.failed)
        if self.recorder.records is not None and not settled.repeated:
            self.recorder.records.outcome(_host_call(conversation, settled), outcome.output, settled.status, None)
        return settled

    def withdraw(self, conversation: str, call_id: str, why: str) -> ClaimSettlement | None:
        """Withdraws a call that never ran; None if it was never allowed, and now never will be.

        Raises:
            ClaimConflictError: the call has an outcome.
            GuardError: the ledger cannot be written.
        """
        settled = self.conversations.current(conversation).session.withdraw_claimed(call_id, why)
        if settled is not None and self.recorder.records is not None and not settled.repeated:
            self.recorder.records.withdrawal(_host_call(conversation, settled), why, None)
        return settled

    def may_hold(self, call: HostCall) -> bool:
        """Whether a claimed call that was denied is in flight by this request, or may be once a late check ends."""
        if call.claim is None:
            return False
        conversation = self.conversations.of(call.conversation)
        if conversation.hung_checks:
            return True  # its session is locked
        session_call = conversation.session.claimed(call.id)
        return (
            session_call is not None
            and session_call.status is None
            and (session_call.claim or {}).get("request") == call.claim
        )

    def session(self, conversation: str) -> Session:
        """Returns the session of a conversation, with what other processes have added."""
        return self.conversations.current(conversation).session

    def finish(self, conversation: str) -> Verdict:
        """Closes a conversation for all processes, and returns and logs a verdict with its pending obligations.

        Raises:
            SessionEndedError: it has ended.
        """
        session = self.conversations.current(conversation).session
        session.close("the end of the conversation")
        return self.recorder.log_verdict(HostCall("", EMPTY, conversation), session.finish(), "end")


def _host_call(conversation: str, settled: ClaimSettlement) -> HostCall:
    call = settled.call
    tool, args = call.runs
    return HostCall(tool, thaw(args), conversation, call.id or "", call.agent)
