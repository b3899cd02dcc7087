"""Work that must end in time."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading

import pytest

from guardagent.enforcement.deadline import DeadlinePool, await_future


def test_work_that_hangs_keeps_its_thread_and_no_other() -> None:
    """When all threads hang no more work is taken; when one ends, there is again."""
    pool, release = DeadlinePool(2), threading.Event()
    hung = [pool.submit(release.wait) for _ in range(2)]
    with pytest.raises(RuntimeError, match="2 checks are running"):
        pool.submit(lambda: 1)
    release.set()
    assert [future.result(5) for future in hung] == [True, True]
    while True:  # the threads say that they are idle after their results are known
        try:
            assert pool.submit(lambda: 1).result(5) == 1
            break
        except RuntimeError:
            continue


def test_threads_are_used_again() -> None:
    """A thousand pieces of work, one after the other, take few threads."""
    pool = DeadlinePool()
    names = {pool.submit(lambda: threading.current_thread().ident).result(5) for _ in range(1000)}
    assert len(names) < 10


def test_work_sees_the_context_of_its_caller() -> None:
    """So that a rule's function may look at the host's context variables."""
    variable = contextvars.ContextVar("variable", default="none")
    variable.set("mine")
    assert DeadlinePool().submit(variable.get).result(5) == "mine"


def test_what_is_raised_is_handed_over() -> None:
    """SystemExit, too."""

    def leaves() -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        DeadlinePool().submit(leaves).result(5)


def test_a_fork_has_threads_of_its_own() -> None:
    """The parent's do not exist in it."""
    pool = DeadlinePool()
    pool.submit(lambda: None).result(5)
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if pool.submit(lambda: 7).result(5) == 7 else 1)
        except BaseException:  # noqa: BLE001 - the child must never go on with the tests
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_cancelled_task_is_cancelled_though_the_work_has_ended() -> None:
    """`asyncio.wait_for` of Python 3.11 may lose a cancellation that comes together with the result."""

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
