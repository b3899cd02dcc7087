"""The lifecycle of calls that a server decides."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from guardagent._support.execution import Operation, Procedure, crash_denial, verdict_or_denial
from guardagent.enforcement.approval import (
    Approval,
    Approver,
    names_call,
    saw_other_facts,
    with_changed_facts,
    with_edits,
)
from guardagent.enforcement.calls import HostCall, Outcome
from guardagent.enforcement.lifecycle import Arguments, CallLifecycle, DeadlinePool, JudgedCall, await_future
from guardagent.enforcement.names import AcceptedTools, Aliases
from guardagent.enforcement.remote.client import POLL_SECONDS, JudgedByServer, SessionClient
from guardagent.enforcement.remote.guard import (
    HeldPermit,
    PermitExpiredError,
    RemoteConversation,
    RemoteConversations,
    ReviewerWait,
)
from guardagent.enforcement.wire import WireError, dumps, write_outcome
from guardagent.errors import GuardError, InputError, RemoteError
from guardagent.policy.views import host_text
from guardagent.types import Decision, Denial, Verdict, freeze, unchecked_verdict

_GRACE = 0.25  # seconds for which a caller waits longer than its request
_PAUSE = 1.0  # seconds between two questions about an approval, if the server does not wait
MAX_OUTPUT_BYTES = 2 * 1024 * 1024  # half of what a server accepts by default
_OTHER_CALL = "the answer does not name this call of {!r}: it is for another call, or for none"
_NOT_RECORDED = "an outcome has not reached the guard's server, and its call stays in flight: %s"
_log = logging.getLogger("guardagent")


@dataclass(frozen=True, slots=True)
class RemoteResult:
    """The result of a request: a verdict, and the permit and the call with the edits of the server's reviewers."""

    verdict: Verdict
    call: HostCall
    permit: HeldPermit | None = None


