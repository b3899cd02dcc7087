"""All commands of a script, with those that other commands run."""

from __future__ import annotations

from collections.abc import Iterator

from guardagent.packs.shell.commands import inner_commands, inner_scripts
from guardagent.packs.shell.script import ShellCommand, read_script

_MAX_DEPTH = 8


def all_commands(text: str, depth: int = 0) -> Iterator[ShellCommand | None]:
    """Yields the commands of a script and those inside of them; None for a part that is only known when it runs."""
    if depth > _MAX_DEPTH:
        yield None
        return
    script = read_script(text)
    if not script.readable:
        yield None
    for command in script.commands:
        yield from _with_inner(command, depth)


def _with_inner(command: ShellCommand, depth: int) -> Iterator[ShellCommand | None]:
    if depth > _MAX_DEPTH:
        yield None
        return
    yield command
    if command.folder is None or any(not word for word in (*command.words, *command.writes)):
        yield None
    for inner in inner_commands(command):
        yield from _with_inner(inner, depth + 1)
    for script in inner_scripts(command):
        yield from (None,) if script is None else all_commands(script, depth + 1)
