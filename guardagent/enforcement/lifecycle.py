"""The lifecycle of a call in any host: before, approve, use, run, after.

Each phase is a generator of steps, which `drive` runs synchronously and `adrive` asynchronously. A phase yields only
where it has to wait.

The phases that this process decides have a time limit. A late check denies its call, and its conversation stays closed
until the check ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import os
import queue
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NoReturn, TypeVar

from guardagent._support.execution import Operation, Procedure, crash_denial, drive, verdict_or_denial
from guardagent.enforcement.approval import Approval, ApprovalRequest, Approver, aask, ask, shown_digest, with_edits
from guardagent.enforcement.audit_records import TRACE, span
from guardagent.enforcement.calls import HostCall, Outcome
from guardagent.enforcement.conversations import CallRecorder, Conversation, WaitState
from guardagent.enforcement.decisions import Decider
from guardagent.enforcement.ledger.staging import staged
from guardagent.errors import GuardError, InputError, SessionBusyError, ToolDenied, ToolTimeoutError, error_text
from guardagent.types import Decision, Verdict, unchecked_verdict

# --- threads for work whose callers wait for a limited time; one whose work hangs is abandoned

T = TypeVar("T")

MAX_THREADS, MAX_WAITING = 64, 1000
_IDLE_SECONDS = 30.0


class DeadlinePool:
    """Runs work whose callers wait for a limited time.

    Hanging work keeps its thread. The pool refuses work when all threads hang. The threads end with the process.
    """

    def __init__(self, most: int = MAX_THREADS) -> None:
        self._most = most
        self._begin()

    def _begin(self) -> None:
        self._work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = self._idle = 0
        self._process = os.getpid()

    def submit(self, work: Callable[[], T], *, waits: bool = False) -> Future[T]:
        """Starts work in a copy of the caller's context.

        Args:
            work: the work.
            waits: whether it may begin later, when a thread ends its work.

        Raises:
            RuntimeError: all threads are busy, or too much work waits for them.
        """
        if self._process != os.getpid():  # a fork does not inherit the threads
            self._begin()
        future: Future[T] = Future()
        context = contextvars.copy_context()

        def do() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(context.run(work))
            except BaseException as error:  # noqa: BLE001 - raised for the waiting caller
                future.set_exception(error)

        with self._lock:
            if self._idle > 0 or (waits and self._threads == self._most and self._idle > -MAX_WAITING):
                self._idle -= 1  # below zero: the work that waits
            elif self._threads < self._most:
                threading.Thread(target=self._run, daemon=True, name="guardagent-check").start()
                self._threads += 1
            else:
                raise RuntimeError(f"{self._most} checks are running and none ends")
            self._work.put(do)
        return future

    def _run(self) -> None:
        while True:
            try:
                do: Any = self._work.get(timeout=_IDLE_SECONDS)
            except queue.Empty:
                with self._lock:
                    if self._work.empty():
                        self._threads -= 1
                        self._idle -= 1
                        return
                continue
            do()
            del do  # an idle thread keeps no conversation alive
            with self._lock:
                self._idle += 1


async def await_future(future: Future[T], seconds: float) -> T:
    """Awaits a future's result. Unlike `asyncio.wait_for`, it never swallows a cancellation of the task.

    Raises:
        TimeoutError: there is no result in time.
    """
    ours = asyncio.wrap_future(future)
    try:
        done, _ = await asyncio.wait({ours}, timeout=seconds)
    except BaseException:
        ours.cancel()
        raise
    if not done:
        ours.cancel()
        raise TimeoutError
    return ours.result()


class NotCancellableError(GuardError):
    """The policy limits the time of a tool that nothing can cancel here."""


def within_time(work: Operation, tool: str, seconds: float) -> Operation:
    """Returns work that is cancelled after some seconds. Nothing can cancel its sync form, which does not run."""

    def refuse() -> NoReturn:
        raise NotCancellableError(
            f"the policy lets {tool!r} run for {seconds:g} s, and a plain function cannot be cancelled; run it in an "
            "async host, or leave it out of 'timeouts'"
        )

    async def limited() -> Any:
        async with timed(tool, asyncio.get_running_loop().time() + seconds, seconds):
            return await work.async_call()

    return Operation(refuse, limited)


@contextlib.asynccontextmanager
async def timed(tool: str, until: float, seconds: float) -> AsyncIterator[None]:
    """Cancels what is awaited inside at a time of the event loop.

    Raises:
        ToolTimeoutError: it was cancelled.
    """
    limit = asyncio.timeout_at(until)
    try:
        async with limit:
            yield
    except Exception:  # or what the tool makes of its cancellation
        if limit.expired():
            raise ToolTimeoutError(tool, seconds) from None
        raise


async def within_events(events: AsyncIterator[T], tool: str, seconds: float | None) -> AsyncIterator[T]:
    """Yields the events of a tool, which is cancelled after some seconds; None for any time."""
    until = None if seconds is None else asyncio.get_running_loop().time() + seconds
    end = object()
    while True:
        if until is None or seconds is None:
            event: Any = await anext(events, end)
        else:
            async with timed(tool, until, seconds):
                event = await anext(events, end)
        if event is end:
            return
        yield event


_log = logging.getLogger("guardagent")

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
        """Runs the whole life of a call: judge, run, record.

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
        late: Callable[[ToolTimeoutError], Outcome] = Outcome.of_error,
    ) -> Procedure[Any]:
        """Runs a tool, records its outcome and returns its output.

        Errors of the tool pass through: an Exception is recorded as a failure, and an interrupted call stays in
        flight. A tool that runs longer than the policy lets it is cancelled, and its status is unknown.

        Raises:
            ToolTimeoutError: the tool was cancelled.
            ToolDenied: the policy limits the time of the tool, which nothing can cancel here; it has not run.

        Args:
            call: a call whose permit is used.
            work: runs the tool.
            outcome: maps the tool's result to the call's outcome; None if the call has not ended.
            failure: maps the tool's error to the call's outcome; None if the call has not ended.
            late: the same for a tool that was cancelled, where a host knows that it had not begun.
        """
        if (seconds := self.timeout(call)) is not None:
            work = within_time(work, call.tool, seconds)
        try:
            output = yield work
        except NotCancellableError as error:
            yield from self.withdraw(call, str(error), used=True)
            raise ToolDenied(call.tool, unchecked_verdict(str(error), checked_by="policy")) from None
        except ToolTimeoutError as error:
            yield from self.after(call, late(error))
            raise
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
        """Judges a call with the answer of the reviewer who was shown it, and returns the call with the edits.

        The answer need not name the call, but is refused if it names another one.
        """
        approval = replace(approval, of=call.digest if approval.of is None else approval.of)
        approval = approval.validated(call.validate_edit)
        return (yield from self.resolve_approval(call, approval)), with_edits(call, approval)

    # --- approve

    def request(self, call: HostCall, verdict: Verdict) -> ApprovalRequest:
        """See `ToolGuard.request`."""
        about = (str(call.conversation), call.id, call.agent, shown_digest(call, self.ledger))
        return ApprovalRequest(call.tool, call.args, verdict, *about, call.facts, self.views(call))

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
    def views(self, call: HostCall) -> Mapping[str, str]:
        """Returns the views of a call for its reviewer, as `ApprovalRequest.views`. Never raises."""

    @abstractmethod
    def timeout(self, call: HostCall) -> float | None:
        """Returns the seconds for which the tool of a call may run; None if the policy does not limit them."""

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


