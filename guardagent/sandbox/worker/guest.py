"""The worker processes of the engine 'restricted': a zygote, and a guest for each program.

The persistent process, confined by its layers, only forks guests, ahead of time. It reads no program and no input. The
host sends a socket for each future guest and receives the guest's process id; from then on host and guest communicate
directly. A guest runs one program, each time with fresh names, and never runs another program.
"""

from __future__ import annotations

import contextlib
import gc
import marshal
import os
import signal
import socket
import struct
import sys
import traceback
from collections.abc import Callable
from types import CodeType
from typing import Any

from guardagent.sandbox import hardening
from guardagent.sandbox.worker import PROGRAM, codec
from guardagent.sandbox.worker.guards import Formatter, Guards
from guardagent.sandbox.worker.modules import Modules, load_all

READY = b"+"
PID = struct.Struct(">I")

_OWN_FRAMES = 60  # of this worker and of library functions, on top of the program's own
_GRACE_SECONDS = 30  # for host calls; after that this process ends, even if the host has died
_CPU_SECONDS = 600  # of this process in all


def main(arguments: tuple[tuple[str, ...]]) -> None:
    """Serves on standard input, a socket, behind these layers, until the host closes it."""
    (layers,) = arguments
    control = socket.socket(fileno=0)
    base_bytes = _address_space()
    load_all()
    _warm_up()
    try:
        hardening.apply(layers, hardening.Profile("zygote"))
    except OSError as error:
        control.sendall(f"a hardening layer failed: {error}".encode())
        return
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # guests that end leave nothing behind
    gc.collect()
    gc.freeze()
    control.sendall(READY)
    _fork_guests(control, layers, base_bytes)


def _fork_guests(control: socket.socket, layers: tuple[str, ...], base_bytes: int) -> None:
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not data:
            return
        pid = os.fork()
        if pid == 0:
            _run_guest(control, descriptors[0], layers, base_bytes)
        os.close(descriptors[0])
        control.sendall(PID.pack(pid))


def _run_guest(control: socket.socket, descriptor: int, layers: tuple[str, ...], base_bytes: int) -> None:
    try:
        control.close()
        _serve_guest(descriptor, layers, base_bytes)
    finally:
        os._exit(0)


def _address_space() -> int:
    """Returns the current size of this process's address space in bytes."""
    try:
        with open("/proc/self/statm") as file:  # noqa: PTH123 - pathlib is slow to load
            return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 256 * 1024 * 1024


def _warm_up() -> None:
    """Performs each guest's first work once, so that forks share it."""
    codec.unpack(codec.pack({"a": (1, "x", 2.5, None)}))
    Formatter().vformat("{}", (1,), {})


def _serve_guest(descriptor: int, layers: tuple[str, ...], base_bytes: int) -> None:
    """Reads a program from a socket's descriptor, then requests to run it, and answers each."""
    connection = _HostConnection(descriptor)
    setup = connection.receive()
    code: CodeType = marshal.loads(setup["code"])  # noqa: S302 - from the host, which compiled it
    limits = setup["limits"]
    _confine(limits, layers, base_bytes)
    runs = _ProgramRuns(code, setup["functions"], limits, connection)
    gc.freeze()
    while True:
        request = connection.receive()
        signal.setitimer(signal.ITIMER_REAL, limits["seconds"] + _GRACE_SECONDS)
        connection.send(runs.answer(request))
        signal.setitimer(signal.ITIMER_REAL, 0)
        gc.collect()  # reference cycles of a run are freed now, not during the next run


