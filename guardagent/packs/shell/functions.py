"""The functions of the pack's rules."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from guardagent.packs.shell.findings import argument_kinds, shell_kinds
from guardagent.packs.shell.script import require_parser

require_parser()
_COMMANDS = (
    "command",
    "cmd",
    "script",
    "commands",
    "bash_command",
    "shell_command",
    "command_line",
    "argv",
    "code",
    "input",
)
_FOLDERS = ("cwd", "workdir", "working_directory", "working_dir", "directory", "dir")


def shell_findings(arguments: dict[str, Any], workspace: str) -> list[str] | None:
    """The kinds of danger in the arguments of a call that runs a shell command; None if there is no command.

    The command is the value of `command`, `cmd`, `script`, ...; without such an argument, every string is read as one.
    A list is a command without a shell.
    """
    named = {key: value for key, value in arguments.items() if key.lower() in _COMMANDS}
    folders = [str(value) for key, value in arguments.items() if key.lower() in _FOLDERS and value]
    texts = named or {
        key: value for key, value in arguments.items() if isinstance(value, str) and key.lower() not in _FOLDERS
    }
    if not texts:
        return None
    folder = folders[0] if folders else ""
    return sorted({kind for key, value in texts.items() for kind in _kinds(key, value, workspace, folder)} - {""})


def _kinds(key: str, value: Any, workspace: str, folder: str) -> Iterator[str]:
    if isinstance(value, str):
        yield from _of_text(value, workspace, folder)
    elif isinstance(value, list) and value and all(isinstance(word, str) for word in value):
        yield from argument_kinds(value, workspace, folder)
        if key.lower() == "commands" or any(any(sign.isspace() for sign in word) for word in value[:1]):
            for command_text in value:
                yield from _of_text(command_text, workspace, folder)
    else:
        yield "unreadable"


@lru_cache(1024)
def _of_text(text: str, workspace: str, folder: str) -> frozenset[str]:
    return shell_kinds(text, workspace, folder)
