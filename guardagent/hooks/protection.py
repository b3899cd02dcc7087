"""Denies what would change the guard itself: its policy, its state, the hooks and their settings, by any tool."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import islice
from typing import Any

from guardagent.hooks.calls import SHELL_TOOLS, real_path
from guardagent.packs.shell.commands import all_commands
from guardagent.packs.shell.foreign_code import INTERPRETERS, code_effects, inline_code
from guardagent.packs.shell.script import ShellCommand

_READING = frozenset(
    "cat less more head tail grep egrep fgrep rg ls stat file wc diff cmp md5sum sha256sum jq tree du find fd bat nl "
    "cut sort uniq realpath readlink basename dirname test [ [[ echo printf pwd cd true which type".split()
)
_READING_TOOLS = re.compile(
    r"(?:Read|Grep|Glob|LS|NotebookRead|(?:.*__)?(?:read|list|search|grep|glob|get|find|view)_?\w*)"
)
_WRITING_OPTIONS = frozenset(
    ("-delete", "-exec", "-execdir", "-ok", "-okdir", "-fprint", "-fls", "-o", "--output", "--in-place")
)
_OWN_COMMANDS = re.compile(r"hook\s+(?:install|uninstall)|guardagent[\w./-]*\s+watch|hook_daemon|hooks[./]client")
# Commands that change folders with all that is in them.
_WHOLE_FOLDERS = frozenset(("rm", "mv", "rmdir", "shred", "chmod", "chown", "chattr", "rsync", "ln", "mount", "find"))
_PACKAGE_MANAGERS = frozenset("pip pip3 pipx uv poetry pdm conda mamba".split())
_LONGEST_PATH = 4096
_MAX_MATCHES, _MAX_COMMANDS = 1000, 2000
_REASON = "This would change what guards this agent: {}. Only its operator may."


class Protection:
    """The protected files and folders.

    Args:
        paths: absolute paths; what lies in a folder is protected, too.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        named = [os.path.abspath(path) for path in paths if path]
        self._paths = tuple(dict.fromkeys([*named, *map(os.path.realpath, named)]))
        self._tails = tuple({"/".join(path.split("/")[-2:]) for path in self._paths})

    def problem(self, tool: str, args: Mapping[str, Any], cwd: str) -> str | None:
        """Returns why a call is denied; None if it leaves the guard alone."""
        if tool in SHELL_TOOLS:
            texts = [value for name, value in args.items() if name in ("command", "cmd", "script") and value]
            return next(
                (problem for text in texts if (problem := self._of_command(text, args.get("cwd") or cwd))), None
            )
        if _READING_TOOLS.fullmatch(tool):
            return None
        touched = next((touched_path for text in _strings(args) if (touched_path := self._touched(text, cwd))), None)
        return None if touched is None else _REASON.format(touched)

    def _touched(self, text: str, cwd: str) -> str | None:
        """Returns the protected path that a string names or contains."""
        return (self._reached(text, cwd, holders=True) if _is_path(text) else None) or self._mentioned(text)

    def _mentioned(self, text: str) -> str | None:
        """Returns the end of a protected path that a string contains, as code does."""
        return next((tail for tail in self._tails if tail in text), None)

    def _reached(self, path: str, cwd: str, *, holders: bool) -> str | None:
        """Returns the protected path that a path is or lies in; with `holders`, also one that lies in the path."""
        for expanded_path in _expanded(os.path.join(cwd or os.sep, os.path.expanduser(path))):
            for whole in {os.path.normpath(expanded_path), real_path(expanded_path, cwd)}:
                for protected in self._paths:
                    if (
                        _is_in(whole, protected)
                        or _is_below(protected, whole)
                        or (holders and _is_in(protected, whole))
                    ):
                        return protected
        return None

    # --- shell commands

    def _of_command(self, command: Any, cwd: str) -> str | None:
        text = command if isinstance(command, str) else " ".join(map(str, command)) if isinstance(command, list) else ""
        if _OWN_COMMANDS.search(text):
            return _REASON.format("its hooks")
        commands = list(islice(all_commands(text), _MAX_COMMANDS))
        for simple_command in commands:
            if simple_command is None:  # unknown: what it says must not even name the guard
                target = next((tail for tail in self._tails if tail in text), None)
            else:
                target = self._of_simple(simple_command, cwd)
            if target is not None:
                return _REASON.format(target)
        return None

    def _of_simple(self, command: ShellCommand, cwd: str) -> str | None:
        folder = os.path.join(cwd, os.path.expanduser(command.folder)) if command.folder else cwd
        written = (value for word in command.writes for value in word)
        if target := next((path for value in written if (path := self._touched(value, folder))), None):
            return target
        if _removes_package(command):
            return "its package"
        if _only_reads(command):
            return None
        if target := self._of_code(command, folder):
            return target
        values = [value for word in command.words[1:] for value in word]
        named = (self._named(value, folder, holders=command.name in _WHOLE_FOLDERS) for value in values)
        return next((named_path for named_path in named if named_path), None)

    def _of_code(self, command: ShellCommand, folder: str) -> str | None:
        """Returns the protected path that the code of an interpreter may change."""
        if not INTERPRETERS.fullmatch(command.name or ""):
            return None
        texts = [command.text, *(source.text for source in command.sources), *(inline_code(command.words) or ())]
        texts += [value for source in command.sources for word in source.words[1:] for value in word]
        for text in filter(None, texts):
            effects = code_effects(command.name or "", text)
            if effects is None:  # it is denied or asked about; it must not even name the guard
                if of_code := self._mentioned(text) or self._like(re.findall(r"[\w.*?-]+", text), folder):
                    return of_code
            elif effects.writes:
                strings = [*effects.files, *effects.others]
                reached = (self._reached(string, folder, holders=False) for string in strings if _is_path(string))
                if of_code := self._like(strings, folder) or next((path for path in reached if path), None):
                    return of_code
        return None

    def _like(self, strings: Iterable[str], folder: str) -> str | None:
        """Returns the protected file whose name a string in code has; also one of the folder, by a pattern."""
        parts = {string.rpartition("/")[2] for string in strings}
        for path in self._paths:
            name = os.path.basename(path)
            is_near = _is_in(path, folder) and any(fnmatchcase(name, part) for part in parts)
            if "." in name[1:] and (name in parts or is_near):
                return path
        return None

    def _named(self, value: str, folder: str, *, holders: bool) -> str | None:
        for part in (value, value.partition("=")[2]):
            if _is_path(part) and (path := self._reached(part, folder, holders=holders)):
                return path
        return self._mentioned(value)