@dataclass(frozen=True, slots=True)
class RemoteLifecycle(CallLifecycle):
    """The phases of a guard's calls, each of which asks a server. No phase raises because of the server.

    Attributes:
        sessions: asks the server.
        conversations: the conversations of this process.
        names: the host's and the rules' names of tools.
        accepted: the accepted tools of servers of tools.
        pool: the threads that wait for the server.
        waits: the threads that wait for reviewers.
        seconds: the limit on each request, with its repetitions.
        approver: called by the guard itself; None if the host handles approvals.
        outcome_delay: how long an outcome waits for the next check; 0 to send each at once.
        ledger: names this guard's approval requests.
    """

    sessions: SessionClient
    conversations: RemoteConversations
    names: Aliases
    accepted: AcceptedTools
    pool: DeadlinePool
    waits: DeadlinePool
    seconds: float
    approver: Approver | None
    outcome_delay: float = 0.0
    ledger: str = "server"

    # --- verdicts

    def decide(self, call: HostCall) -> Procedure[Verdict]:
        return (yield from self._verdict(call, partial(self._decide, call)))

    def preview(self, call: HostCall) -> Procedure[Verdict]:
        return (yield from self._verdict(call, partial(self._decide, call, reserve=False)))

    def views(self, call: HostCall) -> Mapping[str, str]:
        """Returns the host's own view; the server shows that of the policy."""
        text = host_text(self.sessions.facts.views, call.tool, call.args)
        return {"host": text} if text else {}

    def refuse(self, call: HostCall, problem: str) -> Procedure[Verdict]:
        def work(deadline: float) -> RemoteResult:
            conversation = self.conversations.of(call.conversation)
            verdict = self.sessions.refuse(conversation, call, problem, deadline)
            if verdict.label == 0:
                raise RemoteError("the guard's server allowed a call that was refused here")
            return RemoteResult(verdict, call)

        verdict = yield from self._verdict(call, work)
        return verdict if verdict.label else unchecked_verdict(problem, checked_by="policy")

    def resolve_approval(self, call: HostCall, approval: Approval) -> Procedure[Verdict]:
        return (yield from self._verdict(call, partial(self._resolve, call, approval)))

    def record_host_request(self, call: HostCall) -> Procedure[Verdict]:
        """Notes the request here: it lifts no rule, so the server has nothing to approve."""

        def work(_: float) -> RemoteResult:
            self.conversations.of(call.conversation).host_requests.add(call.digest)
            return RemoteResult(Verdict(Decision.ALLOW, checked_by="policy"), call)

        return (yield from self._verdict(call, work))

    def ask_approver(self, call: HostCall, verdict: Verdict, approver: Approver) -> Procedure[JudgedCall]:
        if not isinstance(approver, ReviewerWait):
            # zero-argument super() does not work in a dataclass with slots
            return (yield from CallLifecycle.ask_approver(self, call, verdict, approver))
        seconds = approver.seconds + self.seconds
        work = partial(self._wait_for_reviewers, call, approver.seconds)
        result = yield from self._run(call, work, self.waits, seconds)
        if result.verdict.decision is Decision.ESCALATE:
            why = "; ".join((f"no reviewer answered within {approver.seconds:g} s", *result.verdict.reasons))
            return unchecked_verdict(why, checked_by="policy"), call
        return result.verdict, result.call

    def answer_run(
        self, conversation: str, agent_input: str, output: str, facts: Arguments | None
    ) -> Procedure[Verdict]:
        """Judges the agent's final answer."""
        ended = HostCall("", {}, conversation)

        def work(deadline: float) -> RemoteResult:
            known = self.conversations.of(conversation)
            return RemoteResult(self.sessions.answer(known, (agent_input, output), facts or {}, deadline), ended)

        result = yield from self._run(ended, work, self.pool, self.seconds)
        return result.verdict.changed(denial=Denial())

    # --- a call that was allowed

    def timeout(self, call: HostCall) -> float | None:
        return self.conversations.of(call.conversation).permits.timeout(call)

    def use(self, call: HostCall, args: Arguments | None = None) -> Procedure[dict[str, Any]]:
        yield from ()  # the permit is here
        conversation = self.conversations.of(call.conversation)
        try:
            return conversation.permits.use(call, args)
        except PermitExpiredError as error:
            self._withdraw_later(conversation, call, error.permit.server_id, "its permit expired before it was used")
            raise

    def after(self, call: HostCall, outcome: Outcome) -> Procedure[None]:
        if not outcome.ended:
            return  # it stays in flight, here and on the server
        attached = self.sessions.attached
        waits = self.outcome_delay > 0 and attached is not None and attached.takes_outcomes

        def work(deadline: float) -> RemoteResult:
            conversation = self.conversations.of(call.conversation)
            permit = conversation.permits.take(call, used=True)
            body = {"call_id": permit.server_id, "outcome": sendable_outcome(outcome)}
            self._pending(conversation, "record", body)
            if waits:
                self._send_soon(conversation)
            else:
                self.sessions.send_pending(conversation, deadline)
            return RemoteResult(Verdict(Decision.ALLOW), call)

        if waits:
            _log_errors(verdict_or_denial(lambda: work(0).verdict))
        else:
            yield from self._recorded(call, work)

    def withdraw(self, call: HostCall, why: str, *, used: bool = False) -> Procedure[None]:
        def work(deadline: float) -> RemoteResult:
            conversation = self.conversations.of(call.conversation)
            permit = conversation.permits.take(call, used=used)
            self._pending(conversation, "withdraw", {"call_id": permit.server_id, "why": why})
            self.sessions.send_pending(conversation, deadline)
            return RemoteResult(Verdict(Decision.ALLOW), call)

        yield from self._recorded(call, work)

    def _recorded(self, call: HostCall, work: Callable[[float], RemoteResult]) -> Procedure[None]:
        result = yield from self._run(call, work, self.pool, self.seconds)
        _log_errors(result.verdict)

    def _send_soon(self, conversation: RemoteConversation) -> None:
        """Sends the outcomes that no check takes along in time, from a thread for which the interpreter waits."""
        if not conversation.sends_soon:
            conversation.sends_soon = True
            timer = threading.Timer(self.outcome_delay, self._send_in_time, [conversation])
            timer.daemon = False
            timer.start()

    def _send_in_time(self, conversation: RemoteConversation) -> None:
        conversation.sends_soon = False  # before the look at what is pending: what comes later needs a timer
        self.flush(conversation)

    def flush(self, conversation: RemoteConversation) -> None:
        """Sends what is pending in a conversation. Never raises: the next request sends what cannot be sent now."""
        if conversation.pending:
            send = partial(self.sessions.send_pending, conversation, time.monotonic() + self.seconds)
            _quietly(send, _NOT_RECORDED)

    # --- requests, in a thread of the pool

    def _decide(self, call: HostCall, deadline: float, *, reserve: bool = True) -> RemoteResult:
        if (late := self.accepted.unaccepted(call.tool)) is not None:
            denial = unchecked_verdict(late.problem, checked_by="policy")
            return RemoteResult(replace(denial, details={"difference": late.difference}), call)
        conversation = self.conversations.of(call.conversation)
        request = partial(self.sessions.check, conversation, call, deadline, reserve=reserve)
        return self._judged(conversation, call, request, reserve=reserve)

    def _judged(
        self,
        conversation: RemoteConversation,
        call: HostCall,
        request: Callable[[], JudgedByServer],
        *,
        reserve: bool = True,
    ) -> RemoteResult:
        """Judges a call on the server. Takes its permit, or notes the approval that it waits for."""
        server_id = conversation.server_id(call.id) if isinstance(call.id, str) else ""
        try:
            judged = _placed(request()) if reserve else request()
        except RemoteError as error:
            if reserve and error.uncertain:  # the server may have allowed it
                conversation.spent[call.id] += 1
                self._withdraw_later(conversation, call, server_id, "its verdict never arrived")
            raise
        if judged.approval is not None:
            conversation.approvals[call.digest] = judged.approval
        if not reserve or judged.verdict.label:
            return RemoteResult(judged.verdict, call)
        conversation.spent[call.id] += 1
        edited = call if judged.args is None else replace(call, args=judged.args)
        permit = HeldPermit(call.tool, edited.args, server_id, judged.timeout)
        if (problem := _edit_problem(call, edited)) is not None:
            self._withdraw_later(conversation, call, server_id, problem)
            raise InputError(problem)
        conversation.permits.add(call.id, permit)
        return RemoteResult(judged.verdict, edited, permit)

    def _resolve(self, call: HostCall, approval: Approval, deadline: float) -> RemoteResult:
        conversation = self.conversations.of(call.conversation)
        if (approval.choice != "reject" or approval.of is not None) and not names_call(approval.of, call):
            raise InputError(_OTHER_CALL.format(call.tool))
        if approval.choice == "approve" and saw_other_facts(approval.of, call):
            result = self._decide(call, deadline)
            return replace(result, verdict=with_changed_facts(result.verdict))
        name = self._approval_of(conversation, call, deadline)
        if approval.choice == "reject":
            return self._reject(conversation, call, approval, name, deadline)
        if name is None:  # no rule asks for an approval
            return self._decide(with_edits(call, approval), deadline)
        if self.sessions.approver_token is not None:
            self.sessions.answer_approval(name, approval, deadline)
        request = partial(self.sessions.resolve, conversation, call, name, deadline)
        return self._judged(conversation, call, request)

    def _approval_of(self, conversation: RemoteConversation, call: HostCall, deadline: float) -> str | None:
        """Returns the id of the approval of a call, which another process may have requested."""
        known = conversation.approvals.get(call.digest)
        if known is None and call.digest not in conversation.host_requests:
            self._decide(call, deadline, reserve=False)
            known = conversation.approvals.get(call.digest)
        return known

    def _reject(
        self, conversation: RemoteConversation, call: HostCall, approval: Approval, name: str | None, deadline: float
    ) -> RemoteResult:
        reason = f"a reviewer rejected this call{f': {approval.reason}' if approval.reason else ''}"
        denial = RemoteResult(Verdict(Decision.DENY, reasons=(reason,), checked_by="policy"), call)
        try:
            if name is not None and self.sessions.approver_token is not None:
                self.sessions.answer_approval(name, approval, deadline)
            else:
                self.sessions.refuse(conversation, call, reason, deadline)
        except GuardError as error:
            _log.error("a rejection has not reached the guard's server: %s", error)
        return denial

    def _wait_for_reviewers(self, call: HostCall, seconds: float, deadline: float) -> RemoteResult:
        conversation = self.conversations.of(call.conversation)
        until, name, answered = time.monotonic() + seconds, conversation.approvals.get(call.digest), None
        if name is None:
            raise RemoteError("the guard's server named no approval that the call could wait for")
        while answered != name:  # an edit may need an approval of its own
            answered = name
            self._wait_for_answer(name, until)
            request = partial(self.sessions.resolve, conversation, call, name, deadline)
            result = self._judged(conversation, call, request)
            if result.verdict.decision is not Decision.ESCALATE:
                break
            name = conversation.approvals[call.digest]
        return result

    def _wait_for_answer(self, name: str, until: float) -> None:
        while (left := until - time.monotonic()) > 0:
            began = time.monotonic()
            try:
                wait = min(POLL_SECONDS, left)
                status, _ = self.sessions.approval_status(name, began + wait + self.seconds, wait)
            except RemoteError as error:
                if error.status is not None and not error.retried:
                    raise
                status = "pending"  # the server is gone for a while; the wait goes on
            if status != "pending":
                break
            time.sleep(max(0.0, min(_PAUSE - (time.monotonic() - began), until - time.monotonic())))

    # --- what the server has to learn later

    def _withdraw_later(self, conversation: RemoteConversation, call: HostCall, server_id: str, why: str) -> None:
        _log.warning("call %r of %r is withdrawn: %s", call.id, call.tool, why)
        self._pending(conversation, "withdraw", {"call_id": server_id, "why": why})
        work = partial(self.sessions.send_pending, conversation, time.monotonic() + self.seconds)
        with contextlib.suppress(RuntimeError):  # otherwise the next request of the conversation sends it
            self.pool.submit(partial(_quietly, work, "the guard's server has not been told yet: %s"))

    @staticmethod
    def _pending(conversation: RemoteConversation, operation: str, body: dict[str, Any]) -> None:
        if not conversation.add_pending(operation, body):
            _log.error("too many requests wait for the guard's server; the oldest is lost, and its call is in flight")

    # --- waiting

    def _verdict(self, call: HostCall, work: Callable[[float], RemoteResult]) -> Procedure[Verdict]:
        result = yield from self._run(call, work, self.pool, self.seconds)
        return result.verdict

    def _run(
        self, call: HostCall, work: Callable[[float], RemoteResult], pool: DeadlinePool, seconds: float
    ) -> Procedure[RemoteResult]:
        """Runs a request in a thread, and denies the call if there is no result. Never raises an Exception."""
        try:
            future = pool.submit(partial(work, time.monotonic() + seconds))
        except RuntimeError as error:
            return self._denied(call, str(error))
        wait = seconds + _GRACE
        try:
            result: RemoteResult = yield Operation(partial(future.result, wait), partial(await_future, future, wait))
        except (GuardError, RecursionError) as error:
            return self._denied(call, str(error) or type(error).__name__)
        except TimeoutError:
            future.add_done_callback(partial(self._drop_late, call))
            return self._denied(call, f"the guard's server did not answer within {seconds:g} s")
        except Exception as error:  # noqa: BLE001 - as everywhere, a crash denies
            return RemoteResult(crash_denial(error), call)
        except BaseException:  # cancelled
            future.add_done_callback(partial(self._drop_late, call))
            raise
        return replace(result, verdict=self._described(result.call, result.verdict))

    def _denied(self, call: HostCall, problem: str) -> RemoteResult:
        _log.error("call %r of %r: %s", call.id, call.tool, problem)
        return RemoteResult(self._described(call, unchecked_verdict(problem, checked_by="policy")), call)

    def _described(self, call: HostCall, verdict: Verdict) -> Verdict:
        """The verdict with the call, for its message to the model."""
        return verdict.changed(denial=Denial(self.names.resolve(call.tool), freeze(call.args)))

    def _drop_late(self, call: HostCall, done: Future[RemoteResult]) -> None:
        """Withdraws a call that was allowed after its caller had stopped waiting."""
        try:
            permit = None if done.cancelled() or done.exception() is not None else done.result().permit
            if permit is None:
                return
            conversation = self.conversations.of(call.conversation)
            conversation.permits.remove(call.id, permit)
            self._withdraw_later(conversation, call, permit.server_id, "its verdict came too late")
        except Exception as error:  # noqa: BLE001 - the call stays in flight, which allows nothing
            _log.error("a call whose verdict came too late stays in flight: %s", error)


