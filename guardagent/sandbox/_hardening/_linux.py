"""System calls that Python's standard library lacks."""

from __future__ import annotations

import ctypes
import functools
import os

_PR_SET_NO_NEW_PRIVS = 38


def syscall(number: int, *arguments: int | ctypes.Array[ctypes.c_char] | None) -> int:
    """Makes a system call.

    Raises:
        OSError: it failed.
    """
    words = [ctypes.c_long(word) if isinstance(word, int) else word for word in arguments]
    return _checked(_libc().syscall(ctypes.c_long(number), *words))


def no_new_privileges() -> None:
    """Prevents later programs of this process from gaining privileges, which the other layers require."""
    _checked(_libc().prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