def _is_path(text: str) -> bool:
    return 0 < len(text) < _LONGEST_PATH and "\n" not in text and not text.startswith("-")


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _is_below(path: str, pattern: str) -> bool:
    """Whether a path is one of `folder/**` or `folder/**/name`, as the outputs of commands that list files are."""
    folder, deep, name = pattern.partition("/**")
    return bool(deep) and _is_in(path, folder or "/") and fnmatchcase(os.path.basename(path), name.strip("/") or "*")


def _only_reads(command: ShellCommand) -> bool:
    options = {value.partition("=")[0] for word in command.words[1:] for value in word}
    return command.name in _READING and not options & _WRITING_OPTIONS


def _removes_package(command: ShellCommand) -> bool:
    """Whether a package manager removes this package, or replaces it by a version that is named."""
    words = [word[0] if word else "" for word in command.words]
    if command.name not in _PACKAGE_MANAGERS and words[1:3] != ["-m", "pip"]:
        return False
    is_removed = bool({"uninstall", "remove", "rm"} & set(words)) and "guardagent" in (
        re.split(r"[\[=]", word)[0].lower() for word in words[1:]
    )
    return is_removed or any(
        re.match(r"guardagent(?:\[[\w,-]*\])?\s*(?:[=<!~]=|<|@)", word, re.IGNORECASE) for word in words
    )


def _expanded(path: str) -> Sequence[str]:
    """Returns the files that a pattern matches, and the pattern itself."""
    if not any(sign in path for sign in "*?["):
        return (path,)
    return (path, *islice(glob.iglob(path), _MAX_MATCHES))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, part in value.items():
            yield from _strings(name)
            yield from _strings(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _strings(part)
