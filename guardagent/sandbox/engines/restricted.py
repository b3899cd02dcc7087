"""The RestrictedPython engine: CPython in a separate process for each program, behind every available layer.

The host compiles a program with guards in place of every operation that could reach further: RestrictedPython's
transformation, extended to the syntax of guard programs, each addition with its guard. The program has passed the gate
by then; `worker/guards.py` has the guards that the rewritten code calls. A zygote process forks a guest for each
program, ahead of time; no other program ever runs in that process. Host and guest exchange JSON over one socket, and
the host measures the guest's time.
"""

from __future__ import annotations

import ast
import contextlib
import datetime as dt
import marshal
import os
import re
import signal
import socket
import subprocess
import threading
import time
import warnings
from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from RestrictedPython.transformer import IOPERATOR_TO_STR, RestrictingNodeTransformer

from guardagent.errors import LimitError, ProgramError, SandboxError
from guardagent.sandbox import hardening, worker
from guardagent.sandbox.engines import MAX_NODES, Budget, WarmResource, WorkerDiedError
from guardagent.sandbox.gate import METHODS, admit, parse
from guardagent.sandbox.worker import PROGRAM, codec
from guardagent.types import Functions, thaw

if TYPE_CHECKING:
    from guardagent.sandbox import Limits

START_SECONDS = 20.0
TRIES = 3  # to start the worker process
WAIT_SECONDS = 60.0  # for a free slot, when all are taken
MAX_RECEIVED = 16 * 1024 * 1024  # bytes that one run may send to the host in total
MAX_RUNS = 1000  # of one guest
MAX_IDLE = 8  # guests with a program
SLOTS = max(2, os.cpu_count() or 2)  # runs at once

_OVER_LIMITS = {"MemoryError", "RecursionError"}


def problem() -> str:
    """Returns why this engine cannot work on this machine; empty if it can."""
    return "" if hasattr(os, "fork") and hasattr(socket, "send_fds") else "it needs 'fork'; run on Linux or macOS"


class Engine:
    def __init__(self, limits: Limits) -> None:
        self._limits = limits

    def run(self, program: str, inputs: Mapping[str, Any], functions: Functions, now: dt.datetime | None = None) -> Any:
        if problem():
            raise SandboxError(f"the engine 'restricted' cannot run here: {problem()}")
        guest_program = _GuestProgram(program_code(program, frozenset(functions)), tuple(functions), self._limits)
        try:
            request = codec.pack({"inputs": dict(inputs), "now": now or dt.datetime.now(dt.UTC)})
        except TypeError as error:
            raise ProgramError(f"a value cannot pass between program and host: {error}") from None
        with _ZYGOTE.use() as zygote, zygote.slot():
            try:
                return zygote.run(guest_program, request, functions)
            except WorkerDiedError:
                return zygote.run(guest_program, request, functions, retry=True)

    def unconfined(self) -> str:
        """Returns why its workers are not confined by the hardening layers; empty if they are."""
        return problem() or ("" if hardening.active() else "no hardening layer works on this machine")

    def close(self) -> None:
        _ZYGOTE.close()


class _GuestProgram(NamedTuple):
    """The one program that a guest runs, with its functions and limits."""

    code: bytes
    functions: tuple[str, ...]
    limits: Limits


