"""The engines that run guard programs, one per file, and what they share: warm workers, and the budget of a run."""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, NoReturn, TypeVar

from guardagent.errors import LimitError, SandboxError

T = TypeVar("T")

MAX_CHARACTERS = 16_000_000
MAX_NODES = 200_000  # values; a shared one counts each time, since a walk visits it each time
MAX_DEPTH = 100
MAX_SECONDS = 5.0  # of toolbox functions

_STRINGS = (str, bytes)
_LISTS = (list, tuple, set, frozenset)

IDLE_SECONDS = 60.0


class WorkerDiedError(LimitError):
    """A worker was killed from outside before any result: the run can be repeated."""


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


class Budget:
    """Bounds the data and time that one run may cost the host, in toolbox calls and in its result."""

    def __init__(self) -> None:
        self._characters = MAX_CHARACTERS
        self._nodes = MAX_NODES
        self.seconds = 0.0
        """The time that toolbox functions have taken."""

    def spend(self, *values: Any) -> None:
        """Charges the content of these values to the budget.

        Raises:
            LimitError: they exceed the rest of the budget, or are nested too deep.
        """
        level = list(values)
        for _ in range(MAX_DEPTH):
            self._nodes -= len(level)
            level = self._below(level)
            if not level:
                return
        raise LimitError(f"over its limits: it passed the host a value nested deeper than {MAX_DEPTH}")

    def _below(self, level: list[Any]) -> list[Any]:
        """Returns the items one level down: at most the remaining number, plus one value's items.

        Each check passes hundreds of values, most of them strings.
        """
        below: list[Any] = []
        for value in level:
            if type(value) is str or isinstance(value, _STRINGS):
                self._characters -= len(value)
                continue
            if isinstance(value, dict):
                below += value
                below += value.values()
            elif isinstance(value, _LISTS):
                below += value
            if len(below) > self._nodes:
                self._refuse()
        if self._characters < 0:
            self._refuse()
        return below

    def _refuse(self) -> NoReturn:
        bounds = f"{MAX_CHARACTERS:,} characters or {MAX_NODES:,} values"
        raise LimitError(f"over its limits: it passed the host more than {bounds}")

    def call(self, function: Callable[..., T], args: Iterable[Any], kwargs: dict[str, Any]) -> T:
        """Makes a call for a program.

        Raises:
            LimitError: the arguments are too large, or the calls so far have taken too long.
        """
        self.spend(*args, kwargs)
        if self.seconds > MAX_SECONDS:
            raise LimitError(f"over its limits: its calls of toolbox functions took more than {MAX_SECONDS:g} s")
        started = time.monotonic()
        try:
            return function(*args, **kwargs)
        finally:
            self.seconds += time.monotonic() - started
