"""Settles calls that another program runs, in any process that shares the ledger."""

from __future__ import annotations

from dataclasses import dataclass

from guardagent.enforcement.call_recorder import CallRecorder
from guardagent.enforcement.calls import HostCall, Outcome
from guardagent.enforcement.conversations import Conversations
from guardagent.session.calls import ClaimSettlement
from guardagent.session.session import Session
from guardagent.types import Verdict, thaw


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
        failed = any(session.status_of(one, failed=False) == "failed" for one in outcome.other_outputs)
        settled = session.settle_claimed(call_id, outcome.output, failed or outcome.failed)
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
        found = conversation.session.claimed(call.id)
        return found is not None and found.status is None and (found.claim or {}).get("request") == call.claim

    def session(self, conversation: str) -> Session:
        """Returns the session of a conversation, with what other processes have added."""
        return self.conversations.current(conversation).session

    def finish(self, conversation: str) -> Verdict:
        """Closes a conversation for all processes, and returns a verdict with its pending obligations.

        Raises:
            SessionEndedError: it has ended.
        """
        session = self.conversations.current(conversation).session
        session.close("the end of the conversation")
        return session.finish()


def _host_call(conversation: str, settled: ClaimSettlement) -> HostCall:
    call = settled.call
    return HostCall(call.tool, thaw(call.args), conversation, call.id or "", call.agent)
