"""Starts a command that may only use some files, folders and hosts, as the operating system enforces it.

`python -m guardagent.sandbox.confined_command SETTINGS COMMAND...` confines itself and becomes the command.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from guardagent.errors import InputError
from guardagent.sandbox import confined_network, hardening

SYSTEM = (
    *"/usr /bin /sbin /lib /lib32 /lib64 /nix/store /etc/ld.so.cache /etc/alternatives".split(),
    *"/etc/ssl /etc/ca-certificates".split(),
    *"/etc/passwd /etc/group /etc/hosts /etc/resolv.conf /etc/nsswitch.conf /etc/localtime /etc/mime.types".split(),
    *"/proc/cpuinfo /proc/meminfo /dev/zero /dev/random /dev/urandom".split(),
)
"""The files and folders that any program may need, which it may read and execute."""
_LANDLOCK = 3  # before, a program can cut off files that it may not write


@dataclass(frozen=True, slots=True)
class Confinement:
    """The files and folders of a command, and whether it gets the network.

    Attributes:
        read: it may read and execute these, and those of the system.
        write: it may change these, too.
        network: whether it gets the network.
        hosts: the hosts that it may reach through an HTTP proxy, as `HOST:PORT`; it has no other network.
    """

    read: Sequence[str] = ()
    write: Sequence[str] = ()
    network: bool = False
    hosts: Sequence[str] = ()

    def command(self, command: Sequence[str]) -> list[str]:
        """Returns the command that starts another one confined.

        Raises:
            InputError: this machine cannot confine it, or a path is missing.
        """
        if why := _problem(offline=not self.network) or (self.hosts and confined_network.problem()):
            raise InputError(f"the command cannot be confined: {why}")
        for path in (*self.read, *self.write):
            if not Path(path).exists():
                raise InputError(f"{path}: no such file or folder; expected one that the confined command may use")
        return [sys.executable, "-P", "-m", "guardagent.sandbox.confined_command", json.dumps(asdict(self)), *command]


def _problem(*, offline: bool) -> str:
    problems = hardening.problems()
    if problem := problems["landlock"] or (offline and problems["seccomp"]):
        return problem
    version = hardening.landlock_version()
    return "" if version >= _LANDLOCK else f"the kernel has Landlock {version}; use Linux 6.2 or newer, with Landlock 3"


def main(settings: str, command: Sequence[str]) -> None:
    """Confines this process, and replaces it by the command."""
    confinement = Confinement(**json.loads(settings))
    layers = ("landlock",) if confinement.network else ("landlock", "seccomp")
    writable, is_offline = (*confinement.write, os.devnull), not (confinement.network or confinement.hosts)
    calls = hardening.TCP_ONLY if confinement.hosts else hardening.OFFLINE
    profile = hardening.Profile(calls, (*SYSTEM, *confinement.read), writable=writable, is_offline=is_offline)
    try:
        if confinement.hosts:
            proxy = f"http://127.0.0.1:{confined_network.enter(confinement.hosts)}"
            os.environ.update(dict.fromkeys(confined_network.VARIABLES, proxy), NODE_USE_ENV_PROXY="1")
        hardening.apply(layers, profile)
        os.execvp(command[0], list(command))  # noqa: S606 - the purpose of this module
    except OSError as error:
        expected = "expected a program in a folder of the system or of --confine-read"
        sys.exit(f"guardagent: {command[0]!r} cannot be started confined: {error.strerror}; {expected}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
