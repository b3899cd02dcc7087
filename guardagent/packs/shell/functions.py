"""The functions of the pack's rules."""

from __future__ import annotations

import json
import posixpath
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from guardagent.packs import named_values, plain_name, strings
from guardagent.packs.shell.commands import Files, WrittenFile
from guardagent.packs.shell.findings import argument_kinds, kinds_after, shell_kinds
from guardagent.packs.shell.packages import allowed, is_pinned, packages_in, packages_of_file, resembles
from guardagent.packs.shell.paths import places
from guardagent.packs.shell.script import require_parser

require_parser()
_COMMANDS = "command cmd script commands bash_command shell_command command_line argv code input".split()
_NAMES = {plain_name(name) for name in _COMMANDS} - {"commands"}
_PROGRAMS = _NAMES - {"argv", "code", "input"} | {"program", "executable", "binary"}
_ARGUMENTS = {"args", "arguments", "argv", "commandargs", "cmdargs"}
_OPTIONS = {"options", "flags", "switches"}  # words of the program if they are a list; else settings of the tool
_ENVIRONMENT = {"env", "environment", "envvars", "environmentvariables"}
_PROSE = {"description", "explanation", "language"}
_FOLDERS = ("cwd", "workdir", "working_directory", "working_dir", "directory", "dir")
_SCALARS = {str, int, float, bool, type(None)}
_Command = str | tuple[str, ...]  # a script, or the words of a command without a shell; none if it cannot be read


def shell_findings(
    arguments: dict[str, Any], workspace: str, folders: Sequence[str] = (), protected: Sequence[str] = ()
) -> list[str] | None:
    """The kinds of danger in the arguments of a call that runs a shell command; None if there is no command.

    The command is the value of `command`, `cmd`, `script`, ...; without such an argument, every string is read as one,
    and a list or an object is unreadable, except the environment. A list is a command without a shell. `args` belong to
    the program there, and so does a list of `options`.

    Args:
        arguments: the arguments.
        workspace: the absolute folder where everything may be changed; empty for the working folder.
        folders: further ones.
        protected: paths that must stay as they are, absolute or in the workspace.
    """
    workspace = places(workspace, folders, protected) if folders or protected else workspace
    types = tuple(map(type, arguments.values()))
    if _SCALARS.issuperset(types):
        kinds = _of_scalars(tuple(arguments.items()), types, workspace)
        return None if kinds is None else list(kinds)
    return _of_arguments(arguments, workspace)


@lru_cache(1024)  # each rule reads the same arguments
def _of_scalars(arguments: tuple[tuple[str, Any], ...], _types: tuple[type, ...], workspace: str) -> list[str] | None:
    return _of_arguments(dict(arguments), workspace)


def _of_arguments(arguments: dict[str, Any], workspace: str) -> list[str] | None:
    if not (commands := _commands(arguments)):
        return None
    folder = next(_folders(arguments), "")
    return sorted({kind for command in commands for kind in _kinds(command, workspace, folder)} - {""})


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
    texts = _lines(_named(arguments))
    named = [(plain_name(key), value) for key, value in arguments.items() if isinstance(value, str)]
    written = contents or [text for _, text in named if not texts]
    names = [name for path in paths for text in written for name in packages_of_file(path, text)]
    texts = _lines(_commands(arguments)) if runs else texts
    texts += [text for key, text in named if not (paths and (key in _CONTENTS or _EDITS.match(key)))]
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
    texts = _lines(_commands(arguments))
    paths, contents = _written(earlier)
    if contents and any(_runs_file(path, "\n".join(contents), text, workspace) for path in paths for text in texts):
        return True
    before = [text for text in _lines((_commands if ran else _named)(earlier)) if _PREPARES.search(text)]
    folder = next(_folders(arguments), "")
    return any(_kinds_after(first, text, workspace, folder) for first in before for text in texts)


