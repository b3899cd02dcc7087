"""The Monty engine: a Python interpreter written in Rust, in a process of its own.

A guest sees the toolbox functions and nothing of this machine: no files, no environment, no network, a clock
that stands still. Worker processes are kept warm between runs, each run in a fresh interpreter; they end
after `IDLE_SECONDS` without one, with `close()`, and with this process.
"""

from __future__ import annotations

import atexit
import datetime as dt
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from guardagent.errors import LimitError, ProgramError, SandboxError

if TYPE_CHECKING:
    from pydantic_monty import FunctionSnapshot, Monty, MontySession, SyncSnapshot

    from guardagent.sandbox import Limits

IDLE_SECONDS = 2.0
WAIT_SECONDS = 60.0  # for a free worker, when all are at work
_LIMIT_ERRORS = (TimeoutError, MemoryError, RecursionError)


class Engine:
    def __init__(self, limits: Limits) -> None:
        self._limits = limits

    def run(self, program: str, inputs: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]]) -> Any:
        import pydantic_monty as monty

        printed = monty.CollectString(max_bytes=self._limits.printed_bytes)
        # Under names that the program cannot know, and so cannot rebind before `check` gets them.
        names = {f"_{name}_{secrets.token_hex(8)}": value for name, value in inputs.items()}
        call = f"check({', '.join(names)})"
        try:
            with _POOL.session(self._limits) as session:
                return _drive(session.feed_start(f"{program}\n{call}", inputs=names, print_callback=printed), functions)
        except monty.MontyError as error:
            raise _ours(error, call) from None
        except TimeoutError:
            raise LimitError(f"no sandbox worker was free within {WAIT_SECONDS:.0f} s") from None

    def close(self) -> None:
        _POOL.close()


def _drive(snapshot: SyncSnapshot, functions: Mapping[str, Callable[..., Any]]) -> Any:
    """Answers each time that the guest stops to ask the host, until it has ended; gives its value.

    The guest is driven by hand, so that a Ctrl-C within a host function stops the host and not the guest.
    """
    import pydantic_monty as monty

    while True:
        if isinstance(snapshot, monty.FunctionSnapshot):
            snapshot = _answer(snapshot, functions)
        elif isinstance(snapshot, monty.NameLookupSnapshot):
            name = snapshot.variable_name
            snapshot = snapshot.resume(value=_named(name)) if name in functions else snapshot.resume()
        elif isinstance(snapshot, monty.MontyComplete):
            return snapshot.output
        else:
            raise ProgramError("the program waits for something asynchronous; expected plain calls")


def _answer(snapshot: FunctionSnapshot, functions: Mapping[str, Callable[..., Any]]) -> SyncSnapshot:
    if snapshot.is_os_function or snapshot.object_id is not None:
        return snapshot.resume_not_handled()
    name = str(snapshot.function_name)
    if name not in functions:
        return snapshot.resume({"exc_type": "NameError", "message": f"name {name!r} is not defined"})
    try:
        value = functions[name](*snapshot.args, **snapshot.kwargs)
    except Exception as error:  # noqa: BLE001 - the guest sees it as an error of the function it called
        return snapshot.resume({"exc_type": "ValueError", "message": str(error)})
    return snapshot.resume({"return_value": value})


def _named(name: str) -> Callable[..., None]:
    """What stands for a toolbox function in the guest when it is used as a value; calls of it come by name."""

    def function() -> None: ...

    function.__name__ = name
    return function


def _ours(error: Any, call: str) -> SandboxError:
    """Our error for one of Monty's: which line, and what happened there."""
    import pydantic_monty as monty

    if isinstance(error, monty.MontyCrashedError):
        return LimitError(f"the sandbox stopped the program: {error}")
    if isinstance(error, monty.MontyConversionError):
        return ProgramError(f"a value cannot pass between program and host: {error}")
    if not isinstance(error, monty.MontySyntaxError | monty.MontyRuntimeError):
        return SandboxError(f"the sandbox failed: {error}")
    frames = [frame for frame in error.traceback() if frame.source_line and frame.source_line != call]
    place = f"line {frames[-1].line}: " if frames else ""
    cause = error.exception()
    # A ValueError is how a program says that it cannot decide; its kind adds nothing.
    message = error.display("msg" if type(cause) is ValueError else "type-msg")
    over_limit = isinstance(cause, _LIMIT_ERRORS) or "max_suspensions" in message
    return LimitError(f"{place}over its limits: {message}") if over_limit else ProgramError(f"{place}{message}")


class _Pool:
    """Worker processes, shared by all engines of this process, that end when nobody has used them for a while."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._monty: Monty | None = None
        self._started = False
        self._in_use = 0
        self._last_used = 0.0
        self._forked = False
        atexit.register(self.close)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)

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
            if self._forked:
                raise SandboxError(
                    "this process was forked after its parent had judged a run, and the sandbox does not survive that; "
                    "start worker processes with spawn, or fork before the first run"
                )
            if self._monty is None:
                self._start()
            self._in_use += 1
            assert self._monty is not None
            return self._monty

    def _leave(self) -> None:
        with self._lock:
            self._in_use -= 1
            self._last_used = time.monotonic()

    def _after_fork(self) -> None:
        """In a child, the parent's workers and the threads that talk to them are gone; waiting for them would hang."""
        self._forked = self._forked or self._started
        self._lock = threading.Lock()
        self._monty = None
        self._in_use = 0

    def _start(self) -> None:
        from pydantic_monty import Monty

        workers = max(2, os.cpu_count() or 2)
        pool = Monty(min_processes=1, max_processes=workers, checkout_timeout=WAIT_SECONDS)
        self._monty = pool.__enter__()
        self._started = True
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
        if pool is not None:
            pool.__exit__(None, None, None)


_POOL = _Pool()
