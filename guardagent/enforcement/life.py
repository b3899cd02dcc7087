"""One life of a call, whatever the host: before, approve, use, run, after.

Each is written once, as steps, which `drive` does without await and `adrive` with it. Nothing is yielded where nothing
has to be waited for.
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
from guardagent.enforcement.approval import Approval, ApprovalRequest, Approver, applied
from guardagent.enforcement.asking import aask, ask
from guardagent.enforcement.calls import HostCall, Outcome
from guardagent.enforcement.conversations import Waiting
from guardagent.enforcement.deadline import waited
from guardagent.enforcement.deciding import Deciding
from guardagent.enforcement.in_time import InTime, Work
from guardagent.enforcement.settling import Settling
from guardagent.enforcement.telemetry import TRACE, span
from guardagent.errors import InputError, SessionBusyError, ToolDenied
from guardagent.types import Decision, Verdict, unchecked_verdict

MAX_ASKED = 3  # a person who edits a call that needs approval again is asked again, so often

_BUSY = "another check of the conversation is under way; the call may not run"
_log = logging.getLogger("guardagent")

Arguments = Mapping[str, Any]
ReadOutcome = Callable[[Any], Outcome]
Judged = tuple[Verdict, HostCall]
"""A verdict, and the call as a person left it."""


class PermitVoidError(ToolDenied):
    """A call that was allowed may not run all the same: its permit is void."""


@dataclass(frozen=True, slots=True)
class Life:
    """The steps of a guard's calls.

    Attributes:
        deciding: gives verdicts.
        settling: keeps what comes of them.
        in_time: has both done in time.
        approver: whom the guard itself asks; None where that is left to the host.
        own: whether a permit is used without asking others' code.
        shared: whether other processes go on with the same conversations: then using a permit may have to wait.
        ledger: the name of the ledger that knows what was asked.
    """

    deciding: Deciding
    settling: Settling
    in_time: InTime
    approver: Approver | None
    own: bool
    shared: bool
    ledger: str

    def run(
        self,
        call: HostCall,
        execute: Callable[[Arguments], Any],
        outcome: ReadOutcome = Outcome,
        judged: Procedure[Judged] | None = None,
    ) -> Procedure[Any]:
        """A call from its proposal to its outcome.

        Args:
            call: what is proposed.
            execute: runs the tool with the arguments that were judged; what it gives is awaited by who drives with it.
            outcome: as of `ran`.
            judged: as of `permitted`.

        Raises:
            ToolDenied: the call may not run; with the verdict.
        """
        call, args = yield from self.permitted(call, judged)
        work = partial(execute, args)
        return (yield from self.ran(call, Operation(work, work), outcome))

    def permitted(
        self, call: HostCall, judged: Procedure[Judged] | None = None
    ) -> Procedure[tuple[HostCall, dict[str, Any]]]:
        """(the call as it may run, the arguments that were judged); its permit is used.

        Args:
            call: what is proposed.
            judged: gives the verdict where the host has a way of its own to ask a person.

        Raises:
            ToolDenied: it may not run; PermitVoidError where it was allowed.
        """
        verdict, call = yield from (self.judged(call) if judged is None else judged)
        if verdict.label:
            raise ToolDenied(call.tool, verdict)
        try:
            return call, (yield from self.use(call))
        except InputError as error:
            raise PermitVoidError(call.tool, unchecked_verdict(str(error), checked_by="policy")) from None

    def ran(
        self,
        call: HostCall,
        work: Operation,
        outcome: Callable[[Any], Outcome | None] = Outcome,
        failure: Callable[[BaseException], Outcome | None] = Outcome.of_error,
    ) -> Procedure[Any]:
        """Returns the output of a tool, once its outcome is recorded.

        What the tool raises passes through: an Exception is recorded as a failure, and a call that was interrupted
        stays in flight.

        Args:
            call: one whose permit is used.
            work: runs the tool.
            outcome: tells what came of the call from what the tool gives back; None where it is not over yet.
            failure: as `outcome`, from what the tool raises.
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
        verdict, _ = yield from self.judged(call)
        return verdict

    def judged(self, call: HostCall) -> Procedure[Judged]:
        """As `before`, with the call as the guard's own approver left it."""
        with (span(call) if TRACE in sys.modules else None) or nullcontext() as told:
            verdict = yield from self.in_time.done(call, partial(self.deciding.decided, call), Waiting())
            for _ in range(MAX_ASKED):
                if verdict.decision is not Decision.ESCALATE or self.approver is None:
                    break
                request = self.request(call, verdict)
                said = yield Operation(partial(ask, self.approver, request), partial(aask, self.approver, request))
                verdict, call = yield from self.answered(call, said)
            if told is not None:
                told.say(verdict)
        return verdict, call

    def answered(self, call: HostCall, said: Approval) -> Procedure[Judged]:
        """The verdict on a call that a person was shown and has answered, and the call as they left it."""
        said = replace(said, of=call.digest).readied(call.ready)
        return (yield from self.resolved(call, said)), applied(call, said)

    def preview(self, call: HostCall) -> Procedure[Verdict]:
        """See `ToolGuard.preview`."""
        return self.in_time.done(call, partial(self.deciding.previewed, call))

    def refuse(self, call: HostCall, problem: str) -> Procedure[Verdict]:
        """See `ToolGuard.refuse`."""
        verdict = unchecked_verdict(problem, checked_by="policy")
        return self.in_time.done(call, partial(self.deciding.kept, call, verdict), Waiting())

    # --- approve

    def request(self, call: HostCall, verdict: Verdict) -> ApprovalRequest:
        """See `ToolGuard.request`."""
        digest = f"{call.digest}.{self.ledger}"
        return ApprovalRequest(call.tool, call.args, verdict, str(call.conversation), call.id, call.agent, digest)

    def resolve(self, call: HostCall, said: Any) -> Procedure[Verdict]:
        """See `ToolGuard.resolve`."""
        return self.resolved(call, Approval.read(said).readied(call.ready))

    def resolved(self, call: HostCall, said: Approval) -> Procedure[Verdict]:
        """As `resolve`, of an answer that the tool could take."""
        return self.in_time.done(call, partial(self.deciding.resolved, call, said), Waiting())

    def host_asks(self, call: HostCall) -> Procedure[Verdict]:
        """See `ToolGuard.ahost_asks`."""
        allowed = Verdict(Decision.ALLOW, checked_by="policy")
        return self.in_time.done(call, lambda _: self.deciding.asked(call, allowed))

    # --- use

    def use(self, call: HostCall, args: Arguments | None = None) -> Procedure[dict[str, Any]]:
        """See `ToolGuard.use`. Another check of the conversation may be under way."""
        seconds, pool = self.in_time.seconds, self.in_time.pool
        if self.shared:
            work: Callable[[], Arguments] = partial(self._used, call, args)
        else:
            use = self.settling.use(call, args)
            if self.own:
                try:
                    return dict(use(timeout=0))
                except SessionBusyError:
                    use = partial(use, timeout=seconds)
            work = use
        try:
            if self.own:
                return dict((yield Operation(work, lambda: waited(pool.submit(work), seconds))))
            future = pool.submit(work)
            return dict((yield Operation(partial(future.result, seconds), partial(waited, future, seconds))))
        except (TimeoutError, RuntimeError):
            raise InputError(_BUSY) from None

    def _used(self, call: HostCall, args: Arguments | None) -> Arguments:
        return self.settling.use(call, args)(timeout=self.in_time.seconds)

    # --- after

    def after(self, call: HostCall, outcome: Outcome) -> Procedure[None]:
        """See `ToolGuard.after`."""
        yield from self._recorded(call, partial(self.settling.record, call, outcome))

    def withdraw(self, call: HostCall, why: str, *, used: bool = False) -> Procedure[None]:
        """See `ToolGuard.withdraw`."""
        yield from self._recorded(call, partial(self.settling.take_back, call, why, used))

    def _recorded(self, call: HostCall, work: Work) -> Procedure[None]:
        recorded = yield from self.in_time.done(call, work)
        for error in recorded.errors:
            _log.error("an outcome was not recorded, and its call stays in flight: %s", error)
