"""Seccomp: the kernel refuses every system call that is not on the process's list.

A refused call fails with EPERM; the process is not killed, so that a library that merely tries can continue. The
filter is a classic BPF program over `struct seccomp_data` (linux/seccomp.h): architecture at byte 4, call number at
byte 0, the first argument at byte 16.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys

from guardagent.sandbox._hardening import _linux
from guardagent.sandbox._hardening.syscalls import PROFILES, SYSCALL_TABLES, THREADS_ONLY, SyscallTable
from guardagent.sandbox.hardening import Profile

_LOAD, _JUMP_EQUAL, _JUMP_BITS, _RETURN = 0x20, 0x15, 0x45, 0x06
_ALLOW, _KILL_PROCESS, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_EPERM, _ENOSYS = 1, 38
_CLONE_THREAD = 0x00010000
_ARCHITECTURE, _NUMBER, _FIRST_ARGUMENT = 4, 0, 16
_SECCOMP_SET_MODE_FILTER, _SECCOMP_GET_ACTION_AVAIL = 1, 2


def problem() -> str:
    if sys.platform != "linux":
        return "seccomp needs Linux; run on Linux"
    machine = os.uname().machine
    if machine not in SYSCALL_TABLES:
        return f"there is no filter for {machine!r} processors yet; known: {', '.join(SYSCALL_TABLES)}"
    try:
        _seccomp(_SECCOMP_GET_ACTION_AVAIL, ctypes.create_string_buffer(struct.pack("=I", _ERRNO), 4))
    except OSError as error:
        return f"the kernel offers no seccomp filters ({error.strerror}); use a kernel with 'CONFIG_SECCOMP_FILTER'"
    return ""


def apply(profile: Profile) -> None:
    machine = SYSCALL_TABLES[os.uname().machine]
    program = _program(machine, PROFILES[profile.syscalls], threads_only=profile.syscalls in THREADS_ONLY)
    code = ctypes.create_string_buffer(program, len(program))
    # struct sock_fprog: the number of instructions, and their address.
    header = struct.pack("HxxxxxxP" if struct.calcsize("P") == 8 else "HxxP", len(program) // 8, ctypes.addressof(code))
    _linux.no_new_privileges()
    _seccomp(_SECCOMP_SET_MODE_FILTER, ctypes.create_string_buffer(header, len(header)))


def _seccomp(operation: int, argument: ctypes.Array[ctypes.c_char]) -> None:
    _linux.syscall(SYSCALL_TABLES[os.uname().machine].numbers["seccomp"], operation, 0, argument)


def _program(machine: SyscallTable, allowed: frozenset[str], *, threads_only: bool) -> bytes:
    lines = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_EQUAL, 1, 0, machine.architecture),
        (_RETURN, 0, 0, _KILL_PROCESS),  # the numbers have another meaning there
        (_LOAD, 0, 0, _NUMBER),
    ]
    for number in sorted(machine.numbers[name] for name in allowed if name in machine.numbers):
        lines += [(_JUMP_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ALLOW)]
    # Its flags are in memory, which no filter can read; a C library then uses clone instead.
    lines += [(_JUMP_EQUAL, 0, 1, machine.numbers["clone3"]), (_RETURN, 0, 0, _ERRNO | _ENOSYS)]
    if threads_only:
        lines += [
            (_JUMP_EQUAL, 0, 3, machine.numbers["clone"]),
            (_LOAD, 0, 0, _FIRST_ARGUMENT),
            (_JUMP_BITS, 0, 1, _CLONE_THREAD),
            (_RETURN, 0, 0, _ALLOW),
        ]
    lines.append((_RETURN, 0, 0, _ERRNO | _EPERM))
    return b"".join(struct.pack("=HBBI", *line) for line in lines)
