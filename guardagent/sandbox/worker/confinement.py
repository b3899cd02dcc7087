"""Confines this process with the hardening layers and replaces it with another program."""

from __future__ import annotations

import os
import sys

from guardagent.sandbox import hardening

# Folders of shared libraries. Their other content is not secret, and runs behind the same layers.
_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache", "/nix/store")
_MEMORY_BYTES = 4 * 1024**3  # a backstop behind the interpreter's own limit, which each run sets


def main(arguments: tuple[str, tuple[str, ...]]) -> None:
    """Executes the program `arguments[0]`, with this process's own arguments, behind the layers `arguments[1]`."""
    program, layers = arguments
    os.closerange(3, min(65536, os.sysconf("SC_OPEN_MAX")))
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    os.chdir("/")
    try:
        hardening.apply(layers, hardening.Profile("program", (program, *_LIBRARIES), _MEMORY_BYTES))
    except OSError:
        os._exit(70)  # the host notices that the worker did not start
    os.execve(program, [program, *sys.argv[1:]], {})  # noqa: S606 - the purpose of this module
