"""The lifecycle of a call in any host: before, approve, use, run, after.

Each phase is a generator of steps, which `drive` runs synchronously and `adrive` asynchronously. A phase yields only
where it has to wait.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

from guardagent._support.execution import Operation, Procedure, drive
from guardagent.enforcement.approval import Approval, ApprovalRequest, Approver, with_edits
from guardagent.enforcement.approvers import aask, ask
from guardagent.enforcement.calls import HostCall, Outcome
from guardagent.enforcement.telemetry import span
from guardagent.errors import InputError, ToolDenied
from guardagent.types import Decision, Verdict, unchecked_verdict

MAX_REQUESTS = 3  # approval requests per call: an edited call may need approval again


Arguments = Mapping[str, Any]
ReadOutcome = Callable[[Any], Outcome]
JudgedCall = tuple[Verdict, HostCall]
"""A verdict, and the call with the reviewer's edits."""


class PermitVoidError(ToolDenied):
    """The permit of an allowed call is void, so that it may not run."""


class CallLifecycle(ABC):
    """The phases of a guard's calls. A subclass decides on them and records them.

    Attributes:
        approver: called by the guard itself; None if the host handles approvals.
        ledger: the name of the ledger of approval requests.
    """

    __slots__ = ()
    approver: Approver | None
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
        with span(call) or nullcontext() as check_span:
            verdict = yield from self.decide(call)
            for _ in range(MAX_REQUESTS):
                if verdict.decision is not Decision.ESCALATE or self.approver is None:
                    break
                verdict, call = yield from self.ask_approver(call, verdict, self.approver)
            if check_span is not None:
                check_span.set_verdict(verdict)
        return verdict, call

    def ask_approver(self, call: HostCall, verdict: Verdict, approver: Approver) -> Procedure[JudgedCall]:
        """Asks the guard's approver about an escalated call, and judges the call with the answer."""
        request = self.request(call, verdict)
        approval = yield Operation(partial(ask, approver, request), partial(aask, approver, request))
        return (yield from self.apply_answer(call, approval))

    def apply_answer(self, call: HostCall, approval: Approval) -> Procedure[JudgedCall]:
        """Judges a call with a reviewer's answer. Returns the verdict and the call with the reviewer's edits."""
        approval = replace(approval, of=call.digest).validated(call.validate_edit)
        return (yield from self.resolve_approval(call, approval)), with_edits(call, approval)

    # --- approve

    def request(self, call: HostCall, verdict: Verdict) -> ApprovalRequest:
        """See `ToolGuard.request`."""
        digest = f"{call.digest}.{self.ledger}"
        return ApprovalRequest(call.tool, call.args, verdict, str(call.conversation), call.id, call.agent, digest)

    def resolve(self, call: HostCall, answer: Any) -> Procedure[Verdict]:
        """See `ToolGuard.resolve`."""
        return self.resolve_approval(call, Approval.read(answer).validated(call.validate_edit))

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

    # --- implemented where the call is decided

    @abstractmethod
    def decide(self, call: HostCall) -> Procedure[Verdict]:
        """Decides on a call by the rules, and records the verdict. Never raises."""

    @abstractmethod
    def preview(self, call: HostCall) -> Procedure[Verdict]:
        """See `ToolGuard.preview`."""

    @abstractmethod
    def refuse(self, call: HostCall, problem: str) -> Procedure[Verdict]:
        """See `ToolGuard.refuse`."""

    @abstractmethod
    def resolve_approval(self, call: HostCall, approval: Approval) -> Procedure[Verdict]:
        """Judges a call with an approval whose edited arguments fit the tool. Never raises."""

    @abstractmethod
    def record_host_request(self, call: HostCall) -> Procedure[Verdict]:
        """See `ToolGuard.arecord_host_request`."""

    @abstractmethod
    def use(self, call: HostCall, args: Arguments | None = None) -> Procedure[dict[str, Any]]:
        """See `ToolGuard.use`. May wait for another running check of the conversation."""

    @abstractmethod
    def after(self, call: HostCall, outcome: Outcome) -> Procedure[None]:
        """See `ToolGuard.after`."""

    @abstractmethod
    def withdraw(self, call: HostCall, why: str, *, used: bool = False) -> Procedure[None]:
        """See `ToolGuard.withdraw`."""
