"""Threads for work whose callers wait for a limited time. A thread whose work hangs is abandoned."""

from __future__ import annotations

import asyncio
import contextvars
import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")

MAX_THREADS = 64
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

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Starts work in a copy of the caller's context.

        Raises:
            RuntimeError: all threads are busy.
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
            if self._idle:
                self._idle -= 1
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
