"""Restrictions that the operating system imposes on a worker process, whatever its interpreter does.

Each layer has two functions: one returns why it cannot work on this machine, the other confines the calling process.
A worker gets the names of its layers and ends if one of them fails: no layer is dropped silently. This module imports
little, and nothing that only the host needs, so that a worker starts fast and small; `ctypes` loads with the first
layer that makes system calls.

rlimits    resource limits: no core files, no file contents written, few descriptors, bounded memory and time
landlock   no file access, TCP, and signals or abstract sockets to outside processes. The kernel interface is described
           in linux/landlock.h and in the kernel's Documentation/userspace-api/landlock.rst
seccomp    the kernel refuses every system call that is not on the process's list. A refused call fails with EPERM; the
           process is not killed, so that a library that merely tries can continue. The filter is a classic BPF program
           over `struct seccomp_data` (linux/seccomp.h): architecture at byte 4, call number at byte 0, the first
           argument at byte 16
"""

from __future__ import annotations

import functools
import os
import struct
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import ctypes

__all__ = ["LAYERS", "Profile", "active", "apply", "limit_resource", "problems"]

LAYERS = ("rlimits", "landlock", "seccomp")
"""In the order of application: the last one forbids any further one."""

_MOST_DESCRIPTORS = 64  # of files


class Profile(NamedTuple):
    """The operations that a process still needs after the layers are applied."""

    syscalls: str
    """The list of system calls: a name of `ALLOWED_SYSCALLS`."""
    readable: tuple[str, ...] = ()
    """Files and folders that it may read and execute; any other file is out of reach."""
    memory_bytes: int = 0
    """Its address space, if positive."""
    writable: tuple[str, ...] = ()
    """Files and folders that it may also change."""
    is_offline: bool = True
    """Whether it gets no network."""


class _Layer(NamedTuple):
    problem: Callable[[], str]
    """Returns why it cannot work here, and the fix; empty if it can."""
    apply: Callable[[Profile], None]
    """Confines the calling process permanently; raises OSError."""


def problems() -> dict[str, str]:
    """Returns for each layer why it cannot work on this machine, and the fix; an empty string if it can."""
    return {layer: _LAYERS[layer].problem() for layer in LAYERS}


def active() -> tuple[str, ...]:
    """Returns the layers that work on this machine."""
    return tuple(layer for layer, problem in problems().items() if not problem)


def apply(layers: Sequence[str], profile: Profile) -> None:
    """Confines the calling process with these layers permanently.

    Raises:
        OSError: one of them could not be applied.
    """
    chosen = [layer for layer in LAYERS if layer in layers]
    if "landlock" in chosen or "seccomp" in chosen:
        _libc()  # loads before the first layer forbids reading files
    for layer in chosen:
        _LAYERS[layer].apply(profile)


def _rlimits_problem() -> str:
    try:
        import resource  # noqa: F401
    except ImportError:
        return "this system has no resource limits; run on Linux or macOS"
    return ""


def _apply_rlimits(profile: Profile) -> None:
    limit_resource("RLIMIT_CORE", 0)
    limit_resource("RLIMIT_FSIZE", 0)
    limit_resource("RLIMIT_NOFILE", _MOST_DESCRIPTORS)
    if profile.memory_bytes:
        limit_resource("RLIMIT_AS", profile.memory_bytes)


def limit_resource(name: str, value: int) -> None:
    """Lowers one limit permanently; a limit that is lower already stays."""
    import resource

    which = getattr(resource, name)
    _, hard = resource.getrlimit(which)
    bounded = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (bounded, bounded))


# Landlock's, the same on every architecture.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_CREATE_RULESET_VERSION = 1
_RULE_PATH_BENEATH = 1
_EXECUTE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 2, 1 << 3
_OF_FILES = _EXECUTE | _READ_FILE | 1 << 1 | 1 << 14 | 1 << 15  # the others: to write, to truncate, and ioctl
_NET_BIND_AND_CONNECT = 0b11
_SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS = 0b11
_FS_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}  # the number of file rights, by version of the interface


