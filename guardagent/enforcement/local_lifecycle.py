"""The lifecycle of calls that this process decides."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from guardagent._support.execution import Operation, Procedure
from guardagent.enforcement.approval import Approval, Approver
from guardagent.enforcement.call_recorder import CallRecorder
from guardagent.enforcement.calls import HostCall, Outcome
from guardagent.enforcement.conversations import WaitState
from guardagent.enforcement.deadline import await_future
from guardagent.enforcement.decisions import Decider
from guardagent.enforcement.lifecycle import Arguments, CallLifecycle
from guardagent.enforcement.time_limit import TimeLimit, Work
from guardagent.errors import InputError, SessionBusyError
from guardagent.types import Decision, Verdict, unchecked_verdict

_BUSY = "another check of the conversation is running; the call may not run"
_log = logging.getLogger("guardagent")


@dataclass(frozen=True, slots=True)
class LocalLifecycle(CallLifecycle):
    """The phases of a guard's calls, with its own rules and conversations.

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

    def decide(self, call: HostCall) -> Procedure[Verdict]:
        return self.time_limit.run(call, partial(self.decider.decide, call), WaitState())

    def preview(self, call: HostCall) -> Procedure[Verdict]:
        return self.time_limit.run(call, partial(self.decider.preview, call))

    def refuse(self, call: HostCall, problem: str) -> Procedure[Verdict]:
        verdict = unchecked_verdict(problem, checked_by="policy")
        return self.time_limit.run(call, partial(self.decider.record, call, verdict), WaitState())

    def resolve_approval(self, call: HostCall, approval: Approval) -> Procedure[Verdict]:
        return self.time_limit.run(call, partial(self.decider.resolve, call, approval), WaitState())

    def record_host_request(self, call: HostCall) -> Procedure[Verdict]:
        allowed = Verdict(Decision.ALLOW, checked_by="policy")
        return self.time_limit.run(call, lambda _: self.decider.request_approval(call, allowed))

    def use(self, call: HostCall, args: Arguments | None = None) -> Procedure[dict[str, Any]]:
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

    def after(self, call: HostCall, outcome: Outcome) -> Procedure[None]:
        yield from self._record(call, partial(self.recorder.record_outcome, call, outcome))

    def withdraw(self, call: HostCall, why: str, *, used: bool = False) -> Procedure[None]:
        yield from self._record(call, partial(self.recorder.withdraw, call, why, used))

    def _record(self, call: HostCall, work: Work) -> Procedure[None]:
        recorded = yield from self.time_limit.run(call, work)
        for error in recorded.errors:
            _log.error("an outcome was not recorded, and its call stays in flight: %s", error)