class _RestrictedRun:
    """The host's side of one run."""

    def __init__(self, guest: _Guest, limits: Limits, functions: Functions) -> None:
        self._guest = guest
        self._limits = limits
        self._functions = functions
        self._left = limits.seconds
        self._received = 0
        self._calls = 0
        self._budget = Budget()

    def outcome(self, request: bytes) -> Any:
        """Returns the result of `check`."""
        try:
            while "call" in (message := self._exchange(request)):
                request = self._answer(message)
            if "failed" in message:
                raise _sandbox_error(message)
            return message["value"]
        except TimeoutError:
            raise LimitError(f"over its limits: time limit of {self._limits.seconds:g} s") from None
        except (OSError, EOFError) as error:
            kind = LimitError if self._calls else WorkerDiedError
            raise kind(
                f"the sandbox stopped the program: its process ended ({error or 'it closed the connection'})"
            ) from None
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise LimitError(f"the sandbox stopped the program: it sent no valid message ({error})") from None

    def _exchange(self, request: bytes) -> dict[str, Any]:
        """Sends a message and returns the next one from the guest, within the time that it has left."""
        deadline, data = time.monotonic() + self._left, bytearray()
        self._connection_until(deadline).sendall(request)
        while not data.endswith(b"\n"):
            part = self._connection_until(deadline).recv(1 << 16)
            if not part:
                raise EOFError
            data += part
            self._received += len(part)
            if self._received > MAX_RECEIVED:
                raise LimitError(f"over its limits: it sent more than {MAX_RECEIVED:,} bytes")
        self._left = deadline - time.monotonic()
        if _values(data) > MAX_NODES:  # before decoding
            raise LimitError(f"over its limits: it passed the host more than {MAX_NODES:,} values")
        message = codec.unpack(data)
        if not isinstance(message, dict):
            raise TypeError("not an object")
        kept = self._guest.kept
        if "kept" in message:
            message["args"].append(thaw(kept[message["kept"]]))
        elif message.get("keep") and codec.is_kept(len(data), len(kept)):
            kept[len(kept)] = thaw(message["args"][-1])
        return message

    def _connection_until(self, deadline: float) -> socket.socket:
        """Returns the connection, whose next operation ends by then."""
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._guest.connection.settimeout(left)
        return self._guest.connection

    def _answer(self, message: dict[str, Any]) -> bytes:
        self._calls += 1
        if self._calls > self._limits.calls:
            raise LimitError(f"over its limits: more than {self._limits.calls:,} calls of toolbox functions")
        try:
            value = self._budget.call(self._functions[message["call"]], message["args"], message["kwargs"])
        except SandboxError:
            raise
        except Exception as error:  # noqa: BLE001 - the guest receives it as an error of the function
            return codec.pack({"error": str(error)})
        try:
            return codec.pack({"value": value})
        except TypeError as error:
            return codec.pack({"error": f"the result of {message['call']!r} cannot pass to a program: {error}"})


def _values(data: bytes | bytearray) -> int:
    """Returns a lower bound for the number of values in a JSON string."""
    if data.count(b",") + data.count(b"[") + data.count(b"{") <= MAX_NODES:
        return 0
    bare = re.sub(rb'"(?:[^"\\]|\\.)*+"', b"", data)
    return bare.count(b",") + bare.count(b"[") + bare.count(b"{")


def _sandbox_error(message: dict[str, Any]) -> SandboxError:
    kind, text = str(message["failed"]), str(message["message"])
    place = f"line {message['line']}: " if message["line"] else ""
    if kind in _OVER_LIMITS:
        return LimitError(f"{place}over its limits: {kind}: {text}")
    # A program reports with a ValueError that it cannot decide; the kind adds nothing.
    return ProgramError(f"{place}{text}" if kind == "ValueError" else f"{place}{kind}: {text}")


