"""The conversations of a guard, and the records of their calls. Each has one session, which sub-agents share."""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from guardagent._support.execution import combine
from guardagent.enforcement.audit_records import AuditRecords
from guardagent.enforcement.calls import HostCall, Outcome
from guardagent.enforcement.names import Names
from guardagent.errors import InputError
from guardagent.policy.language.values import seconds_of
from guardagent.session.calls import SessionEndedError
from guardagent.session.session import Session
from guardagent.types import Decision, Permit, Verdict, unchecked_verdict
from guardagent.types.values import SessionPrincipal, read_principal

if TYPE_CHECKING:
    from guardagent.enforcement.ledger.history import ConversationJournal
    from guardagent.policy.evaluation.monitor_interface import CallStatus

_log = logging.getLogger("guardagent")

Resolve = Callable[[str], str]
Begin = Callable[[str, Callable[[], Sequence[Mapping[str, Any]]]], tuple[Session, "ConversationJournal | None"]]


@dataclass(slots=True, weakref_slot=True)
class Conversation:
    """One conversation.

    Attributes:
        session: judges its calls.
        messages: the messages that the host last showed.
        lock: held while the fields below change; never while a rule is evaluated.
        call_ids: the host's ids of all calls that were proposed here.
        open_permits: call id -> the permits of the calls in flight with this id.
        used_nonces: the nonces of the permits of calls that have started.
        replans: the number of consecutive model turns with denied calls.
        step: the last of these turns.
        hung_checks: the number of late checks that still run.
        shown_ids: the ids of the results in the host's last messages; the list only grows.
        confirmed: how many of them this guard has seen.
        process: the process in which it began; a fork lacks the later part of the history.
        notes: data of the host's adapter.
        restored: whether it comes from a snapshot, without the host's ids of its calls; the next messages show them.
        journal: the history shared with other processes; None if it is not shared.
    """

    id: str
    session: Session
    messages: Sequence[Mapping[str, Any]] = ()
    lock: threading.Lock = field(default_factory=threading.Lock)
    call_ids: set[str] = field(default_factory=set)
    open_permits: dict[str, list[Permit]] = field(default_factory=dict)
    used_nonces: set[str] = field(default_factory=set)
    replans: int = 0
    step: str | None = None
    hung_checks: int = 0
    notes: dict[Any, Any] = field(default_factory=dict)
    restored: bool = False
    shown_ids: Sequence[str] = ()
    confirmed: int = 0
    process: int = field(default_factory=os.getpid)
    journal: ConversationJournal | None = None

    def unseen_call(self, call: HostCall) -> str | None:
        """Returns the id of a call that the host's messages show and this guard never saw; None if there is none."""
        if call.seen is None:
            return None
        with self.lock:
            if self.restored:
                self.call_ids.update(call.seen)
                self.restored = False
            known = self.confirmed if call.seen is self.shown_ids else 0
            missing = [call_id for call_id in islice(call.seen, known, None) if call_id not in self.call_ids]
            if missing and self.journal is not None:
                unknown = self.journal.unknown_call_ids(missing)
                self.call_ids.update(call_id for call_id in missing if call_id not in unknown)
                missing = [call_id for call_id in missing if call_id in unknown]
            if not missing:
                self.shown_ids, self.confirmed = call.seen, len(call.seen)
            return missing[0] if missing else None

    def note_verdict(self, call: HostCall, verdict: Verdict, max_replans: int) -> bool:
        """Notes a verdict. Returns whether this denial exhausts the agent's replans."""
        with self.lock:
            if isinstance(call.id, str):
                self.call_ids.add(call.id)
            if verdict.label == 0:
                self.replans, self.step = 0, None
                if call.claim is None:
                    self.open_permits.setdefault(call.id, []).append(verdict.permit)
                return False
            if verdict.decision is Decision.ESCALATE:
                return False
            if call.step is None or call.step != self.step:
                self.replans += 1
            self.step = call.step
            return self.replans > max_replans

    def take_permit(self, call: HostCall, tool: Resolve) -> Permit:
        """Removes and returns the permit of a call whose outcome is recorded; `tool` resolves its name in the rules.

        Raises:
            InputError: no such call is in flight.
        """
        with self.lock:
            permit = self._permit(call, tool, used=True)
            self._close(call.id, permit)
            return permit

    def permit_in_flight(self, call: HostCall, tool: Resolve, *, used: bool = True) -> Permit:
        """Returns the permit of a call that stays in flight; `used` tells whether it has probably started."""
        with self.lock:
            return self._permit(call, tool, used=used)

    def id_of(self, permit: Permit) -> str:
        """Returns the host's id of a permit's call."""
        with self.lock:
            return next((call for call, permits in self.open_permits.items() if permit in permits), "")

    def return_permit(self, call: HostCall, permit: Permit) -> None:
        """Puts a permit back: its call stays in flight."""
        with self.lock:
            self.open_permits.setdefault(call.id, []).append(permit)

    def drop_permit(self, call_id: str, permit: Permit) -> None:
        """Removes the permit of an allowed call that will not run."""
        with self.lock:
            if permit in self.open_permits.get(call_id, ()):
                self._close(call_id, permit)

    def _close(self, call_id: str, permit: Permit) -> None:
        self.open_permits[call_id].remove(permit)
        self.used_nonces.discard(permit.nonce)
        if not self.open_permits[call_id]:
            del self.open_permits[call_id]

    def count_hung_checks(self, more: int) -> None:
        """Adds to the number of abandoned checks."""
        with self.lock:
            self.hung_checks += more

    def use_permit(self, call: HostCall, tool: Resolve) -> Permit:
        """Returns the permit of a call that is about to run, and marks the call as started.

        Raises:
            InputError: no such call is in flight.
        """
        with self.lock:
            permit = self._permit(call, tool, used=False)
            self.used_nonces.add(permit.nonce)
            return permit

    def _permit(self, call: HostCall, tool: Resolve, *, used: bool) -> Permit:
        """Returns the permit that fits a call best, and the newest of those: hosts reuse call ids."""
        permits = self.open_permits.get(call.id)
        if not permits:
            raise InputError(f"no call {call.id!r} is in flight in conversation {self.id!r}")
        if len(permits) == 1:
            return permits[0]

        name = tool(call.tool)

        def fits(permit: Permit) -> tuple[bool, ...]:
            return permit.tool == name, permit.args == call.args, (permit.nonce in self.used_nonces) is used

        return max(permits, key=lambda permit: (*fits(permit), permit.place))

    def start_turn(self) -> None:
        """Resets the replan counter after a new user message."""
        with self.lock:
            self.replans, self.step = 0, None


