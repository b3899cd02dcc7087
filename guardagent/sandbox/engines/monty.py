"""The Monty engine: a Python interpreter written in Rust, in a process of its own.

A guest sees the toolbox functions and nothing of this machine: no files, no environment, no network, a clock
that stands still. Worker processes stand behind the hardening layers of this machine and are kept warm between runs,
each run in a fresh interpreter; they end when idle, with `close()`, and with this process.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import secrets
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from guardagent.errors import LimitError, ProgramError, SandboxError
from guardagent.sandbox import hardening, worker
from guardagent.sandbox.engines._budget import Budget
from guardagent.sandbox.engines._monty_gaps import first_gap
from guardagent.sandbox.engines._warm_resource import WarmResource
from guardagent.sandbox.gate import admit

if TYPE_CHECKING:
    from pydantic_monty import FunctionSnapshot, Monty, MontySession, SyncSnapshot

    from guardagent.sandbox import Limits

_GRACE_SECONDS = 0.5
_MAX_INTERPRETER = 200  # characters that the kernel takes in the first line of a script
WAIT_SECONDS = 60.0  # for a free worker, when all are at work
_LIMIT_ERRORS = (TimeoutError, MemoryError, RecursionError)
_NOT_YET = "The monty syntax parser does not yet support"


class UnsupportedSyntaxError(ProgramError):
    """The program uses syntax that this engine does not have; nothing of it has run."""


@lru_cache(maxsize=256)
def unsupported(program: str, functions: frozenset[str]) -> str:
    """What in a program this engine does not have, with its line; empty where it can run all of it."""
    return first_gap(admit(program, functions))


class Engine:
    def __init__(self, limits: Limits) -> None:
        self._limits = limits

    def run(
        self,
        program: str,
        inputs: Mapping[str, Any],
        functions: Mapping[str, Callable[..., Any]],
        now: dt.datetime | None = None,
    ) -> Any:
        if missing := unsupported(program, frozenset(functions)):
            raise UnsupportedSyntaxError(missing)
        run = _MontyRun(program, inputs, functions)
        with _POOL.use() as pool:
            try:
                return run.outcome(pool.monty, self._limits, now)
            except _WorkerDiedError:
                return run.outcome(pool.monty, self._limits, now)

    def unconfined(self) -> str:
        """Why its workers do not stand behind the hardening layers, and what to do; empty where they do."""
        with _POOL.use() as pool:
            return pool.unconfined

    def close(self) -> None:
        _POOL.close()


class _WorkerDiedError(LimitError):
    """A worker that something outside has killed: its run can be made again, since nothing has come of it."""


class _MontyRun:
    """One run: the program, what it gets, and the calls that it makes."""

    def __init__(self, program: str, inputs: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]]) -> None:
        # Under names that the program cannot know, and so cannot rebind before `check` gets them.
        mark = f"v{secrets.token_hex(8)}"
        arguments = {f"{mark}_{name}": value for name, value in inputs.items()}
        self._call = f"check({', '.join(arguments)})"
        self._inputs = arguments | {"__name__": "program"}
        self._source = f"{program}\n{self._call}"
        self._functions = functions
        self._calls = 0
        self._deadline = 0.0
        self._budget = Budget()

    def outcome(self, pool: Monty, limits: Limits, now: dt.datetime | None) -> Any:
        """What `check` returned."""
        import pydantic_monty as monty

        printed = monty.CollectString(max_bytes=limits.printed_bytes)
        try:
            with _session(pool, limits, now) as session:
                self._deadline = time.monotonic() + limits.seconds + _GRACE_SECONDS
                return self._drive(session.feed_start(self._source, inputs=self._inputs, print_callback=printed))
        except monty.MontyError as error:
            raise self._sandbox_error(error) from None
        except TimeoutError:
            raise LimitError(f"no sandbox worker was free within {WAIT_SECONDS:.0f} s") from None

    def _drive(self, snapshot: SyncSnapshot) -> Any:
        """Answers each time that the guest stops to ask the host, until it has ended; gives its value.

        The guest is driven by hand, so that a Ctrl-C within a host function stops the host and not the guest.
        """
        import pydantic_monty as monty

        while True:
            if time.monotonic() - self._budget.seconds > self._deadline:  # its own clock stops while it talks to us
                raise LimitError("over its limits: time limit")
            if isinstance(snapshot, monty.FunctionSnapshot):
                snapshot = self._answer(snapshot)
            elif isinstance(snapshot, monty.NameLookupSnapshot):
                name = snapshot.variable_name
                snapshot = snapshot.resume(value=_placeholder(name)) if name in self._functions else snapshot.resume()
            elif isinstance(snapshot, monty.MontyComplete):
                self._budget.spend(snapshot.output)
                return snapshot.output
            else:
                raise ProgramError("the program waits for something asynchronous; expected plain calls")

    def _answer(self, snapshot: FunctionSnapshot) -> SyncSnapshot:
        if snapshot.is_os_function or snapshot.object_id is not None:
            return snapshot.resume_not_handled()
        name = str(snapshot.function_name)
        if name not in self._functions:
            return snapshot.resume({"exc_type": "NameError", "message": f"name {name!r} is not defined"})
        self._calls += 1
        try:
            value = self._budget.call(self._functions[name], snapshot.args, snapshot.kwargs)
        except SandboxError:
            raise
        except Exception as error:  # noqa: BLE001 - the guest sees it as an error of the function it called
            return snapshot.resume({"exc_type": "ValueError", "message": str(error)})
        return snapshot.resume({"return_value": value})

    def _sandbox_error(self, error: Any) -> SandboxError:
        """Our error for one of Monty's: which line, and what happened there."""
        import pydantic_monty as monty

        if isinstance(error, monty.MontyCrashedError):
            kind = LimitError if self._calls or error.timed_out else _WorkerDiedError
            return kind(f"the sandbox stopped the program: {error}")
        if isinstance(error, monty.MontyConversionError):
            return ProgramError(f"a value cannot pass between program and host: {error}")
        if not isinstance(error, monty.MontySyntaxError | monty.MontyRuntimeError):
            return SandboxError(f"the sandbox failed: {error}")
        return self._program_error(error)

    def _program_error(self, error: Any) -> SandboxError:
        frames = [frame for frame in error.traceback() if frame.source_line and frame.source_line != self._call]
        place = f"line {frames[-1].line}: " if frames else ""
        cause = error.exception()
        # A ValueError is how a program says that it cannot decide; its kind adds nothing.
        message = error.display("msg" if type(cause) is ValueError else "type-msg")
        if isinstance(cause, NotImplementedError) and _NOT_YET in message and not self._calls:
            return UnsupportedSyntaxError(f"{place}{message}")
        over_limit = isinstance(cause, _LIMIT_ERRORS) or "max_suspensions" in message
        return LimitError(f"{place}over its limits: {message}") if over_limit else ProgramError(f"{place}{message}")


