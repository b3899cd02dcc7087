"""Runs jobs in the background: one at a time, in a thread that ends when the bounded queue is empty."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

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
