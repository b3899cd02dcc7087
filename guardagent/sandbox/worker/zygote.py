"""The persistent worker process: confined by its layers, it only forks guests, ahead of time.

It reads no program and no input. The host sends a socket for each future guest and receives the guest's process id;
from then on host and guest communicate directly.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import struct

from guardagent.sandbox import hardening
from guardagent.sandbox.worker import guest, modules

READY = b"+"
PID = struct.Struct(">I")


def main(arguments: tuple[tuple[str, ...]]) -> None:
    """Serves on standard input, a socket, behind these layers, until the host closes it."""
    (layers,) = arguments
    control = socket.socket(fileno=0)
    base_bytes = _address_space()
    modules.load_all()
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
    _serve(control, layers, base_bytes)


def _serve(control: socket.socket, layers: tuple[str, ...], base_bytes: int) -> None:
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
        guest.serve(descriptor, layers, base_bytes)
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
    from guardagent.sandbox.worker import codec
    from guardagent.sandbox.worker.guards import Formatter

    codec.unpack(codec.pack({"a": (1, "x", 2.5, None)}))
    Formatter().vformat("{}", (1,), {})
