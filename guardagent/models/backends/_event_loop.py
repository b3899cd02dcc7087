"""One event loop, in a daemon thread, in which all model requests run.

The sync and async methods of a model share its client, its connections and their bound; and a caller that is cancelled
or interrupted ends its request, whatever thread or event loop it waited in.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_lock = threading.RLock()  # garbage collection of a model may need it while it is held
_loops: list[asyncio.AbstractEventLoop] = []  # at most one, created on demand


def submit(coroutine: Coroutine[Any, Any, T]) -> Future[T]:
    """Starts a coroutine in the background; cancelling the future cancels it."""
    return asyncio.run_coroutine_threadsafe(coroutine, _loop())


def wait(coroutine: Coroutine[Any, Any, T]) -> T:
    """Returns the result of a coroutine that runs in the background; an interrupt here cancels it there."""
    job = _CancellableJob(coroutine)
    try:
        return submit(job.run()).result()
    except BaseException:  # the job failed, or an interrupt
        job.cancel()
        raise


class _CancellableJob(Generic[T]):
    """A coroutine that can be cancelled at any time, even before it starts or its future exists."""

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._coroutine = coroutine
        self._task: asyncio.Task[Any] | None = None
        self._cancelled = False

    async def run(self) -> T:
        self._task = asyncio.current_task()
        if self._cancelled:
            self._coroutine.close()
            raise asyncio.CancelledError
        return await self._coroutine

    def cancel(self) -> None:
        self._cancelled = True
        _loop().call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()


def _loop() -> asyncio.AbstractEventLoop:
    with _lock:
        if not _loops:
            loop = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="guardagent-models", daemon=True).start()
            _loops.append(loop)
        return _loops[0]


def _reset_after_fork() -> None:
    """Drops the loop in a forked child, which does not inherit the thread."""
    global _lock  # noqa: PLW0603 - another thread may have held it
    _lock = threading.RLock()
    _loops.clear()


os.register_at_fork(after_in_child=_reset_after_fork)