# --- the time limit

Work = Callable[[WaitState | None], Verdict]


@dataclass(slots=True)
class TimeLimit:
    """Runs checks within a time limit.

    Attributes:
        recorder: records the denial of a call whose check did not end, and revokes a call that was allowed too late.
        pool: the threads that run the checks.
        seconds: the limit.
        inline: whether the caller's thread runs the check, as it does for a staged operation; the pool would cost ten
            times as much as the check.
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
        if self.inline or staged() is not None:
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
        has_begun = self.recorder.conversations.in_memory(call.conversation) is not None
        if has_begun:
            verdict = verdict_or_denial(partial(self.recorder.note_here, call, verdict))
        with contextlib.suppress(RuntimeError):  # recorded, but no caller waits for it: ledger and principal may hang
            self.pool.submit(partial(self._record_late, call, verdict, has_begun), waits=True)
        return verdict

    def _record_late(self, call: HostCall, verdict: Verdict, is_noted: bool) -> Verdict:  # noqa: FBT001
        try:
            if not is_noted:
                verdict = self.recorder.note_here(call, verdict)
            self.recorder.share_denied_id(call, verdict)
        except Exception as error:  # noqa: BLE001 - the host's code that begins a conversation can raise anything
            _log.error("other processes do not know of a denied call: %s", error_text(error))
        return self.recorder.log_verdict(call, verdict)

    def _abandon(self, call: HostCall, future: Future[Verdict], wait: WaitState | None) -> None:
        """Stops waiting for a check. Until it ends, its conversation is closed; a call that it allows does not run."""
        if wait is not None:
            wait.expired = True
            if future.cancel():
                return  # the check had not begun
        conversation = self.recorder.conversations.in_memory(call.conversation)
        if conversation is not None:  # else its beginning hangs, which each check waits for
            conversation.count_hung_checks(+1)
        future.add_done_callback(lambda done: self._end_late(call, conversation, done))

    def _end_late(self, call: HostCall, conversation: Conversation | None, done: Future[Verdict]) -> None:
        try:
            if not done.cancelled() and done.result().permit is not None:
                self.recorder.revoke(call, done.result(), "its check did not end in time")
        except Exception as error:  # noqa: BLE001 - the call stays in flight, which allows nothing
            _log.error("a call whose check ended too late stays in flight: %s", error)
        if conversation is not None:
            conversation.count_hung_checks(-1)


def _run_safely(work: Work, wait: WaitState | None) -> Verdict:
    """Runs a check in a pool thread, where even SystemExit is raised by a rule and denies."""
    try:
        return work(wait)
    except Exception as error:  # noqa: BLE001 - as above
        return crash_denial(error)
    except BaseException as error:  # noqa: BLE001 - SystemExit, for one
        return unchecked_verdict(error_text(error), checked_by="policy")


# --- the lifecycle

_BUSY = "another check of the conversation is running; the call may not run"


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

    def timeout(self, call: HostCall) -> float | None:
        return self.decider.timeout(call)

    def preview(self, call: HostCall) -> Procedure[Verdict]:
        return self.time_limit.run(call, partial(self.decider.preview, call))

    def views(self, call: HostCall) -> Mapping[str, str]:
        return self.decider.views(call)

    def refuse(self, call: HostCall, problem: str) -> Procedure[Verdict]:
        verdict = unchecked_verdict(problem, checked_by="policy")
        return self.time_limit.run(call, partial(self.decider.record, call, verdict), WaitState())

    def resolve_approval(self, call: HostCall, approval: Approval) -> Procedure[Verdict]:
        return self.time_limit.run(call, partial(self.decider.resolve, call, approval), WaitState())

    def record_host_request(self, call: HostCall) -> Procedure[Verdict]:
        allowed = Verdict(Decision.ALLOW, checked_by="policy")
        return self.time_limit.run(call, lambda _: self.decider.request_approval(call, allowed))

    def use(self, call: HostCall, args: Arguments | None = None) -> Procedure[dict[str, Any]]:
        used = yield from self._used(call, args)
        if (stopped := self.decider.stopped(call)) is not None:  # last, as using a permit may have to wait
            yield from self.withdraw(call, stopped.reasons[0], used=True)
            raise InputError(stopped.reasons[0])
        return used

    def _used(self, call: HostCall, args: Arguments | None) -> Procedure[dict[str, Any]]:
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
