"""The system calls that a worker needs, and their numbers (Linux's asm/unistd_64.h and asm-generic/unistd.h)."""

from __future__ import annotations

from typing import NamedTuple


class SyscallTable(NamedTuple):
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

PROFILES: dict[str, frozenset[str]] = {
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
        "rseq": 334, "clone3": 435, "faccessat2": 439,
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
    }),
}
# fmt: on
