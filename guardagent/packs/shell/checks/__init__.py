"""The checks of single commands. Each module has `check(command, workspace)`, which yields kinds of danger."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from guardagent.packs.shell.checks import changes, code, deletions, network, packages, rights, secrets, services
from guardagent.packs.shell.script import ShellCommand

CHECKS: tuple[Callable[[ShellCommand, str], Iterator[str]], ...] = tuple(
    module.check for module in (secrets, deletions, changes, rights, network, packages, services, code)
)