def _written(arguments: dict[str, Any]) -> tuple[list[str], list[str]]:
    """The paths and the texts of a call that writes a file."""
    paths = [path for path in named_values(arguments, _PATHS) if isinstance(path, str)]
    contents = [value for value in named_values(arguments, _CONTENTS) if isinstance(value, str | dict | list)]
    return paths, [value if isinstance(value, str) else json.dumps(value, default=str) for value in contents]


def _folders(arguments: dict[str, Any]) -> Iterator[str]:
    yield from (str(value) for key, value in arguments.items() if key.lower() in _FOLDERS and value)


def _commands(arguments: dict[str, Any]) -> list[_Command]:
    """The commands of a call that runs some: the reading of its arguments for all functions of the pack.

    They are those with a usual name; without one at the top, every string; and each program with its arguments. A
    command sets the variables of the environment. `code` and `input` may be for the program: they hide no other string.
    """
    commands, lines, settings = list(_named(arguments)), [], list[_Command]()
    names = {key.lower() for key, value in arguments.items() if _line(value) is not None}
    is_named = not names.isdisjoint({*_COMMANDS} - {"code", "input"})
    values = [(key, plain_name(key), value) for key, value in arguments.items() if isinstance(value, str | list | dict)]
    programs = [line for _, name, value in values if name in _PROGRAMS and (line := _line(value))]
    for key, name, value in values:
        is_part = name in _ARGUMENTS or (name in _OPTIONS and not isinstance(value, dict))
        line = _line(value) if is_part and programs else None
        if line:
            lines.append(line)
        elif value and name in _ENVIRONMENT and not isinstance(value, str):
            settings.append(_assignments(value))
        elif value and not isinstance(value, str) and name not in _NAMES and (is_part or not is_named):
            commands.append(())
        if isinstance(value, str) and not is_named and name not in _PROSE and key.lower() not in _FOLDERS:
            commands.append(value)
    if len(lines) > 1:  # only the tool knows their order; also each alone: an option such as '#' hides what follows
        lines += [" ".join(lines), " ".join(reversed(lines))]
    commands += [f"{program} {line}" for program in programs for line in lines]
    return commands + settings if commands else []  # variables alone are no command


def _assignments(variables: dict[str, Any] | list[Any]) -> _Command:
    """The command that sets variables: `{NAME: VALUE}` or `[NAME=VALUE]`."""
    items = variables.items() if isinstance(variables, dict) else [str(text).partition("=")[::2] for text in variables]
    is_readable = all(re.fullmatch(r"[A-Za-z_]\w*", str(name)) and type(value) in _SCALARS for name, value in items)
    return " ".join(f"{name}={shlex.quote(str(value))}" for name, value in items) if is_readable else ()


def _named(arguments: dict[str, Any]) -> Iterator[_Command]:
    """The commands with a usual name, at any depth."""
    for names in (_NAMES, {"commands"}):
        for value in named_values(arguments, names):
            if isinstance(value, str):
                yield value
                continue
            words = strings(value) or []
            yield tuple(words)
            if words and (names is not _NAMES or any(sign.isspace() for sign in words[0])):
                yield from words


def _lines(commands: Iterable[_Command]) -> list[str]:
    """The commands that can be read, each as a script."""
    return [line for command in commands if (line := _line(command))]


def _line(value: Any) -> str | None:
    return value if isinstance(value, str) else shlex.join(words) if (words := strings(value)) else None


@lru_cache(1024)
def _runs_file(path: str, content: str, text: str, workspace: str) -> bool:
    files = Files({posixpath.normpath(path): WrittenFile((), content)})
    return bool(shell_kinds(text, workspace, "", files) - _of_text(text, workspace, ""))


@lru_cache(1024)
def _kinds_after(before: str, text: str, workspace: str, folder: str) -> frozenset[str]:
    return kinds_after(before, text, workspace, folder)


def _kinds(command: _Command, workspace: str, folder: str) -> frozenset[str]:
    if isinstance(command, str):
        return _of_text(command, workspace, folder)
    return argument_kinds([*command], workspace, folder) if command else frozenset({"unreadable"})


@lru_cache(1024)
def _of_text(text: str, workspace: str, folder: str) -> frozenset[str]:
    return shell_kinds(text, workspace, folder)
