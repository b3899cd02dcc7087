"""The lifecycle of a call in any host: before, approve, use, run, after.

Each phase is a generator of steps, which `drive` runs synchronously and `adrive` asynchronously. A phase yields only
where it has to wait.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from guardagent._support.procedures import Operation, Procedure, drive
from guardagent.enforcement.approval import Approval, ApprovalRequest, Approver, with_edits
from guardagent.enforcement.approvers import aask, ask
from guardagent.enforcement.call_recorder import CallRecorder
from guardagent.enforcement.calls import HostCall, Outcome
from guardagent.enforcement.conversations import WaitState
from guardagent.enforcement.deadline import await_future
from guardagent.enforcement.decisions import Decider
from guardagent.enforcement.telemetry import TRACE, span
from guardagent.enforcement.time_limit import TimeLimit, Work
from guardagent.errors import InputError, SessionBusyError, ToolDenied
from guardagent.types import Decision, Verdict, unchecked_verdict

MAX_REQUESTS = 3  # approval requests per call: an edited call may need approval again

_BUSY = "another check of the conversation is running; the call may not run"
_log = logging.getLogger("guardagent")

Arguments = Mapping[str, Any]
ReadOutcome = Callable[[Any], Outcome]
JudgedCall = tuple[Verdict, HostCall]
"""A verdict, and the call with the reviewer's edits."""


class PermitVoidError(ToolDenied):
    """The permit of an allowed call is void, so that it may not run."""