class _Guest:
    """A process that waits for a run, and the socket to it."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.runs = 0
        self.kept: dict[int, Any] = {}
        """Lexicons, dicts of strings, that the program has passed: it does not send them again."""
        self._handle: int | None = None

    def track(self, pid: int) -> None:
        """Keeps a handle of the process, so that a later process with the same number is not mistaken for it."""
        if hasattr(os, "pidfd_open"):
            with contextlib.suppress(OSError):
                self._handle = os.pidfd_open(pid)

    def is_waiting(self) -> bool:
        """Whether the process is alive: something outside may have killed it."""
        self.connection.settimeout(0)
        try:
            return bool(self.connection.recv(1, socket.MSG_PEEK))
        except BlockingIOError:
            return True
        except OSError:
            return False

    def kill(self) -> None:
        """Kills the process. Without a handle, its closed socket and its own timers stop it."""
        if self._handle is not None:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)
        self.disconnect()

    def disconnect(self) -> None:
        """Closes the connection, which ends a waiting guest."""
        self.connection.close()
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)


class _Zygote:
    """The persistent worker process, and the guests that it has forked ahead."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._slots = threading.Semaphore(SLOTS)
        self._waiting: deque[_Guest] = deque()  # forked ahead, for any program
        self._idle_guests: OrderedDict[_Guest, _GuestProgram] = OrderedDict()  # idle, with their program
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    @contextlib.contextmanager
    def slot(self) -> Iterator[None]:
        if not self._slots.acquire(timeout=WAIT_SECONDS):
            raise LimitError(f"no sandbox worker was free within {WAIT_SECONDS:.0f} s")
        try:
            yield
        finally:
            self._slots.release()

    def run(self, guest_program: _GuestProgram, request: bytes, functions: Functions, *, retry: bool = False) -> Any:
        """Performs one run in an idle guest that has the program; with `retry`, or if none is idle, in a new guest."""
        guest = None if retry else self._idle_guest(guest_program)
        if guest is None:
            guest = self._new_guest()
            request = codec.pack({**guest_program._asdict(), "limits": asdict(guest_program.limits)}) + request
        try:
            value = _RestrictedRun(guest, guest_program.limits, functions).outcome(request)
        except BaseException:
            guest.kill()
            raise
        self._reuse(guest, guest_program)
        return value

    def _idle_guest(self, guest_program: _GuestProgram) -> _Guest | None:
        """Returns an idle guest that has the program, or None."""
        with self._lock:
            idle = (guest for guest, program in reversed(self._idle_guests.items()) if program == guest_program)
            guest = next(idle, None)  # one that has died since fails before its first call, and the run is repeated
            if guest is not None:
                del self._idle_guests[guest]
            return guest

    def _reuse(self, guest: _Guest, guest_program: _GuestProgram) -> None:
        """Keeps a guest, whose run ended well, for further runs of the same program only."""
        guest.runs += 1
        surplus = guest
        with self._lock:
            if guest.runs < MAX_RUNS:
                self._idle_guests[guest] = guest_program
                if len(self._idle_guests) <= MAX_IDLE:
                    return
                surplus, _ = self._idle_guests.popitem(last=False)
        surplus.kill()

    def _new_guest(self) -> _Guest:
        """Returns a new guest.

        Raises:
            SandboxError: no worker process could be started.
        """
        with self._lock:
            for _ in range(TRIES):
                try:
                    return self._next_guest()
                except (OSError, EOFError) as error:  # it was killed; guests with a program survive it
                    cause = error
                    self._kill_process()
        raise SandboxError(f"the worker process does not start: {cause}")

    def _next_guest(self) -> _Guest:
        control = self._control or self._start()
        while True:
            while len(self._waiting) <= SLOTS:
                host_end, guest_end = socket.socketpair()
                self._waiting.append(_Guest(host_end))
                with guest_end:
                    socket.send_fds(control, [b"+"], [guest_end.fileno()])
            pid = control.recv(4, socket.MSG_WAITALL)
            if len(pid) < 4:
                raise EOFError("it has ended")
            guest = self._waiting.popleft()
            if guest.is_waiting():
                guest.track(int.from_bytes(pid, "big"))
                return guest
            guest.disconnect()

    def _start(self) -> socket.socket:
        host_end, worker_end = socket.socketpair()
        with worker_end:
            self._process = subprocess.Popen(  # noqa: S603 - our own worker
                worker.command("guest", hardening.active(), libraries=("RestrictedPython",)),
                stdin=worker_end.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={"PYTHONHASHSEED": "0"},
                cwd="/",
                start_new_session=True,
            )
        self._control = host_end
        host_end.settimeout(START_SECONDS)
        reply = host_end.recv(1000)
        if reply != b"+":
            raise EOFError(reply.decode(errors="replace") or "it ended at once")
        return host_end

    def stop(self) -> None:
        with self._lock:
            self._kill_process()
            while self._idle_guests:
                self._idle_guests.popitem()[0].kill()

    def _kill_process(self) -> None:
        """Kills the worker process, and ends the guests that wait for a program."""
        self._disconnect()
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def detach(self) -> None:
        """Closes the sockets only: in a forked child the processes belong to the parent."""
        self._disconnect()
        while self._idle_guests:
            self._idle_guests.popitem()[0].disconnect()

    def _disconnect(self) -> None:
        control, self._control = self._control, None
        if control is not None:
            control.close()
        while self._waiting:
            self._waiting.popleft().disconnect()