class NotBegunError(InputError):
    """No conversation with this id has begun."""


@dataclass(slots=True)
class WaitState:
    """Tells a check whether its caller still waits; `expired` once the caller took a late verdict for a denial."""

    expired: bool = False


class Conversations:
    """The conversations by id. A new id begins a conversation.

    Args:
        begin: creates the session of a conversation from its id and a function that returns its messages, with the
            journal of its history, if it has one.
        keeps_history: whether conversations have journals, so that one may have begun in another process.
    """

    def __init__(self, begin: Begin, *, keeps_history: bool) -> None:
        self._begin, self._keeps_history = begin, keeps_history
        self._lock = threading.Lock()
        self._known: dict[str, Conversation] = {}

    def of(self, name: Any) -> Conversation:
        """Returns the conversation with this id.

        Raises:
            InputError: the id is missing, or the conversation began in the parent of this forked process.
        """
        if not isinstance(name, str) or not name:
            raise InputError(
                f"the conversation's id is {name!r}; expected a string; the host must name the conversation"
            )
        conversation = self._known.get(name)
        if conversation is None:
            return self._begin_new(name)
        return conversation if conversation.process == os.getpid() else self._in_this_process(conversation)

    def is_new(self, name: Any) -> bool:
        """Whether a name is one that would begin a conversation."""
        return isinstance(name, str) and bool(name) and name not in self._known

    def in_memory(self, name: Any) -> Conversation | None:
        """Returns a conversation that this process has in memory; None if it has not."""
        conversation = self._known.get(name) if isinstance(name, str) else None
        return None if conversation is None or conversation.process != os.getpid() else conversation

    def current(self, name: Any) -> Conversation:
        """Returns a conversation with the entries that other processes have added; a new one if they ended it."""
        conversation = self.of(name)
        if conversation.journal is not None:
            try:
                conversation.session.catch_up()
            except SessionEndedError:
                self.drop(name)
                conversation = self.of(name)
                conversation.session.catch_up()
        return conversation

    def digest_of(self, name: str) -> str | None:
        """Returns the digest of the policy of a conversation; None if it has not begun here."""
        return getattr(self.policies_of(name), "digest", None)

    def policies_of(self, name: Any) -> Any:
        """Returns the policies of a conversation; None if it has not begun here."""
        conversation = self._known.get(name) if isinstance(name, str) else None
        return None if conversation is None else getattr(conversation.session, "policies", None)

    def _in_this_process(self, conversation: Conversation) -> Conversation:
        """Returns a conversation that the parent of this forked process has begun, if they share its history."""
        if conversation.journal is None:
            raise InputError(
                f"conversation {conversation.id!r} began in another process, which may have gone on with it; "
                "expected one of this process: take a snapshot there, and restore it here"
            )
        self.drop(conversation.id)
        return self._begin_new(conversation.id)

    def _begin_new(self, name: str) -> Conversation:
        shown = _ConversationMessages()
        session, journal = self._begin(name, shown)  # without the lock: it may wait for the ledger
        begun = Conversation(name, session, journal=journal)
        shown.conversation = weakref.ref(begun)
        with self._lock:
            return self._known.setdefault(name, begun)

    def known(self, name: Any) -> Conversation:
        """Returns a conversation that has begun.

        Raises:
            NotBegunError: no conversation with this id has begun.
        """
        is_known = isinstance(name, str) and name in self._known
        if is_known or (isinstance(name, str) and self._keeps_history):
            conversation = self.current(name)
            if is_known or conversation.session.sequence:
                return conversation
            self.drop(name)
        raise NotBegunError(f"no conversation {name!r} has begun here; expected the id of a conversation of this guard")

    def principal(self, name: Any, part: Mapping[str, Any] | None = None) -> Mapping[str, Any] | None:
        """Returns the principal of a conversation that has begun, or that of a call of it; None if there is none.

        Args:
            name: the id of the conversation.
            part: the principal of the call, as the host states it; it is returned as it is if it is invalid.
        """
        conversation = self._known.get(name) if isinstance(name, str) else None
        principal: SessionPrincipal | None = (
            None if conversation is None else getattr(conversation.session, "principal", None)
        )
        try:
            if principal is None:
                return part
            stated = read_principal(part)
            return (principal if stated is None else principal.narrowed(stated)).value
        except InputError:
            return part

    def check_time(self, name: Any) -> Mapping[str, Any] | None:
        """Returns the time of the last check of a conversation; None if it is unknown."""
        conversation = self._known.get(name) if isinstance(name, str) else None
        reading = (
            conversation.session.check_time
            if conversation is not None and isinstance(conversation.session, Session)
            else None
        )
        return None if reading is None else {"time": float(seconds_of(reading[0])), "zone": reading[1]}

    def put(self, conversation: Conversation) -> None:
        """Adds a restored conversation.

        Raises:
            InputError: a conversation of this id exists.
        """
        with self._lock:
            if conversation.id in self._known:
                raise InputError(f"conversation {conversation.id!r} has begun here already; it is not restored")
            self._known[conversation.id] = conversation

    def drop(self, name: str) -> None:
        with self._lock:
            self._known.pop(name, None)