def _placed(judged: JudgedByServer) -> JudgedByServer:
    if judged.verdict.label == 0 and not judged.in_flight:
        raise RemoteError("the guard's server allowed the call, but has no place for it", uncertain=True)
    return judged


def _edit_problem(call: HostCall, edited: HostCall) -> str | None:
    """Returns why the arguments that a reviewer has edited do not fit the tool; None if they fit."""
    if edited is call or call.validate_edit is None:
        return None
    try:
        fits = freeze(call.validate_edit(edited.args)) == edited.args
    except Exception as error:  # noqa: BLE001 - a host's validation
        return f"the edited arguments do not fit: {error}"
    return None if fits else "the edited arguments do not fit: the tool would get others; expected all of them"


def sendable_outcome(outcome: Outcome) -> dict[str, Any]:
    """Returns an outcome as JSON; without its output if that is too large."""
    written = write_outcome(outcome)
    try:
        dumps(written, MAX_OUTPUT_BYTES)
    except WireError as error:
        _log.warning("an outcome is sent without its output, so it counts as unknown: %s", error)
        return write_outcome(Outcome(None, failed=outcome.failed or None))
    return written


def _quietly(work: Callable[[], None], problem: str) -> None:
    try:
        work()
    except GuardError as error:
        _log.error(problem, error)


def _log_errors(recorded: Verdict) -> None:
    for error in recorded.errors:
        _log.error(_NOT_RECORDED, error)