_ZYGOTE: WarmResource[_Zygote] = WarmResource(_Zygote, _Zygote.stop, detach=_Zygote.detach)


@lru_cache(maxsize=256)
def program_code(program: str, functions: frozenset[str]) -> bytes:
    """Returns the code of a program for the worker, marshalled.

    Raises:
        ProgramError: the gate or the transformation rejects it.
    """
    policy = Transformer()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            admit(program, functions)
            tree = policy.visit(parse(program))  # a separate tree, which the transformation changes
            if policy.errors:
                raise ProgramError(_first_error(policy.errors))
            return marshal.dumps(compile(tree, PROGRAM, "exec", dont_inherit=True, optimize=0))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ProgramError(f"line {getattr(error, 'lineno', None) or 1}: not Python: {error}") from None


def _first_error(errors: list[str]) -> str:
    line, _, message = errors[0].partition(": ")
    return f"{line[:1].lower()}{line[1:]}: {message}"


class Transformer(RestrictingNodeTransformer):
    def __init__(self) -> None:
        super().__init__([], [], {})

    def check_name(self, node: Any, name: str | None, allow_magic_methods: bool = False) -> None:  # noqa: FBT001, FBT002
        """Allows names with one leading underscore, a mere convention; the gate has rejected reserved names."""
        if name is not None and name not in METHODS and name.startswith("__") and name != "__name__":
            super().check_name(node, name, allow_magic_methods)

    def visit_Name(self, node: ast.Name) -> Any:
        if node.id in ("print", "__name__"):  # a guarded function has that name, and collects nothing
            return self.node_contents_visit(node)
        return super().visit_Name(node)

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        if node.attr == "__name__" and isinstance(node.value, ast.Attribute) and node.value.attr == "__class__":
            node.value = self._call(node, "type", node.value.value)
        if isinstance(node.ctx, ast.Load):  # also names with an underscore: `_getattr_` checks their owner
            return self._call(
                node, "_getattr_", self.visit(node.value), ast.copy_location(ast.Constant(node.attr), node)
            )
        node.value = self._call(node, "_write_", self.visit(node.value))
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        return self.node_contents_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        if isinstance(node.target, ast.Name):
            return super().visit_AugAssign(node)
        operation = ast.copy_location(ast.Constant(IOPERATOR_TO_STR[type(node.op)]), node)
        target, value = node.target, self.visit(node.value)
        if isinstance(target, ast.Subscript):
            call = self._call(
                node, "_inplaceitem_", operation, self.visit(target.value), self.visit(target.slice), value
            )
        else:
            name = ast.copy_location(ast.Constant(target.attr), node)
            call = self._call(node, "_inplaceattr_", operation, self.visit(target.value), name, value)
        return ast.copy_location(ast.Expr(call), node)

    def visit_Nonlocal(self, node: ast.Nonlocal) -> Any:
        return self.node_contents_visit(node)

    # The gate has checked the attributes and names of patterns; a value pattern must remain a dotted name.
    def visit_Match(self, node: Any) -> Any:
        return self.node_contents_visit(node)

    visit_match_case = visit_MatchSingleton = visit_MatchSequence = visit_MatchOr = visit_Match
    visit_MatchAs = visit_MatchStar = visit_Match

    def visit_MatchValue(self, node: ast.MatchValue) -> Any:
        return node

    def visit_MatchMapping(self, node: ast.MatchMapping) -> Any:
        node.patterns = [self.visit(pattern) for pattern in node.patterns]
        return node

    def visit_MatchClass(self, node: ast.MatchClass) -> Any:
        node.patterns = [self.visit(pattern) for pattern in node.patterns]
        node.kwd_patterns = [self.visit(pattern) for pattern in node.kwd_patterns]
        return node

    def _call(self, place: ast.AST, guard: str, *arguments: ast.expr) -> ast.Call:
        name = ast.copy_location(ast.Name(guard, ast.Load()), place)
        return ast.copy_location(ast.Call(name, list(arguments), []), place)