def _placeholder(name: str) -> Callable[..., None]:
    """What stands for a toolbox function in the guest when it is used as a value; calls of it come by name."""

    def function() -> None: ...

    function.__name__ = name
    return function


@contextlib.contextmanager
def _session(pool: Monty, limits: Limits, now: dt.datetime | None) -> Iterator[MontySession]:
    checkout = pool.checkout(
        limits={
            "max_feed_duration_secs": limits.seconds,
            "max_memory": limits.memory_bytes,
            "max_recursion_depth": limits.recursion,
            "max_suspensions": limits.calls,
        },
        os_policy={
            "datetime": now or dt.datetime.now(dt.UTC),
            "sleep": "zero",
            "random_start": {"seed": 0},
        },
    )
    with checkout as session:
        yield session


class _Pool:
    """The worker processes, which Monty's client manages, and what starts them behind the hardening layers."""

    def __init__(self) -> None:
        self.unconfined = _launcher_problem()
        self._launcher = None if self.unconfined else _launcher()
        try:
            self.monty = _start(self._launcher)
        except SandboxError as error:
            if self._launcher is None:
                raise
            self.stop()
            self.unconfined = f"its workers do not start behind the layers ({error}); allow running scripts from memory"
            self._launcher = None
            self.monty = _start(None)

    def stop(self) -> None:
        if hasattr(self, "monty"):
            self.monty.__exit__(None, None, None)
        if self._launcher is not None:
            os.close(self._launcher)


def _start(launcher: int | None) -> Monty:
    from pydantic_monty import Monty

    path = f"/proc/{os.getpid()}/fd/{launcher}" if launcher is not None else None
    workers = max(2, os.cpu_count() or 2)
    pool = Monty(binary_path=path, min_processes=1, max_processes=workers, checkout_timeout=WAIT_SECONDS)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(pool)
            with pool.checkout() as session:
                session.feed_run("1")
        except Exception as error:  # noqa: BLE001 - whatever its client raises
            raise SandboxError(f"the Monty worker does not start: {error}") from None
        stack.pop_all()  # it stays open
    return pool


def problem() -> str:
    """Why this engine cannot work on this machine; empty where it can."""
    from importlib.util import find_spec

    if not find_spec("pydantic_monty"):
        return "pydantic-monty is not installed; install guardagent again"
    try:
        _binary()
    except SandboxError as error:
        return str(error)
    return ""


def _binary() -> str:
    from pydantic_monty._binary import find_monty_binary

    try:
        return str(find_monty_binary())
    except FileNotFoundError:
        raise SandboxError(
            "the program `monty` is neither beside Python nor on PATH; install guardagent again, or set MONTY_BIN"
        ) from None


def _launcher_problem() -> str:
    """Why no launcher can be made here, and what to do; empty where one can."""
    if not hasattr(os, "memfd_create"):
        return "its workers can be put behind the layers on Linux alone"
    if not hardening.active():
        return "no layer works here"
    if " " in sys.executable or len(sys.executable) > _MAX_INTERPRETER:
        return f"the path of Python is too long or has a space: {sys.executable!r}; install it elsewhere"
    return ""


def _launcher() -> int:
    """A script, in memory, that puts a worker behind the layers and becomes it.

    The client starts workers from a path and with nothing else, so that the path has to say it all. A script in memory
    needs no folder where programs may be run, and is gone with this process, however that ends.
    """
    interpreter = f"#!{sys.executable} -{''.join(flag[1:] for flag in worker.FLAGS)}\n"
    script = os.memfd_create("guardagent-worker", os.MFD_CLOEXEC)
    os.write(script, (interpreter + worker.script("confinement", _binary(), hardening.active())).encode())
    os.fchmod(script, 0o500)
    return script


_POOL: WarmResource[_Pool] = WarmResource(_Pool, _Pool.stop)