def _landlock_problem() -> str:
    if sys.platform != "linux":
        return "Landlock needs Linux; run on Linux 5.13 or newer"
    try:
        _landlock_version()
    except OSError as error:
        return (
            f"the kernel offers no Landlock ({error.strerror}); use Linux 5.13 or newer with 'landlock' in its 'lsm=' "
            "list, and a container whose seccomp profile allows the 'landlock_*' calls"
        )
    return ""


def _apply_landlock(profile: Profile) -> None:
    version = _landlock_version()
    files = (1 << _FS_RIGHTS.get(version, 16)) - 1
    attributes = struct.pack(
        "=QQQ",
        files,
        _NET_BIND_AND_CONNECT if version >= 4 and profile.is_offline else 0,
        _SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS if version >= 6 else 0,
    )
    size = 8 if version < 4 else 16 if version < 6 else 24
    ruleset = _syscall(_CREATE_RULESET, attributes, size, 0)
    for path in profile.readable:
        _allow_path(ruleset, path, _EXECUTE | _READ_FILE | _READ_DIR)
    for path in profile.writable:
        _allow_path(ruleset, path, files)
    _no_new_privileges()
    _syscall(_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _landlock_version() -> int:
    return _syscall(_CREATE_RULESET, None, 0, _CREATE_RULESET_VERSION)


def landlock_version() -> int:
    """Returns the version of the kernel's Landlock; 0 if it has none."""
    return 0 if _landlock_problem() else _landlock_version()


def _allow_path(ruleset: int, path: str, rights: int) -> None:
    """Allows some rights below a path; a missing path needs no rule."""
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    if not os.path.isdir(path):  # noqa: PTH112 - pathlib is slow to load
        rights &= _OF_FILES
    _syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, struct.pack("=Qi", rights, opened), 0)
    os.close(opened)


_LOAD, _JUMP_EQUAL, _JUMP_BITS, _RETURN = 0x20, 0x15, 0x45, 0x06
_ALLOW, _KILL_PROCESS, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_EPERM, _ENOSYS = 1, 38
_CLONE_THREAD = 0x00010000
_X32 = 0x40000000  # the bit of the numbers of the x32 ABI
_ARCHITECTURE, _NUMBER, _FIRST_ARGUMENT = 4, 0, 16
_SECCOMP_SET_MODE_FILTER, _SECCOMP_GET_ACTION_AVAIL = 1, 2


def _seccomp_problem() -> str:
    if sys.platform != "linux":
        return "seccomp needs Linux; run on Linux"
    machine = os.uname().machine
    if machine not in SYSCALL_TABLES:
        return f"there is no filter for {machine!r} processors yet; known: {', '.join(SYSCALL_TABLES)}"
    try:
        _seccomp(_SECCOMP_GET_ACTION_AVAIL, struct.pack("=I", _ERRNO))
    except OSError as error:
        return f"the kernel offers no seccomp filters ({error.strerror}); use a kernel with 'CONFIG_SECCOMP_FILTER'"
    return ""


def _apply_seccomp(profile: Profile) -> None:
    import ctypes

    machine = SYSCALL_TABLES[os.uname().machine]
    if profile.syscalls in (OFFLINE, TCP_ONLY):
        program = _offline_program(machine, allowed=() if profile.syscalls == OFFLINE else (_INET, _INET6))
    else:
        threads_only = profile.syscalls in THREADS_ONLY
        program = _filter_program(machine, ALLOWED_SYSCALLS[profile.syscalls], threads_only=threads_only)
    code = ctypes.create_string_buffer(program, len(program))
    # struct sock_fprog: the number of instructions, and their address.
    header = struct.pack("HxxxxxxP" if struct.calcsize("P") == 8 else "HxxP", len(program) // 8, ctypes.addressof(code))
    _no_new_privileges()
    _seccomp(_SECCOMP_SET_MODE_FILTER, header)


def _seccomp(operation: int, argument: bytes) -> None:
    _syscall(SYSCALL_TABLES[os.uname().machine].numbers["seccomp"], operation, 0, argument)


def _filter_program(machine: SyscallTable, allowed: frozenset[str], *, threads_only: bool) -> bytes:
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


def _offline_program(machine: SyscallTable, allowed: Sequence[int] = ()) -> bytes:
    """Refuses new sockets, also those that io_uring or the calls of another ABI would open; allows the rest.

    Sockets of the `allowed` families pass.
    """
    refused = _refusal(machine.numbers["io_uring_setup"])
    for_sockets = [line for family in allowed for line in ((_JUMP_EQUAL, 0, 1, family), (_RETURN, 0, 0, _ALLOW))]
    load = [(_LOAD, 0, 0, _FIRST_ARGUMENT)] if allowed else []
    block = [*load, *for_sockets, (_RETURN, 0, 0, _ERRNO | _EPERM)]
    refused += [(_JUMP_EQUAL, 0, len(block), machine.numbers["socket"]), *block]
    lines = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_EQUAL, 1, 0, machine.architecture),
        (_RETURN, 0, 0, _KILL_PROCESS),
        (_LOAD, 0, 0, _NUMBER),
        (_JUMP_BITS, 0, 1, _X32),
        (_RETURN, 0, 0, _ERRNO | _ENOSYS),
        *refused,
        (_RETURN, 0, 0, _ALLOW),
    ]
    return b"".join(struct.pack("=HBBI", *line) for line in lines)