@dataclass(frozen=True, slots=True)
class CallLifecycle:
    """The phases of a guard's calls.

    Attributes:
        decider: decides on calls.
        recorder: records verdicts and outcomes.
        time_limit: limits the time of both.
        approver: called by the guard itself; None if the host handles approvals.
        own: whether using a permit runs no code of the host.
        shared: whether other processes continue the same conversations, so that using a permit may have to wait.
        ledger: the name of the ledger of approval requests.
    """

    decider: Decider
    recorder: CallRecorder
    time_limit: TimeLimit
    approver: Approver | None
    own: bool
    shared: bool
    ledger: str

    def run(
        self,
        call: HostCall,
        execute: Callable[[Arguments], Any],
        outcome: ReadOutcome = Outcome,
        judged: Procedure[JudgedCall] | None = None,
    ) -> Procedure[Any]:
        """Takes a call from its proposal to its outcome.

        Args:
            call: the proposed call.
            execute: runs the tool with the judged arguments; `adrive` awaits its result.
            outcome: see `execute`.
            judged: see `authorize`.

        Raises:
            ToolDenied: the call may not run; carries the verdict.
        """
        call, args = yield from self.authorize(call, judged)
        work = partial(execute, args)
        return (yield from self.execute(call, Operation(work, work), outcome))

    def authorize(
        self, call: HostCall, judged: Procedure[JudgedCall] | None = None
    ) -> Procedure[tuple[HostCall, dict[str, Any]]]:
        """Judges a call and uses its permit. Returns the call as it may run, and the judged arguments.

        Args:
            call: the proposed call.
            judged: gives the verdict in hosts that have their own approval mechanism.

        Raises:
            ToolDenied: the call may not run; PermitVoidError if it was allowed.
        """
        verdict, call = yield from (self.judge(call) if judged is None else judged)
        if verdict.label:
            raise ToolDenied(call.tool, verdict)
        try:
            return call, (yield from self.use(call))
        except InputError as error:
            raise PermitVoidError(call.tool, unchecked_verdict(str(error), checked_by="policy")) from None

    def execute(
        self,
        call: HostCall,
        work: Operation,
        outcome: Callable[[Any], Outcome | None] = Outcome,
        failure: Callable[[BaseException], Outcome | None] = Outcome.of_error,
    ) -> Procedure[Any]:
        """Runs a tool, records its outcome and returns its output.

        Errors of the tool pass through: an Exception is recorded as a failure, and an interrupted call stays in
        flight.

        Args:
            call: a call whose permit is used.
            work: runs the tool.
            outcome: maps the tool's result to the call's outcome; None if the call has not ended.
            failure: maps the tool's error to the call's outcome; None if the call has not ended.
        """
        try:
            output = yield work
        except BaseException as error:
            if (failed := failure(error)) is not None:
                recorded = self.after(call, failed)
                if isinstance(error, Exception):
                    yield from recorded
                else:
                    drive(recorded)  # not awaited: the task is cancelled
            raise
        if (ended := outcome(output)) is not None:
            yield from self.after(call, ended)
        return output

    # --- before

    def before(self, call: HostCall) -> Procedure[Verdict]:
        """See `ToolGuard.before`."""
        verdict, _ = yield from self.judge(call)
        return verdict

    def judge(self, call: HostCall) -> Procedure[JudgedCall]:
        """Judges a call and asks the guard's own approver. Returns the verdict and the edited call."""
        with (span(call) if TRACE in sys.modules else None) or nullcontext() as check_span:
            verdict = yield from self.time_limit.run(call, partial(self.decider.decide, call), WaitState())
            for _ in range(MAX_REQUESTS):
                if verdict.decision is not Decision.ESCALATE or self.approver is None:
                    break
                request = self.request(call, verdict)
                approval = yield Operation(partial(ask, self.approver, request), partial(aask, self.approver, request))
                verdict, call = yield from self.apply_answer(call, approval)
            if check_span is not None:
                check_span.set_verdict(verdict)
        return verdict, call

    def apply_answer(self, call: HostCall, approval: Approval) -> Procedure[JudgedCall]:
        """Judges a call with a reviewer's answer. Returns the verdict and the call with the reviewer's edits."""
        approval = replace(approval, of=call.digest).validated(call.validate_edit)
        return (yield from self.resolve_approval(call, approval)), with_edits(call, approval)

    def preview(self, call: HostCall) -> Procedure[Verdict]:
        """See `ToolGuard.preview`."""
        return self.time_limit.run(call, partial(self.decider.preview, call))

    def refuse(self, call: HostCall, problem: str) -> Procedure[Verdict]:
        """See `ToolGuard.refuse`."""
        verdict = unchecked_verdict(problem, checked_by="policy")
        return self.time_limit.run(call, partial(self.decider.record, call, verdict), WaitState())

    # --- approve

    def request(self, call: HostCall, verdict: Verdict) -> ApprovalRequest:
        """See `ToolGuard.request`."""
        digest = f"{call.digest}.{self.ledger}"
        return ApprovalRequest(call.tool, call.args, verdict, str(call.conversation), call.id, call.agent, digest)

    def resolve(self, call: HostCall, answer: Any) -> Procedure[Verdict]:
        """See `ToolGuard.resolve`."""
        return self.resolve_approval(call, Approval.read(answer).validated(call.validate_edit))

    def resolve_approval(self, call: HostCall, approval: Approval) -> Procedure[Verdict]:
        """Judges a call with an approval whose edited arguments fit the tool."""
        return self.time_limit.run(call, partial(self.decider.resolve, call, approval), WaitState())

    def record_host_request(self, call: HostCall) -> Procedure[Verdict]:
        """See `ToolGuard.arecord_host_request`."""
        allowed = Verdict(Decision.ALLOW, checked_by="policy")
        return self.time_limit.run(call, lambda _: self.decider.request_approval(call, allowed))

    # --- use

    def use(self, call: HostCall, args: Arguments | None = None) -> Procedure[dict[str, Any]]:
        """See `ToolGuard.use`. Waits for another running check of the conversation."""
        seconds, pool = self.time_limit.seconds, self.time_limit.pool
        if self.shared:
            work: Callable[[], Arguments] = partial(self._use, call, args)
        else:
            use = self.recorder.use(call, args)
            if self.own:
                try:
                    return dict(use(timeout=0))
                except SessionBusyError:
                    use = partial(use, timeout=seconds)
            work = use
        try:
            if self.own:
                return dict((yield Operation(work, lambda: await_future(pool.submit(work), seconds))))
            future = pool.submit(work)
            return dict((yield Operation(partial(future.result, seconds), partial(await_future, future, seconds))))
        except (TimeoutError, RuntimeError):
            raise InputError(_BUSY) from None

    def _use(self, call: HostCall, args: Arguments | None) -> Arguments:
        return self.recorder.use(call, args)(timeout=self.time_limit.seconds)

    # --- a final answer

    def answer(self, call: HostCall) -> Procedure[Verdict]:
        """Judges a final answer as a step, and records it if it may pass. A reviewer cannot edit it."""
        verdict, judged = yield from self.judge(call)
        if verdict.label:
            return verdict
        if judged.args != call.args:
            yield from self.withdraw(judged, "a reviewer edited the answer")
            return unchecked_verdict(
                "a reviewer edited the answer; expected 'approve' or 'reject'", checked_by="policy"
            )
        try:
            yield from self.use(judged)
        except InputError as error:
            return unchecked_verdict(str(error), checked_by="policy")
        yield from self.after(judged, Outcome())
        return verdict

    # --- after

    def after(self, call: HostCall, outcome: Outcome) -> Procedure[None]:
        """See `ToolGuard.after`."""
        yield from self._record(call, partial(self.recorder.record_outcome, call, outcome))

    def withdraw(self, call: HostCall, why: str, *, used: bool = False) -> Procedure[None]:
        """See `ToolGuard.withdraw`."""
        yield from self._record(call, partial(self.recorder.withdraw, call, why, used))

    def _record(self, call: HostCall, work: Work) -> Procedure[None]:
        recorded = yield from self.time_limit.run(call, work)
        for error in recorded.errors:
            _log.error("an outcome was not recorded, and its call stays in flight: %s", error)
