"""The Monty engine: a Python interpreter written in Rust, in a process of its own.

A guest sees the toolbox functions and nothing of this machine: no files, no environment, no network, a clock
that stands still. Worker processes are kept warm between runs, each run in a fresh interpreter; they end
after `IDLE_SECONDS` without one, with `close()`, and with this process.
"""

from __future__ import annotations

import atexit
import datetime as dt
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from guardagent.errors import LimitError, ProgramError, SandboxError

if TYPE_CHECKING:
    from pydantic_monty import Monty, MontySession

    from guardagent.sandbox import Limits

IDLE_SECONDS = 2.0
WAIT_SECONDS = 60.0  # for a free worker, when all are at work
_CALL = "check(agent_input, agent_output, facts)"
_LIMIT_ERRORS = (TimeoutError, MemoryError, RecursionError)


class Engine:
    def __init__(self, limits: Limits) -> None:
        self._limits = limits

    def run(self, program: str, inputs: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]]) -> Any:
        import pydantic_monty as monty

        printed = monty.CollectString(max_bytes=self._limits.printed_bytes)
        aborts: list[BaseException] = []
        options: dict[str, Any] = {
            "external_lookup": {name: _shielded(function, aborts) for name, function in functions.items()},
            "print_callback": printed,
        }
        try:
            with _POOL.session(self._limits) as session:
                session.feed_run(program, **options)
                return session.feed_run(_CALL, inputs=dict(inputs), **options)
        except monty.MontyError as error:
            raise _ours(error) from None
        except TimeoutError:
            raise LimitError(f"no sandbox worker was free within {WAIT_SECONDS:.0f} s") from None
        finally:
            if aborts:
                raise aborts[0]

    def close(self) -> None:
        _POOL.close()


def _shielded(function: Callable[..., Any], aborts: list[BaseException]) -> Callable[..., Any]:
    """A function whose Ctrl-C the guest cannot swallow: it is kept, and raised when the guest has ended."""

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception:
            raise
        except BaseException as error:  # noqa: BLE001 - it is raised again by the engine
            aborts.append(error)
            raise RuntimeError("interrupted") from None

    return call


def _ours(error: Any) -> SandboxError:
    """Our error for one of Monty's: which line, and what happened there."""
    import pydantic_monty as monty

    if isinstance(error, monty.MontyCrashedError):
        return LimitError(f"the sandbox stopped the program: {error}")
    if isinstance(error, monty.MontyConversionError):
        return ProgramError(f"a value cannot pass between program and host: {error}")
    if not isinstance(error, monty.MontySyntaxError | monty.MontyRuntimeError):
        return SandboxError(f"the sandbox failed: {error}")
    frames = [frame for frame in error.traceback() if frame.source_line and frame.source_line != _CALL]
    place = f"line {frames[-1].line}: " if frames else ""
    message = f"{place}{error.display('type-msg')}"
    over_limit = isinstance(error.exception(), _LIMIT_ERRORS) or "max_suspensions" in str(error)
    return LimitError(message) if over_limit else ProgramError(message)


class _Pool:
    """Worker processes, shared by all engines of this process, that end when nobody has used them for a while."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._monty: Monty | None = None
        self._pid = 0
        self._in_use = 0
        self._last_used = 0.0
        atexit.register(self.close)

    @contextmanager
    def session(self, limits: Limits) -> Iterator[MontySession]:
        checkout = self._enter().checkout(
            limits={
                "max_feed_duration_secs": limits.seconds,
                "max_memory": limits.memory_bytes,
                "max_recursion_depth": limits.recursion,
                "max_suspensions": limits.calls,
            },
            os_policy={
                "datetime": dt.datetime.now(dt.UTC),
                "sleep": "zero",
                "random_start": {"seed": 0},
            },
        )
        try:
            with checkout as session:
                yield session
        finally:
            self._leave()

    def close(self) -> None:
        """Ends the workers, unless some are at work: those end once they are idle."""
        with self._lock:
            if not self._in_use:
                self._end()

    def _enter(self) -> Monty:
        with self._lock:
            # After a fork the workers belong to the parent: the child starts its own.
            if self._monty is None or self._pid != os.getpid():
                self._start()
            self._in_use += 1
            assert self._monty is not None
            return self._monty

    def _leave(self) -> None:
        with self._lock:
            self._in_use -= 1
            self._last_used = time.monotonic()

    def _start(self) -> None:
        from pydantic_monty import Monty

        workers = max(2, os.cpu_count() or 2)
        pool = Monty(min_processes=1, max_processes=workers, checkout_timeout=WAIT_SECONDS)
        self._monty = pool.__enter__()
        self._pid = os.getpid()
        self._in_use = 0
        threading.Thread(target=self._reap, args=(self._monty,), daemon=True, name="guardagent-idle").start()

    def _reap(self, pool: Monty) -> None:
        while True:
            time.sleep(IDLE_SECONDS / 4)
            with self._lock:
                if self._monty is not pool:
                    return
                if not self._in_use and time.monotonic() - self._last_used >= IDLE_SECONDS:
                    self._end()
                    return

    def _end(self) -> None:
        pool, self._monty = self._monty, None
        if pool is not None and self._pid == os.getpid():
            pool.__exit__(None, None, None)


_POOL = _Pool()
