"""The time limit of a check: a late check denies its call, and its conversation stays closed until the check ends."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial

from guardagent._support.execution import Operation, Procedure, crash_denial, verdict_or_denial
from guardagent.enforcement.call_recorder import CallRecorder
from guardagent.enforcement.calls import HostCall
from guardagent.enforcement.conversations import Conversation, WaitState
from guardagent.enforcement.deadline import DeadlinePool, await_future
from guardagent.errors import GuardError, InputError, error_text
from guardagent.types import Verdict, unchecked_verdict

Work = Callable[[WaitState | None], Verdict]
_log = logging.getLogger("guardagent")


@dataclass(slots=True)
class TimeLimit:
    """Runs checks within a time limit.

    Attributes:
        recorder: records the denial of a call whose check did not end, and revokes a call that was allowed too late.
        pool: the threads that run the checks.
        seconds: the limit.
        inline: whether the caller's thread runs the check; the pool would cost ten times as much as the check.
    """

    recorder: CallRecorder
    pool: DeadlinePool
    seconds: float
    inline: bool

    def run(self, call: HostCall, work: Work, wait: WaitState | None = None) -> Procedure[Verdict]:
        """Runs a check and returns its verdict, or a denial if it takes too long. Never raises.

        Args:
            call: the call.
            work: the check; gets `wait`, which tells it whether the caller still waits.
            wait: of a verdict; None for an outcome, which counts whenever it is recorded.
        """
        if self.inline:
            try:
                return work(wait)
            except Exception as error:  # noqa: BLE001 - as everywhere, a crash denies
                return crash_denial(error)
        try:
            future = self.pool.submit(partial(_run_safely, work, wait))
        except RuntimeError as error:
            return self._unchecked(call, str(error), wait)
        try:
            verdict: Verdict = yield Operation(
                partial(future.result, self.seconds), partial(await_future, future, self.seconds)
            )
        except TimeoutError:
            self._abandon(call, future, wait)
            return self._unchecked(call, f"the check of {call.tool!r} took more than {self.seconds:g} s", wait)
        except BaseException:
            self._abandon(call, future, wait)
            raise
        return verdict

    def _unchecked(self, call: HostCall, problem: str, wait: WaitState | None) -> Verdict:
        _log.error("%s; the call is denied", problem)
        verdict = unchecked_verdict(problem, checked_by="policy")
        if wait is None:
            return verdict
        verdict = verdict_or_denial(partial(self.recorder.note_here, call, verdict))
        with contextlib.suppress(RuntimeError):  # it is recorded, but no caller waits for it, as the ledger may hang
            self.pool.submit(partial(self._record_late, call, verdict))
        return verdict

    def _record_late(self, call: HostCall, verdict: Verdict) -> Verdict:
        try:
            self.recorder.share_denied_id(call, verdict)
        except GuardError as error:
            _log.error("other processes do not know of a denied call: %s", error)
        return self.recorder.log_verdict(call, verdict)

    def _abandon(self, call: HostCall, future: Future[Verdict], wait: WaitState | None) -> None:
        """Stops waiting for a check. Until it ends, its conversation is closed; a call that it allows does not run."""
        if wait is not None:
            wait.expired = True
            if future.cancel():
                return  # the check had not begun
        with contextlib.suppress(InputError):
            conversation = self.recorder.conversations.of(call.conversation)
            conversation.count_hung_checks(+1)
            future.add_done_callback(lambda done: self._end_late(call, conversation, done))

    def _end_late(self, call: HostCall, conversation: Conversation, done: Future[Verdict]) -> None:
        try:
            if not done.cancelled() and done.result().permit is not None:
                self.recorder.revoke(call, done.result(), "its check did not end in time")
        except Exception as error:  # noqa: BLE001 - the call stays in flight, which allows nothing
            _log.error("a call whose check ended too late stays in flight: %s", error)
        conversation.count_hung_checks(-1)


def _run_safely(work: Work, wait: WaitState | None) -> Verdict:
    """Runs a check in a pool thread, where even SystemExit is raised by a rule and denies."""
    try:
        return work(wait)
    except Exception as error:  # noqa: BLE001 - as above
        return crash_denial(error)
    except BaseException as error:  # noqa: BLE001 - SystemExit, for one
        return unchecked_verdict(error_text(error), checked_by="policy")
