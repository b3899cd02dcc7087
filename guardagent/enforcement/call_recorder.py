"""Records verdicts, permits and outcomes in the conversation and in the log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from guardagent._support.execution import combine
from guardagent.enforcement.audit_records import AuditRecords
from guardagent.enforcement.calls import HostCall, Outcome
from guardagent.enforcement.conversations import Conversation, Conversations
from guardagent.enforcement.names import Names
from guardagent.types import Decision, Verdict, unchecked_verdict

if TYPE_CHECKING:
    from guardagent.policy.evaluation.monitor_interface import CallStatus
    from guardagent.session.state import Permit

_log = logging.getLogger("guardagent")

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
        """Records a verdict in the conversation and the log. Returns a denial if it cannot be written."""
        return self.log_verdict(call, self.note_verdict(call, verdict), kind)

    def note_verdict(self, call: HostCall, verdict: Verdict) -> Verdict:
        """Notes a verdict in its conversation, for all processes. Marks the one that exhausts the agent's replans."""
        self.share_denied_id(call, verdict)
        return self.note_here(call, verdict)

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
        """Notes a verdict in its conversation in this process; see `note_verdict`."""
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
                failed = any(session.status_of(one, failed=False) == "failed" for one in outcome.other_outputs)
                status = session.status_of(outcome.output, failed or outcome.failed)
                session.record(outcome.output, failed or outcome.failed, permit)
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


def gave_up(verdict: Verdict) -> bool:
    """Whether the agent used up its replans, so that control returns to the user."""
    return bool(verdict.details.get("gave_up"))