class _ConversationMessages:
    """The messages of a conversation, for its session. It holds the conversation weakly: no cycle keeps both."""

    conversation: weakref.ref[Conversation] | None = None

    def __call__(self) -> Sequence[Mapping[str, Any]]:
        if self.conversation is None:  # it is beginning
            return ()
        conversation = self.conversation()
        if conversation is None:
            raise InputError("the conversation was dropped while a call of it was judged; propose the call again")
        return conversation.messages


# --- records

RECORDED = Verdict(Decision.ALLOW, checked_by="policy")


@dataclass(frozen=True, slots=True)
class CallRecorder:
    """Records verdicts, permits and outcomes.

    Attributes:
        conversations: the conversations with their sessions.
        names: maps the host's tool names to the rules' names.
        records: writes to the audit log; None without a log.
        max_replans: the number of consecutive model turns with denied calls after which control returns to the user.
        own_clock: whether the sessions have a clock or a zone of their own, which the log's times do not tell.
    """

    conversations: Conversations
    names: Names
    records: AuditRecords | None
    max_replans: int
    own_clock: bool = False

    # --- a verdict

    def record_verdict(self, call: HostCall, verdict: Verdict, kind: str = "verdict") -> Verdict:
        """Records a verdict in the conversation, for all processes, and in the log.

        Returns a denial if it cannot be written. Marks the verdict that exhausts the agent's replans.
        """
        if verdict.decision is not Decision.ALLOW:
            self.share_denied_id(call, verdict)
        verdict = self.note_here(call, verdict)
        return verdict if self.records is None else self.log_verdict(call, verdict, kind)

    def share_denied_id(self, call: HostCall, verdict: Verdict) -> None:
        """Tells other processes the id of a denied call, which the host's messages show. May wait for the ledger."""
        if not (
            verdict.label and isinstance(call.conversation, str) and call.conversation and isinstance(call.id, str)
        ):
            return
        journal = self.conversations.of(call.conversation).journal
        if journal is not None:
            journal.add_call_id(call.id)

    def note_here(self, call: HostCall, verdict: Verdict) -> Verdict:
        """Notes a verdict in its conversation in this process. Marks the one that exhausts the agent's replans."""
        if not (isinstance(call.conversation, str) and call.conversation):
            return verdict
        conversation = self.conversations.of(call.conversation)
        if conversation.note_verdict(call, verdict, self.max_replans):
            reason = f"{conversation.replans} turns in a row were denied; control returns to the user"
            details = {**verdict.details, "gave_up": True}
            verdict = replace(verdict, reasons=(*verdict.reasons, reason), details=details)
        return verdict

    def log_verdict(self, call: HostCall, verdict: Verdict, kind: str = "verdict", policy: str = "") -> Verdict:
        """Writes a verdict to the log. Returns a denial if it cannot be written."""
        error = None
        if self.records is not None:
            principal = self.conversations.principal(call.conversation, call.principal)
            now = self.conversations.check_time(call.conversation) if self.own_clock else None
            error = self.records.verdict(kind, call, verdict, principal, policy, now)
        if error is None:
            return verdict
        if verdict.label == 0 and verdict.grant is not None:
            self.revoke(call, verdict, "its verdict could not be written to the audit log")
        return combine(verdict, unchecked_verdict(f"the audit log cannot be written: {error}", checked_by="policy"))

    # --- a call that was allowed

    def use(self, call: HostCall, args: Mapping[str, Any] | None) -> Callable[..., Mapping[str, Any]]:
        """Marks a call as started. Returns the function that uses its permit."""
        tool, conversation = self.names.resolve(call.tool), self.conversations.current(call.conversation)
        return partial(conversation.session.use, conversation.use_permit(call, self.names.resolve), tool, args)

    def record_outcome(self, call: HostCall, outcome: Outcome, _wait: object = None) -> Verdict:
        """Records the outcome of a call.

        Raises:
            InputError: the call is not in flight.
        """
        conversation, tool = self.conversations.known(call.conversation), self.names.resolve
        permit = conversation.take_permit(call, tool) if outcome.ended else conversation.permit_in_flight(call, tool)
        status: CallStatus = "unknown"
        if outcome.ended:
            session = conversation.session
            try:
                status = session.status_of(outcome.output, outcome.failed, outcome.other_outputs)
                session.record(outcome.output, status == "failed" or outcome.failed, permit)
            except Exception:
                conversation.return_permit(call, permit)
                raise
        if self.records is not None:
            self.records.outcome(call, outcome.output, status, permit, ended=outcome.ended)
        return RECORDED

    def withdraw(self, call: HostCall, why: str, used: bool, _wait: object = None) -> Verdict:  # noqa: FBT001
        """Withdraws an allowed call that never runs.

        Raises:
            InputError: the call is not in flight, or may be running.
        """
        conversation = self.conversations.known(call.conversation)
        permit = conversation.permit_in_flight(call, self.names.resolve, used=used)
        conversation.session.withdraw(permit, why, never_ran=used)
        conversation.drop_permit(call.id, permit)
        self._log_withdrawal(call, why, permit)
        return RECORDED

    def revoke(self, call: HostCall, verdict: Verdict, why: str) -> None:
        """Withdraws an allowed call whose verdict never reached the host.

        A claimed call stays in flight: only the program that claimed it knows whether it runs.
        """
        if call.claim is not None:
            _log.error("call %r stays in flight until it is withdrawn: %s", call.id, why)
            return
        conversation, permit = self.conversations.of(call.conversation), verdict.permit
        conversation.drop_permit(call.id, permit)
        conversation.session.withdraw(permit, why)
        self._log_withdrawal(call, why, permit)

    def expire(self, conversation: Conversation, permit: Permit) -> None:
        """Records that a permit expired unused and its call was withdrawn."""
        call = HostCall(permit.tool, permit.args, conversation.id, conversation.id_of(permit))
        conversation.drop_permit(call.id, permit)
        self._log_withdrawal(call, "its permit expired before it was used", permit)

    def _log_withdrawal(self, call: HostCall, why: str, permit: Permit) -> None:
        if self.records is not None:
            self.records.withdrawal(call, why, permit)