def _refusal(number: int) -> list[tuple[int, int, int, int]]:
    return [(_JUMP_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERRNO | _EPERM)]


_LAYERS = {
    "rlimits": _Layer(_rlimits_problem, _apply_rlimits),
    "landlock": _Layer(_landlock_problem, _apply_landlock),
    "seccomp": _Layer(_seccomp_problem, _apply_seccomp),
}

_PR_SET_NO_NEW_PRIVS = 38
_INET, _INET6 = 2, 10


def _syscall(number: int, *arguments: int | bytes | None) -> int:
    """Makes a system call that Python's standard library lacks; the kernel only reads the bytes.

    Raises:
        OSError: it failed.
    """
    import ctypes

    words = [ctypes.c_long(word) if isinstance(word, int) else word for word in arguments]
    return _checked(_libc().syscall(ctypes.c_long(number), *words))


def unshare(flags: int) -> None:
    """Moves this process into new namespaces; Python has this since 3.12.

    Raises:
        OSError: the kernel does not allow it.
    """
    _checked(_libc().unshare(flags))


def _no_new_privileges() -> None:
    """Prevents later programs of this process from gaining privileges, which the other layers require."""
    _checked(_libc().prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))


@functools.cache
def _libc() -> ctypes.CDLL:
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int) -> int:
    if result < 0:
        import ctypes

        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


class SyscallTable(NamedTuple):
    """The numbers of the system calls on one architecture (Linux's asm/unistd_64.h and asm-generic/unistd.h)."""

    architecture: int
    """AUDIT_ARCH_… of linux/audit.h"""
    numbers: dict[str, int]


# The calls of a running interpreter: memory, clocks, waiting, and the descriptors it already has.
_COMPUTE = frozenset(
    "read write readv writev close fstat lseek mmap mprotect munmap mremap brk madvise "
    "rt_sigaction rt_sigprocmask rt_sigreturn sigaltstack futex sched_yield sched_getaffinity getcpu "
    "nanosleep clock_nanosleep clock_gettime clock_getres gettimeofday time getpid gettid getppid "
    "getuid geteuid getgid getegid getrandom getrusage getrlimit exit exit_group restart_syscall rseq set_robust_list "
    "poll ppoll select pselect6 recvfrom recvmsg sendto sendmsg sysinfo uname fcntl membarrier setitimer".split()
)

ALLOWED_SYSCALLS: dict[str, frozenset[str]] = {
    # The runs of one program: no file is opened, no process or thread started, nothing signalled, no limit changed.
    "guest": _COMPUTE,
    # The parent of guests, which applies the above to them: it forks, and sets limits.
    "zygote": _COMPUTE | frozenset("clone fork set_tid_address wait4 prctl prlimit64 seccomp".split()),
    # A program that is yet to be loaded: it opens its libraries (Landlock restricts which) and starts threads.
    "program": _COMPUTE
    | frozenset(
        "execve open openat newfstatat access faccessat faccessat2 readlink readlinkat pread64 statx stat lstat "
        "arch_prctl set_tid_address prctl prlimit64 pipe2 epoll_create1 epoll_ctl epoll_wait "
        "epoll_pwait eventfd2 getcwd dup".split()
    ),
}
OFFLINE = "offline"
"""The profile that refuses new sockets, and nothing else."""
TCP_ONLY = "internet"
"""The same, but for sockets of the internet, for a process whose network leads nowhere."""
THREADS_ONLY = frozenset({"program"})
"""Profiles that may start threads, but no processes."""

