"""Landlock: denies file access, TCP, and signals or abstract sockets to outside processes.

The kernel interface is described in linux/landlock.h and in the kernel's Documentation/userspace-api/landlock.rst.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys

from guardagent.sandbox._hardening import _linux
from guardagent.sandbox.hardening import Profile

# The same on every architecture.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_CREATE_RULESET_VERSION = 1
_RULE_PATH_BENEATH = 1
_EXECUTE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 2, 1 << 3
_NET_BIND_AND_CONNECT = 0b11
_SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS = 0b11
_FS_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}  # the number of file rights, by version of the interface


def problem() -> str:
    if sys.platform != "linux":
        return "Landlock needs Linux; run on Linux 5.13 or newer"
    try:
        _version()
    except OSError as error:
        return (
            f"the kernel offers no Landlock ({error.strerror}); use Linux 5.13 or newer with 'landlock' in its 'lsm=' "
            "list, and a container whose seccomp profile allows the 'landlock_*' calls"
        )
    return ""


def apply(profile: Profile) -> None:
    version = _version()
    files = (1 << _FS_RIGHTS.get(version, 16)) - 1
    attributes = struct.pack(
        "=QQQ",
        files,
        _NET_BIND_AND_CONNECT if version >= 4 else 0,
        _SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS if version >= 6 else 0,
    )
    size = 8 if version < 4 else 16 if version < 6 else 24
    ruleset = _linux.syscall(_CREATE_RULESET, ctypes.create_string_buffer(attributes, 24), size, 0)
    for path in profile.readable:
        _allow(ruleset, path)
    _linux.no_new_privileges()
    _linux.syscall(_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _version() -> int:
    return _linux.syscall(_CREATE_RULESET, None, 0, _CREATE_RULESET_VERSION)


def _allow(ruleset: int, path: str) -> None:
    """Allows reading and executing below a path; a missing path needs no rule."""
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    rights = _EXECUTE | _READ_FILE | (_READ_DIR if os.path.isdir(path) else 0)  # noqa: PTH112 - pathlib is slow to load
    rule = ctypes.create_string_buffer(struct.pack("=Qi", rights, opened), 12)
    _linux.syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, rule, 0)
    os.close(opened)