class _ProgramRuns:
    def __init__(self, code: CodeType, functions: list[str], limits: dict[str, Any], host: _HostConnection) -> None:
        self._code = code
        self._functions = functions
        self._limits = limits
        self._host = host
        self._guards = Guards()
        self._modules = Modules(self._guards.getattr)
        self._names = self._guards.names(self._modules.importer)
        self._kept: dict[Any, int] = {}

    def answer(self, request: dict[str, Any]) -> bytes:
        """Returns the packed result of `check`, or its failure."""
        host = _HostFunctions(self._host, self._kept)
        try:
            return codec.pack({"value": self._run(request, host)})
        except BaseException as error:  # noqa: BLE001 - any exception of a program goes to the host
            return codec.pack(_failure(error))
        finally:
            host.finished = True

    def _run(self, request: dict[str, Any], host: _HostFunctions) -> Any:
        self._guards.begin(self._limits["printed_bytes"])
        self._modules.begin(request["now"])
        names = self._names | {name: host.function(name) for name in self._functions}
        names["__builtins__"] = dict(names["__builtins__"])
        exec(self._code, names)  # noqa: S102 - the purpose of this process
        return names["check"](**request["inputs"])


class _HostFunctions:
    """Toolbox functions for the program: the host makes each call, and keeps lexicons, whose numbers are in `kept`."""

    def __init__(self, host: _HostConnection, kept: dict[Any, int]) -> None:
        self._host = host
        self._kept = kept
        self.finished = False

    def function(self, name: str) -> Callable[..., Any]:
        def function(*args: Any, **kwargs: Any) -> Any:
            return self._call(name, args, kwargs)

        function.__name__ = function.__qualname__ = name
        return function

    def _call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.finished:
            raise SystemExit  # a leftover of a finished run
        strings = _strings(args[-1]) if args and type(args[-1]) is dict else None
        number = self._kept.get(strings)
        last = {"keep": strings is not None} if number is None else {"kept": number}
        values = list(args if number is None else args[:-1])
        data = codec.pack({"call": name, "args": values, "kwargs": kwargs, **last})
        self._host.send(data)
        if number is None and strings is not None and codec.is_kept(len(data), len(self._kept)):
            self._kept[strings] = len(self._kept)
        answer = self._host.receive()
        if "error" in answer:
            raise ValueError(answer["error"])
        return answer["value"]


def _strings(value: Any, depth: int = 5) -> Any:
    """Returns an immutable copy of strings in dicts and lists; None if there is any other value."""
    if type(value) is str or not depth or type(value) not in (dict, list):
        return value if type(value) is str else None
    items = [item for pair in value.items() for item in pair] if type(value) is dict else value
    copies = [_strings(item, depth - 1) for item in items]
    return None if None in copies else (type(value), *copies)


def _confine(limits: dict[str, Any], layers: tuple[str, ...], base_bytes: int) -> None:
    """Limits this process. The host measures a run's time exactly; these limits hold even if the host has died."""
    sys.setrecursionlimit(limits["recursion"] + _OWN_FRAMES)
    if "rlimits" in layers:
        hardening.limit_resource("RLIMIT_CPU", _CPU_SECONDS)
        hardening.limit_resource("RLIMIT_AS", base_bytes + limits["memory_bytes"])
    if "seccomp" in layers:
        hardening.apply(("seccomp",), hardening.Profile("guest"))


def _failure(error: BaseException) -> dict[str, Any]:
    """Returns the failure for the host: kind, message, and line of the program."""
    kind, message, line = type(error).__name__, "", 0
    with contextlib.suppress(BaseException):
        message = str(error)[:1000]
    with contextlib.suppress(BaseException):
        lines = [
            number for frame, number in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename == PROGRAM
        ]
        line = lines[-1] if lines else 0
    return {"failed": kind, "message": str(message), "line": line}


class _HostConnection:
    """The guest's end of the socket: messages in turn."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lines = open(descriptor, "rb", buffering=1 << 16)  # noqa: SIM115 - until the process ends

    def send(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[os.write(self._descriptor, left) :]

    def receive(self) -> Any:
        line = self._lines.readline()
        if not line.endswith(b"\n"):
            raise SystemExit  # the host is gone
        return codec.unpack(line)
