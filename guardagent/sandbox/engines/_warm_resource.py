"""A resource that is costly to start: shared by all threads, and ended when idle."""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from guardagent.errors import SandboxError

T = TypeVar("T")

IDLE_SECONDS = 60.0


class WarmResource(Generic[T]):
    """Starts a resource at its first use; ends it when idle, with `close()`, and with the process.

    Args:
        start: starts it.
        stop: ends it.
        detach: releases it in a forked child, without ending the parent's; None if it does not survive a fork.
        idle_seconds: the time it is kept without use.
    """

    def __init__(
        self,
        start: Callable[[], T],
        stop: Callable[[T], None],
        *,
        detach: Callable[[T], None] | None = None,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self._start, self._stop, self._detach = start, stop, detach
        self.idle_seconds = idle_seconds
        self._lock = threading.Lock()
        self._resource: T | None = None
        self._started = False
        self._in_use = 0
        self._last_used = 0.0
        self._lost_in_fork = False
        atexit.register(self.close)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)

    @contextmanager
    def use(self) -> Iterator[T]:
        """Gives the resource for the duration of the block.

        Raises:
            SandboxError: this process is a fork of one that had started it.
        """
        resource = self._enter()
        try:
            yield resource
        finally:
            with self._lock:
                self._in_use -= 1
                self._last_used = time.monotonic()

    def close(self) -> None:
        """Ends the resource, or if it is in use, once it is idle."""
        with self._lock:
            if not self._in_use:
                self._stop_resource()

    def _enter(self) -> T:
        with self._lock:
            if self._lost_in_fork:
                raise SandboxError(
                    "this process was forked after its parent had used the sandbox, which does not survive a fork; "
                    "start worker processes with 'spawn', or fork before the first run"
                )
            if self._resource is None:
                self._resource = self._start()
                self._started = True
                threading.Thread(target=self._reap, args=(self._resource,), daemon=True, name="guardagent-idle").start()
            self._in_use += 1
            return self._resource

    def _reap(self, resource: T) -> None:
        while True:
            time.sleep(min(1.0, self.idle_seconds / 4))
            with self._lock:
                if self._resource is not resource:
                    return
                if not self._in_use and time.monotonic() - self._last_used >= self.idle_seconds:
                    self._stop_resource()
                    return

    def _stop_resource(self) -> None:
        resource, self._resource = self._resource, None
        if resource is not None:
            self._stop(resource)

    def _after_fork(self) -> None:
        """Drops the parent's workers, whose threads do not exist in a child; waiting for them would hang."""
        resource, self._resource, self._in_use = self._resource, None, 0
        self._lock = threading.Lock()
        if self._detach is None:
            self._lost_in_fork = self._lost_in_fork or self._started
        elif resource is not None:
            self._detach(resource)
