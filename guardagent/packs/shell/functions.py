"""The functions of the pack's rules."""

from __future__ import annotations

import json
import posixpath
import re
import shlex
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from guardagent.packs import named_values, plain_name
from guardagent.packs.shell.commands import Files, WrittenFile
from guardagent.packs.shell.findings import argument_kinds, kinds_after, shell_kinds
from guardagent.packs.shell.packages import allowed, is_pinned, packages_in, packages_of_file, resembles
from guardagent.packs.shell.paths import places
from guardagent.packs.shell.script import require_parser

require_parser()
_COMMANDS = "command cmd script commands bash_command shell_command command_line argv code input".split()
_FOLDERS = ("cwd", "workdir", "working_directory", "working_dir", "directory", "dir")


def shell_findings(
    arguments: dict[str, Any], workspace: str, folders: Sequence[str] = (), protected: Sequence[str] = ()
) -> list[str] | None:
    """The kinds of danger in the arguments of a call that runs a shell command; None if there is no command.

    The command is the value of `command`, `cmd`, `script`, ...; without such an argument, every string is read as one.
    A list is a command without a shell.

    Args:
        arguments: the arguments.
        workspace: the absolute folder where everything may be changed; empty for the working folder.
        folders: further ones.
        protected: paths that must stay as they are, absolute or in the workspace.
    """
    workspace = places(workspace, folders, protected) if folders or protected else workspace
    if all(type(value) is str for value in arguments.values()):
        kinds = _of_strings(tuple(arguments.items()), workspace)
        return None if kinds is None else list(kinds)
    return _of_arguments(arguments, workspace)


@lru_cache(1024)  # each rule reads the same arguments
def _of_strings(arguments: tuple[tuple[str, str], ...], workspace: str) -> list[str] | None:
    return _of_arguments(dict(arguments), workspace)


def _of_arguments(arguments: dict[str, Any], workspace: str) -> list[str] | None:
    named = {key: value for key, value in arguments.items() if key.lower() in _COMMANDS}
    texts = named or {
        key: value for key, value in arguments.items() if isinstance(value, str) and key.lower() not in _FOLDERS
    }
    if not texts:
        return None
    folder = next(_folders(arguments), "")
    kinds = {kind for key, value in texts.items() for kind in _kinds(key, value, workspace, folder)}
    return sorted(kinds - {""})


def other_packages(arguments: dict[str, Any], listed: list[str], runs: bool = False) -> list[str]:  # noqa: FBT001, FBT002 - rules call it
    """The packages, images and MCP servers from outside that a list lacks; none if the list is empty.

    A shell command takes them, or a file names them that a tool writes.

    Args:
        arguments: the arguments of the call.
        listed: the list.
        runs: whether the tool runs commands, so that a text beside a path may be one.
    """
    return [name for name in _packages_of(arguments, runs=runs) if not allowed(name, listed)] if listed else []


def unpinned_packages(arguments: dict[str, Any], runs: bool = False) -> list[str]:  # noqa: FBT001, FBT002 - as above
    """The packages and images that a shell command takes from outside without an exact version or a digest."""
    return [name for name in _packages_of(arguments, runs=runs) if not is_pinned(name)]


def similar_packages(arguments: dict[str, Any], listed: list[str], runs: bool = False) -> list[str]:  # noqa: FBT001, FBT002 - rules call it
    """The packages from outside whose name is nearly that of a much-used one, and that a list lacks."""
    near = [name for name in _packages_of(arguments, runs=runs) if resembles(name) is not None]
    return [name for name in near if not allowed(name, listed)]


def _packages_of(arguments: dict[str, Any], *, runs: bool) -> dict[str, None]:
    paths, contents = _written(arguments)
    texts = list(_texts(arguments))
    strings = [(plain_name(key), value) for key, value in arguments.items() if isinstance(value, str)]
    written = contents or [text for _, text in strings if not texts]
    names = [name for path in paths for text in written for name in packages_of_file(path, text)]
    texts = _commands(arguments) if runs else texts
    texts += [text for key, text in strings if not (paths and (key in _CONTENTS or _EDITS.match(key)))]
    return dict.fromkeys([*names, *(name for text in dict.fromkeys(texts) for name in _packages(text))])


@lru_cache(1024)
def _packages(text: str) -> tuple[str, ...]:
    return tuple(packages_in(text))


_PREPARES = re.compile(r">|\(\)|\b(?:alias|function|tee|curl|wget|cp|mv|ln|dd|git|unzip|tar|cd|pushd)\b")
_PATHS = frozenset("path filepath filename file targetfile absolutepath".split())
_CONTENTS = {*"content contents filetext newstring newstr newtext text code codeedit insert inserttext data".split()}
_EDITS = re.compile("old|diff|patch|search|replace")  # what a file had before, or its change


def prepares(
    earlier: dict[str, Any],
    arguments: dict[str, Any],
    workspace: str,
    folders: Sequence[str] = (),
    protected: Sequence[str] = (),
    ran: bool = False,  # noqa: FBT001, FBT002 - as above
) -> bool:
    """Whether a shell command is dangerous only because of an earlier call.

    That call wrote or downloaded a file that the command runs, or defined a function, an alias or a remote repository.

    Args:
        earlier: the arguments of the earlier call of a shell, or of a tool that writes files.
        arguments: the arguments of the command.
        workspace: the absolute folder where everything may be changed; empty for the working folder.
        folders: further ones.
        protected: paths that must stay as they are, as for `shell_findings`.
        ran: whether the tool of the earlier call runs commands.
    """
    workspace = places(workspace, folders, protected) if folders or protected else workspace
    texts = _commands(arguments)
    paths, contents = _written(earlier)
    if contents and any(_runs_file(path, "\n".join(contents), text, workspace) for path in paths for text in texts):
        return True
    before = [text for text in (_commands(earlier) if ran else _texts(earlier)) if _PREPARES.search(text)]
    folder = next(_folders(arguments), "")
    return any(_kinds_after(first, text, workspace, folder) for first in before for text in texts)


def _written(arguments: dict[str, Any]) -> tuple[list[str], list[str]]:
    """The paths and the texts of a call that writes a file."""
    paths = [path for path in named_values(arguments, _PATHS) if isinstance(path, str)]
    contents = [value for value in named_values(arguments, _CONTENTS) if isinstance(value, str | dict | list)]
    return paths, [value if isinstance(value, str) else json.dumps(value, default=str) for value in contents]


def _folders(arguments: dict[str, Any]) -> Iterator[str]:
    yield from (str(value) for key, value in arguments.items() if key.lower() in _FOLDERS and value)


def _texts(arguments: dict[str, Any]) -> Iterator[str]:
    for value in named_values(arguments, {name.replace("_", "") for name in _COMMANDS}):
        if isinstance(value, str):
            yield value
        elif isinstance(value, list) and all(isinstance(word, str) for word in value):
            yield shlex.join(value)


def _commands(arguments: dict[str, Any]) -> list[str]:
    """The commands of a call that runs some: those with a name for it, else every string, as in `shell_findings`."""
    strings = [value for key, value in arguments.items() if isinstance(value, str) and key.lower() not in _FOLDERS]
    return list(_texts(arguments)) or strings


@lru_cache(1024)
def _runs_file(path: str, content: str, text: str, workspace: str) -> bool:
    files = Files({posixpath.normpath(path): WrittenFile((), content)})
    return bool(shell_kinds(text, workspace, "", files) - _of_text(text, workspace, ""))


@lru_cache(1024)
def _kinds_after(before: str, text: str, workspace: str, folder: str) -> frozenset[str]:
    return kinds_after(before, text, workspace, folder)


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
