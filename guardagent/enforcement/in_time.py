"""A check that takes too long denies, and closes its conversation until it has ended."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial

from guardagent._support.fold import crash_denial, verdict_or_denial
from guardagent._support.procedures import Operation, Procedure
from guardagent.enforcement.calls import HostCall
from guardagent.enforcement.conversations import Conversation, Waiting
from guardagent.enforcement.deadline import DeadlinePool, waited
from guardagent.enforcement.settling import Settling
from guardagent.errors import InputError, error_text
from guardagent.types import Verdict, unchecked_verdict

Work = Callable[[Waiting | None], Verdict]
_log = logging.getLogger("guardagent")


@dataclass(frozen=True, slots=True)
class InTime:
    """Has work about calls done in time.

    Attributes:
        settling: keeps the denial of a call whose check did not end, and takes back one that was allowed too late.
        pool: where it is done.
        seconds: how long it may take.
        inline: whether the caller's thread does it: one of ours would take ten times as long as the check.
    """

    settling: Settling
    pool: DeadlinePool
    seconds: float
    inline: bool

    def done(self, call: HostCall, work: Work, waiting: Waiting | None = None) -> Procedure[Verdict]:
        """What some work gives, which does not raise; a denial where it takes too long.

        Args:
            call: what it is about.
            work: is told whether somebody waits for it.
            waiting: of a verdict; None where an outcome is recorded, which counts whenever it comes.
        """
        if self.inline:
            try:
                return work(waiting)
            except Exception as error:  # noqa: BLE001 - as everywhere, a crash denies
                return crash_denial(error)
        try:
            future = self.pool.submit(partial(_surely, work, waiting))
        except RuntimeError as error:
            return self._unchecked(call, str(error), waiting)
        try:
            verdict: Verdict = yield Operation(
                partial(future.result, self.seconds), partial(waited, future, self.seconds)
            )
        except TimeoutError:
            self._give_up(call, future, waiting)
            return self._unchecked(call, f"the check of {call.tool} took more than {self.seconds:g} s", waiting)
        except BaseException:
            self._give_up(call, future, waiting)
            raise
        return verdict

    def _unchecked(self, call: HostCall, problem: str, waiting: Waiting | None) -> Verdict:
        _log.error("%s; the call is denied", problem)
        verdict = unchecked_verdict(problem, checked_by="policy")
        if waiting is None:
            return verdict
        verdict = verdict_or_denial(partial(self.settling.counted, call, verdict))
        with contextlib.suppress(RuntimeError):  # it is written, but nobody waits for that
            self.pool.submit(partial(self.settling.written, call, verdict))
        return verdict

    def _give_up(self, call: HostCall, future: Future[Verdict], waiting: Waiting | None) -> None:
        """Nobody waits for a check any more: until it ends its conversation is closed; what it allows does not run."""
        if waiting is not None:
            waiting.over = True
            if future.cancel():
                return  # it had not begun
        with contextlib.suppress(InputError):
            conversation = self.settling.conversations.of(call.conversation)
            conversation.hang(+1)
            future.add_done_callback(lambda done: self._ended_late(call, conversation, done))

    def _ended_late(self, call: HostCall, conversation: Conversation, done: Future[Verdict]) -> None:
        try:
            if not done.cancelled() and done.result().permit is not None:
                self.settling.withdraw(call, done.result(), "its check did not end in time")
        except Exception as error:  # noqa: BLE001 - then it stays in flight, which allows nothing
            _log.error("a call whose check ended too late stays in flight: %s", error)
        conversation.hang(-1)


def _surely(work: Work, waiting: Waiting | None) -> Verdict:
    """In a thread of ours nobody interrupts: what ends the process elsewhere is a rule's, and denies."""
    try:
        return work(waiting)
    except Exception as error:  # noqa: BLE001 - as above
        return crash_denial(error)
    except BaseException as error:  # noqa: BLE001 - SystemExit, for one
        return unchecked_verdict(error_text(error), checked_by="policy")
