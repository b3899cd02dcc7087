"""The execution of checks and of jobs around them: folded verdicts, sync and async drivers, Ctrl-C, a worker thread.

Folded checks give the most severe verdict, and a check that crashes denies. A generator that yields operations has a
sync and an async driver. A Ctrl-C is preserved that a sandbox engine may swallow or turn into a verdict, which must not
be kept. Background jobs run one at a time, in a thread that ends when the bounded queue is empty.
"""

from __future__ import annotations

import contextlib
import gc
import signal
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator
from functools import partial, reduce
from types import FrameType, MappingProxyType
from typing import Any, NamedTuple, TypeVar

from guardagent.errors import GuardError, error_text
from guardagent.types import NO_USAGE, Check, Context, Decision, Event, Verdict, quick_verdict, unchecked_verdict

Request = TypeVar("Request")
Response = TypeVar("Response")


def fold(checks: Iterable[Check]) -> Check:
    """Combines checks into one that runs all of them; one that crashes denies. With no checks it denies.

    The verdict carries no time: the caller measures it.
    """
    all_checks = tuple(checks)

    def folded(event: Event, context: Context) -> Verdict:
        if not all_checks:
            return unchecked_verdict("no rule applies; expected at least one check")
        return reduce(combine, [verdict_or_denial(partial(check, event, context)) for check in all_checks])

    return folded


def deny_on_crash(check: Check) -> Check:
    """Turns any failure of a check into a denial with its cause: the outermost layer of every guard.

    The verdict carries the time that the check took.
    """

    def guarded(event: Event, context: Context) -> Verdict:
        return timed_verdict(lambda: check(event, context))

    return guarded


def timed_verdict(judge: Callable[[], object]) -> Verdict:
    """Returns the verdict of a call, or a denial if it fails, with the time that it took."""
    started = time.perf_counter()
    verdict = verdict_or_denial(judge)
    return verdict.timed((time.perf_counter() - started) * 1000)


def verdict_or_denial(judge: Callable[[], object]) -> Verdict:
    """Returns the verdict of a call; a denial if it raises or returns anything else."""
    try:
        answer = judge()
    except Exception as error:  # noqa: BLE001 - this is the layer that turns any crash into a denial
        return crash_denial(error)
    return answer if isinstance(answer, Verdict) else _as_verdict(answer)


def deny_on_crash_flow(flow: Generator[Request, Response, object]) -> Generator[Request, Response, Verdict]:
    """Turns any failure of a generator into a denial, like `deny_on_crash`."""
    started = time.perf_counter()
    try:
        verdict = _as_verdict((yield from flow))
    except Exception as error:  # noqa: BLE001 - as above
        verdict = crash_denial(error)
    return verdict.timed((time.perf_counter() - started) * 1000)


def _as_verdict(verdict: object) -> Verdict:
    if isinstance(verdict, Verdict):
        return verdict
    return unchecked_verdict(f"a check returned a {type(verdict).__name__}; expected a Verdict")


def crash_denial(error: BaseException) -> Verdict:
    """Returns the denial for an exception."""
    return unchecked_verdict(str(error) if isinstance(error, GuardError) else error_text(error))


def combine(first: Verdict, second: Verdict) -> Verdict:
    """Returns the more severe of two verdicts, with the reasons, violations, errors and details of both."""
    severe = max(first, second, key=lambda verdict: verdict.decision.severity)
    known = first.violations
    new = tuple([violation for violation in second.violations if violation not in known])
    repeated = bool(second.violations) and not new  # its reasons are included already
    return quick_verdict(
        severe.decision,
        first.reasons if repeated else tuple(dict.fromkeys(first.reasons + second.reasons)),
        known + new,
        first.errors + tuple([e for e in second.errors if not any(e in error for error in first.errors)]),
        MappingProxyType({**second.details, **first.details}),
        None if severe.decision > Decision.WARN else first.answer or second.answer,
        first.risk or second.risk,
        severe.checked_by,
        first.usage if second.usage is NO_USAGE else first.usage + second.usage,
        first.elapsed_ms + second.elapsed_ms,
        first.calls + second.calls,
        first.story + second.story,
        severe.grant,
        severe.denial or first.denial or second.denial,
    )


T = TypeVar("T")


class Operation(NamedTuple):
    """A call in its sync and its async form. Its exception is raised at the `yield`."""

    sync_call: Callable[[], Any]
    async_call: Callable[[], Awaitable[Any]]


Procedure = Generator[Operation, Any, T]


def drive(steps: Procedure[T]) -> T:
    """Runs each operation in turn and returns the generator's result."""
    advance: Callable[[], Operation] = partial(next, steps)
    thrown: BaseException | None = None
    while True:
        try:
            step = advance()
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]
        except RuntimeError as error:
            if isinstance(thrown, StopIteration) and error.__cause__ is thrown:
                raise thrown from None  # a generator cannot raise StopIteration itself
            raise
        try:
            advance = partial(steps.send, step.sync_call())
        except BaseException as error:  # noqa: BLE001 - the generator handles it
            advance, thrown = partial(steps.throw, error), error


async def adrive(steps: Procedure[T]) -> T:
    """Runs each operation in turn with await."""
    advance: Callable[[], Operation] = partial(next, steps)
    while True:
        try:
            step = advance()
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]
        try:
            advance = partial(steps.send, await step.async_call())
        except BaseException as error:  # noqa: BLE001 - as above
            advance = partial(steps.throw, error)


@contextlib.contextmanager
def remember() -> Iterator[Callable[[], None]]:
    """Gives a function that raises KeyboardInterrupt again if one occurred. A custom handler stays in place."""
    signals: list[int] = []

    def handler(number: int, frame: FrameType | None) -> None:
        signals.append(number)
        signal.default_int_handler(number, frame)

    def raise_if_interrupted() -> None:
        if signals:
            raise KeyboardInterrupt

    main_thread = threading.current_thread() is threading.main_thread()
    if not main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield raise_if_interrupted
        return
    signal.signal(signal.SIGINT, handler)
    try:
        yield raise_if_interrupted
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


Work = Callable[[], None]


class WorkerThread:
    """Runs jobs in their order.

    Args:
        capacity: the number of jobs that may wait; further ones are rejected.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._lock = threading.Lock()
        self._queue: deque[Work] = deque()
        self._thread: threading.Thread | None = None

    def submit(self, work: Work) -> bool:
        """Queues a job, which must not raise; returns False if the queue is full."""
        with self._lock:
            if len(self._queue) >= self._capacity:
                return False
            self._queue.append(work)
            if self._thread is None or not self._thread.is_alive():  # in a fork, the parent's thread is not alive
                self._thread = threading.Thread(target=self._run, daemon=True, name="guardagent-background")
                self._thread.start()
        return True

    def wait(self) -> None:
        """Waits until all jobs are done."""
        while (thread := self._thread) is not None and thread.is_alive():
            thread.join()

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._queue:
                    self._thread = None
                    return
                work = self._queue.popleft()
            work()


# --- memory


@contextlib.contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Disables garbage collection, which takes long while many objects come to stay, as those of a graph or policy."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