# fmt: off
SYSCALL_TABLES = {
    "x86_64": SyscallTable(0xC000003E, {
        "read": 0, "write": 1, "open": 2, "close": 3, "stat": 4, "fstat": 5, "lstat": 6, "poll": 7, "lseek": 8,
        "mmap": 9, "mprotect": 10, "munmap": 11, "brk": 12, "rt_sigaction": 13, "rt_sigprocmask": 14,
        "rt_sigreturn": 15, "pread64": 17, "readv": 19, "writev": 20, "access": 21, "select": 23, "sched_yield": 24,
        "mremap": 25, "madvise": 28, "dup": 32, "nanosleep": 35, "setitimer": 38, "getpid": 39, "sendto": 44,
        "recvfrom": 45, "sendmsg": 46, "recvmsg": 47, "clone": 56, "fork": 57, "execve": 59, "exit": 60, "wait4": 61,
        "uname": 63, "fcntl": 72, "getcwd": 79, "readlink": 89, "gettimeofday": 96, "getrlimit": 97, "getrusage": 98,
        "sysinfo": 99, "getuid": 102, "getgid": 104, "geteuid": 107, "getegid": 108, "getppid": 110,
        "sigaltstack": 131, "prctl": 157, "arch_prctl": 158, "gettid": 186, "time": 201, "futex": 202,
        "sched_getaffinity": 204, "set_tid_address": 218, "restart_syscall": 219, "clock_gettime": 228,
        "clock_getres": 229, "clock_nanosleep": 230, "exit_group": 231, "epoll_wait": 232, "epoll_ctl": 233,
        "openat": 257, "newfstatat": 262, "readlinkat": 267, "faccessat": 269, "pselect6": 270, "ppoll": 271,
        "set_robust_list": 273, "epoll_pwait": 281, "eventfd2": 290, "epoll_create1": 291, "pipe2": 293,
        "prlimit64": 302, "getcpu": 309, "seccomp": 317, "getrandom": 318, "membarrier": 324, "statx": 332,
        "rseq": 334, "clone3": 435, "faccessat2": 439, "socket": 41, "io_uring_setup": 425,
    }),
    "aarch64": SyscallTable(0xC00000B7, {
        "getcwd": 17, "eventfd2": 19, "epoll_create1": 20, "epoll_ctl": 21, "epoll_pwait": 22, "dup": 23, "fcntl": 25,
        "faccessat": 48, "openat": 56, "close": 57, "pipe2": 59, "lseek": 62, "read": 63, "write": 64, "readv": 65,
        "writev": 66, "pread64": 67, "pselect6": 72, "ppoll": 73, "readlinkat": 78, "newfstatat": 79, "fstat": 80,
        "exit": 93, "exit_group": 94, "set_tid_address": 96, "futex": 98, "set_robust_list": 99, "nanosleep": 101,
        "setitimer": 103, "clock_gettime": 113, "clock_getres": 114, "clock_nanosleep": 115,
        "sched_getaffinity": 123, "sched_yield": 124, "restart_syscall": 128, "sigaltstack": 132,
        "rt_sigaction": 134, "rt_sigprocmask": 135, "rt_sigreturn": 139, "uname": 160, "getrlimit": 163,
        "getrusage": 165, "prctl": 167, "getcpu": 168, "gettimeofday": 169, "getpid": 172, "getppid": 173,
        "getuid": 174, "geteuid": 175, "getgid": 176, "getegid": 177, "gettid": 178, "sysinfo": 179, "sendto": 206,
        "recvfrom": 207, "sendmsg": 211, "recvmsg": 212, "brk": 214, "munmap": 215, "mremap": 216, "clone": 220,
        "execve": 221, "mmap": 222, "mprotect": 226, "madvise": 233, "wait4": 260, "prlimit64": 261, "seccomp": 277,
        "getrandom": 278, "membarrier": 283, "statx": 291, "rseq": 293, "clone3": 435, "faccessat2": 439,
        "socket": 198, "io_uring_setup": 425,
    }),
}
# fmt: on
