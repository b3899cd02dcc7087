"""The commands of a shell text as rules read them: `commands(text)`.

Everything is exact or unknown: a word that is only known when the script runs makes the arguments of its command
unknown, and a script of which any command may be hidden makes the whole list unknown.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import product, takewhile
from math import prod
from typing import Any

from guardagent.packs.shell import commands
from guardagent.packs.shell.script import DYNAMIC, UNKNOWN_WORD, ShellCommand, Word, read_script

MAX_DEPTH = 8
MAX_COMMANDS = 500
MAX_VECTORS = 64  # of a command whose words have several values, as in a loop

# Variables that can change which program a name stands for, or what a program runs.
_CHANGES_PROGRAMS = re.compile(
    r"PATH|HOME|IFS|ENV|SHELL|SHELLOPTS|CDPATH|PS[0-4]|VISUAL|PROMPT_COMMAND|GLOBIGNORE|POSIXLY_CORRECT|ZDOTDIR|FPATH"
    r"|\w*(?:PAGER|EDITOR|BROWSER|LESSOPEN|LESSCLOSE|PRELOAD|WRAPPER|ASKPASS)|LESS|\w*(?i:_proxy)|TMPDIR|TERMINFO|LC_ALL|LANG"
    r"|(?:LD|DYLD|BASH|ZSH|GIT|SSH|SUDO|XDG|GEM|BUNDLE|NODE|NPM|PNPM|YARN|BUN|DENO|JAVA|JDK|_JAVA|MAVEN|MVN|GRADLE|SBT"
    r"|CARGO|PIP|UV|POETRY|PDM|CONDA|CMAKE|DOCKER|COMPOSE|KUBE|HELM|AWS|TF|MYSQL|LUA|PHP|COMPOSER|ELIXIR|ERL|MIX|TCL|GCONV"
    r"|MALLOC|GLIBC|RSYNC|GREP|FZF|ESLINT|PYTEST|VITEST|JEST|OPENSSL|TAR|MAN|R)_\w*|(?i:npm_config_\w*)"
    r"|(?:PYTHON|PERL|RUBY|KUBECONFIG|MAKEFLAGS|RUST|PG|BASHOPTS|GCC_|CLASSPATH|GO(?!AL|OD|T\b|NE\b))\w*"
    r"|CC|CXX|LD|AR|CPP|CFLAGS|LDFLAGS|MAKE|GNUMAKEFLAGS"
)
_HARMLESS = re.compile(
    r"(?:GIT_)?PAGER=(?:cat|)|TMPDIR=/tmp|L(?:C_ALL|ANG)=[\w.-]*|(?:NO|no)_(?:PROXY|proxy)=[\w.,:-]*|(?:GIT_)?EDITOR=(?:true|:)|GIT_TERMINAL_PROMPT=0|NODE_ENV=\w*|GOOS=\w*|GOARCH=\w*"
    r"|PYTHON(?:UNBUFFERED|DONTWRITEBYTECODE|HASHSEED)=\w*|CARGO_TERM_COLOR=\w*|RUST_BACKTRACE=\w*|RUST_LOG=[\w=,:]*"
    r"|AWS_(?:DEFAULT_)?REGION=[\w-]*|GOFLAGS=-mod=\w+|MAKEFLAGS=-j\d*|PYTHONPATH=(?:(?:\.|src|lib|tests?)(?::|$))+"
)
# Wrappers that change nothing but when and how a program runs -> their options and operands, each with a NUL behind it.
_DURATION = r"\d+(?:\.\d+)?[smhd]?"
_SIGNALS = rf"-k\0{_DURATION}|-s\0\w+|--kill-after={_DURATION}|--signal=\w+|--foreground|--preserve-status|-v"
_TRANSPARENT = {
    "env": r"(?:-i\0|--\0|-u\0\w+\0|--unset=\w+\0|[A-Za-z_]\w*=[^\0]*\0)*",
    "timeout": rf"(?:(?:{_SIGNALS})\0)*{_DURATION}\0",
    "nice": r"(?:-n\0-?\d+\0|-n-?\d+\0|-\d+\0|--adjustment=-?\d+\0)?",
    "ionice": r"(?:-[cn]\0?\d\0)*",
    "stdbuf": r"(?:-[ioe]\0?[0L]\0)+",
    "time": r"(?:-p\0)?",
    **dict.fromkeys(("nohup", "setsid", "command", "exec"), ""),
}
_SHELLS = ("sh", "bash", "dash")
_SHELL_OPTIONS = re.compile(r"(?:-[celuvx]+\0|-[celuvx]*o\0pipefail\0|--\0)*")
_SHELL_SETTINGS = re.compile(r"(?:[-+][eux]+\0|[-+][eux]*o\0pipefail\0)+")
_FOLDERS = ("/bin", "/usr/bin", "/usr/local/bin")
_NOWHERE = ("/dev/null", "/dev/stdout", "/dev/stderr")
_GIVES_ARGUMENTS = ("find", "fd", "fdfind", "xargs", "parallel")
# `npm run test` is `npm test`.
SHORT_FORMS: dict[tuple[str | None, ...], tuple[str, str]] = {
    (name, run, task): (name, task)
    for name, run, task in product(("npm", "pnpm", "yarn"), ("run", "run-script"), ("test", "start"))
}


class UnreadableCommandsError(Exception):
    """Some of the commands are only known when the script runs."""


@lru_cache(1024)
def command_list(text: str) -> list[dict[str, Any]] | str:
    """The commands of a script, in order; a string says why they are unknown."""
    lister = _Lister()
    try:
        lister.of_script(text, "", (), 0)
    except UnreadableCommandsError as error:
        return str(error)
    return lister.records


Settings = tuple[tuple[str, Word], ...]


class _Lister:
    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []

    def of_script(self, text: str | None, folder: str | None, settings: Settings, depth: int) -> None:
        script = None if text is None or depth > MAX_DEPTH else read_script(text, folder, exact=True)
        if script is None or not script.readable:
            raise UnreadableCommandsError("a part of the commands is only known when they run")
        for command in script.commands:
            self.of_command(replace(command, settings=_joined(settings, command.settings)), depth)
        for name, word in script.settings:
            _require_harmless(name, word)

    def of_command(self, command: ShellCommand, depth: int, *, is_partial: bool = False) -> None:
        """Lists a command. `is_partial`: it gets more arguments when it runs."""
        for name, word in command.settings:
            _require_harmless(name, word)
        number = prod(max(1, len(word)) for word in command.words)
        if number > MAX_VECTORS or depth > MAX_DEPTH or len(self.records) > MAX_COMMANDS:
            raise UnreadableCommandsError("there are too many commands")
        for words in product(*(word or (None,) for word in command.words)):
            vector = tuple(DYNAMIC if word is None else (word,) for word in words)
            self._of_vector(replace(command, words=vector), depth, is_partial=is_partial)

    def _of_vector(self, command: ShellCommand, depth: int, *, is_partial: bool) -> None:
        is_alone = not is_partial and not _changes(command)
        if is_alone and (inner := _transparent(command)) is not None:
            self.of_command(inner, depth + 1)
        elif is_alone and (scripts := _own_script(command)) is not None:
            self.of_script(scripts[0], command.folder, command.settings, depth + 1)
        elif not is_alone or not _is_silent(command):
            self.records.append(_record(command, is_partial=is_partial))
            self._inside(command, depth, is_partial=is_partial)

    def _inside(self, command: ShellCommand, depth: int, *, is_partial: bool) -> None:
        if is_partial and commands.is_wrapper(command.name):  # it runs a program that its further arguments name
            self.records.append(_record(replace(command, words=(DYNAMIC,)), is_partial=True))
        for inner in _inner_commands(command):
            self.of_command(inner, depth + 1, is_partial=is_partial or command.name in _GIVES_ARGUMENTS)
        for text in (*commands.inner_scripts(command), *_input_of_shell(command)):
            self.of_script(text, command.folder, command.settings, depth + 1)


def _joined(settings: Settings, more: Settings) -> Settings:
    return tuple({**dict(settings), **dict(more)}.items())


def _require_harmless(name: str, word: Word) -> None:
    is_harmless = len(word) == 1 and _HARMLESS.fullmatch(f"{name}={word[0]}")
    if _CHANGES_PROGRAMS.fullmatch(name) and not is_harmless:
        raise UnreadableCommandsError(f"{name!r} is set, which can change what programs run")


def _changes(command: ShellCommand) -> list[Word]:
    """The targets of redirections, apart from those that keep nothing."""
    return [word for word in (*command.writes, *command.reads) if not (word and word[0] in _NOWHERE)]


def _is_usual(command: ShellCommand) -> bool:
    """Whether the program is the one that its name stands for, rather than a file of the project."""
    folder = posixpath.dirname(command.words[0][0]) if command.words and command.words[0] else ""
    return not folder or folder in _FOLDERS


def _known_text(words: Iterable[Word]) -> str:
    """The words up to the first unknown one, each with a NUL behind it."""
    return "".join(f"{word[0]}\0" for word in takewhile(bool, words))


def _transparent(command: ShellCommand) -> ShellCommand | None:
    """The command that a wrapper runs as it is, with the same rights and in the same folder; None for another one."""
    options = _TRANSPARENT.get(command.name or "")
    if options is None or not _is_usual(command):
        return None
    match = re.match(options, _known_text(command.words[1:]))
    before = match[0].split("\0")[:-1] if match else []
    rest = command.words[1 + len(before) :]
    if match is None or not rest or (rest[0] and rest[0][0].startswith("-")):
        return None
    set_here = tuple(
        (name, (value,))
        for name, sign, value in (text.partition("=") for text in before)
        if sign and name.isidentifier()
    )
    return replace(command, words=rest, settings=_joined(command.settings, set_here))


def _own_script(command: ShellCommand) -> tuple[str | None] | None:
    """The script that a shell runs in its place: that of `-c`, or its here-document; None for another command."""
    if command.name not in _SHELLS or not _is_usual(command):
        return None
    has_script, rest = commands.shell_words(command.words[1:])
    before = command.words[1 : len(command.words) - len(rest)]
    if not all(before) or not _SHELL_OPTIONS.fullmatch(_known_text(before)):
        return None
    if has_script:
        return (rest[0][0],) if rest and rest[0] else (None,)
    return (command.text,) if command.text is not None and not rest else None


def _input_of_shell(command: ShellCommand) -> Iterator[str | None]:
    """The input that a shell runs; None if it is not known."""
    if command.name in commands.SHELLS and not commands.shell_words(command.words[1:])[0]:
        operands = [
            word for word in commands.shell_words(command.words[1:])[1] if word not in (("-",), ("/dev/stdin",))
        ]
        if not operands and (command.sources or command.reads or command.text is not None):
            yield command.text if command.text is not None else commands.printed(command.sources)


def _is_silent(command: ShellCommand) -> bool:
    """Whether a command only changes what is said of the later ones, or passes a here-document on."""
    if command.name in ("cd", "pushd", "popd"):
        return _is_usual(command)
    if command.name == "set":
        return all(command.words) and _SHELL_SETTINGS.fullmatch(_known_text(command.words[1:])) is not None
    return not command.words or (command.words == (("cat",),) and command.text is not None)


def _inner_commands(command: ShellCommand) -> Iterator[ShellCommand]:
    if command.name == "find":
        for words in commands.executed_words(command.words):
            body = tuple(DYNAMIC if word and "{}" in word[0] else word for word in words)
            yield replace(command, words=body, sources=())
    elif (command.name, command.words[1:2]) not in (("command", (("-v",),)), ("command", (("-V",),))):
        yield from commands.inner_commands(command)


def _record(command: ShellCommand, *, is_partial: bool) -> dict[str, Any]:
    words = tuple(None if word == UNKNOWN_WORD else word[0] if word else "" for word in command.words)
    short = SHORT_FORMS.get(words[:3])
    is_known = not is_partial and all(command.words)
    return {
        "argv": None if not is_known else [*(short or words[:3]), *words[3:]],
        "name": "" if not command.words else None if command.words[0] == UNKNOWN_WORD else command.name,
        "reads": _files(command.reads),
        "writes": _files(command.writes),
        "cwd": None if command.folder is None else posixpath.normpath(command.folder or "."),
        "env": {name: None if len(word) != 1 or word == UNKNOWN_WORD else word[0] for name, word in command.settings},
    }


def _files(words: tuple[Word, ...]) -> list[str] | None:
    files = [value for word in words for value in word if value not in _NOWHERE]
    return files if all(words) and UNKNOWN_WORD not in words else None
