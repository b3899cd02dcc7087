"""The thread pool for work with a deadline."""

from __future__ import annotations

import asyncio
import contextvars
import threading

import pytest

from guardagent.enforcement.lifecycle import MAX_WAITING, DeadlinePool, await_future
from tests.processes import is_true_in_child


def test_hung_work_occupies_only_its_thread() -> None:
    """While all threads hang, new work is refused; when one ends, work is accepted again."""
    pool, release = DeadlinePool(2), threading.Event()
    hung = [pool.submit(release.wait) for _ in range(2)]
    with pytest.raises(RuntimeError, match="2 checks are running"):
        pool.submit(lambda: 1)
    release.set()
    assert [future.result(5) for future in hung] == [True, True]
    while True:  # a thread becomes idle only after its result is set
        try:
            assert pool.submit(lambda: 1).result(5) == 1
            break
        except RuntimeError:
            continue


def test_some_work_waits_for_a_thread() -> None:
    """Not without limit."""
    pool, release = DeadlinePool(2), threading.Event()
    hung = [pool.submit(release.wait) for _ in range(2)]
    waiting = [pool.submit(lambda at=at: at, waits=True) for at in range(MAX_WAITING)]  # type: ignore[misc]
    with pytest.raises(RuntimeError, match="2 checks are running"):
        pool.submit(lambda: 1, waits=True)
    release.set()
    assert [future.result(5) for future in (*hung, *waiting)] == [True, True, *range(MAX_WAITING)]


def test_threads_are_reused() -> None:
    """A thousand tasks in sequence use few threads."""
    pool = DeadlinePool()
    names = {pool.submit(lambda: threading.current_thread().ident).result(5) for _ in range(1000)}
    assert len(names) < 10


def test_work_sees_the_context_of_its_caller() -> None:
    """A rule's function can read the host's context variables."""
    variable = contextvars.ContextVar("variable", default="none")
    variable.set("mine")
    assert DeadlinePool().submit(variable.get).result(5) == "mine"


def test_exceptions_are_passed_on() -> None:
    """The future raises the exception of the work, even SystemExit."""

    def leaves() -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        DeadlinePool().submit(leaves).result(5)


def test_a_fork_has_threads_of_its_own() -> None:
    """A child process does not inherit the parent's threads, so the pool starts new ones."""
    pool = DeadlinePool()
    pool.submit(lambda: None).result(5)
    assert is_true_in_child(lambda: pool.submit(lambda: 7).result(5) == 7)


def test_a_cancellation_is_not_lost_when_the_work_ends() -> None:
    """Python 3.11's `asyncio.wait_for` may lose a cancellation that coincides with the result; this pool does not."""

    async def main() -> bool:
        pool, release = DeadlinePool(), threading.Event()
        future = pool.submit(release.wait)
        task = asyncio.create_task(await_future(future, 5))
        await asyncio.sleep(0)
        release.set()
        future.result(5)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            return True
        return False

    assert asyncio.run(main())
