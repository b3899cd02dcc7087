"""Calls that would change what guards the agent: the state with the policy in force, hooks, settings, package.

The policy file that was copied may be read, copied and committed; what changes it is stopped, too.
"""
# Paths are strings that agents write.
# ruff: noqa: PTH100, PTH111, PTH110, PTH112, PTH118, PTH119, PTH207

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import islice, pairwise
from typing import Any

from guardagent.hooks.calls import PATCH_TOOLS, SHELL_TOOLS, real_path
from guardagent.packs.shell.checks import changed_words, find_roots, is_narrowed
from guardagent.packs.shell.commands import all_commands, operands, options, plain_words, value_after
from guardagent.packs.shell.foreign_code import INTERPRETERS, code_effects, inline_code
from guardagent.packs.shell.script import ShellCommand

_READING = frozenset(
    "cat less more head tail grep egrep fgrep rg ls stat file wc diff cmp md5sum sha256sum jq tree du find fd bat nl "
    "cut sort uniq realpath readlink basename dirname test [ [[ echo printf pwd cd true which type".split()
)
# Programs that check files, without options that change or write some.
_CHECKS = re.compile(
    r"(?!.* (?:-[a-zA-Z]*[oiw]|--(?:\S*(?:fix|write|output|file)|add-noqa|init|config|suppress|generate)))(?:"
    r"(?:flake8|pylint|pyright|eslint|shellcheck|yamllint|ruff check|(?:ruff format|prettier|black|isort) .*--check) )"
)
_READING_TOOLS = re.compile(
    r"(?:Read|Grep|Glob|LS|NotebookRead|Task|Agent|TodoWrite|WebFetch|WebSearch|AskUserQuestion|(?:.*__)?(?:read|list|search|grep|glob|get|find|view)_?\w*)"
)
# Editors, and their arguments that are contents, in which every name may stand.
_EDITORS = frozenset("Write Edit MultiEdit NotebookEdit StrReplace Delete write_file edit_file replace".split())
_CONTENTS = frozenset(
    "content contents file_text old_string new_string old_str new_str old_text new_text new_source insert_text".split()
)
_PLACE = frozenset(("cwd", "git_branch"))  # where a patch is applied; it names its files from there
_WRITING_OPTIONS = frozenset(("-o", "--output", "--in-place"))
_FIND_WRITES = frozenset(("-delete", "-fprint", "-fprint0", "-fprintf", "-fls"))
_OWN = frozenset("install uninstall enforce trial update".split())
_OWN_COMMANDS = re.compile(
    rf"hook\s+(?:{'|'.join(sorted(_OWN))})|guardagent[\w./-]*\s+watch|hook_daemon|hooks[./]client"
)
_OWN_PROGRAMS = re.compile(r"hook_daemon|hooks[./]client")
# Commands of git that leave files that it ignores, or that it only adds, as they are.
_KEEPING_GIT = frozenset(
    "add commit diff log show status blame ls-files ls-tree grep push fetch describe tag branch stash cat-file "
    "rev-parse check-ignore shortlog archive notes".split()
)
_PLACING = frozenset("cp mv ln rsync scp install ditto".split())
# Commands that change folders with all that is in them.
_WHOLE_FOLDERS = frozenset(("rm", "rmdir", "shred", "chmod", "chown", "chattr", "mount"))
_GIT_OUTPUT = re.compile(r"--o[a-z]*=|-o(?=.)")  # git takes shortened names of options
_GIT_VALUES = ("-C", "-c", "--git-dir", "--work-tree", "--namespace")
_DELETES = re.compile(r"--del(?:ete)?")
_PACKAGE_MANAGERS = re.compile(r"pip[\d.]*|pipx|uv|poetry|pdm|conda|mamba|micromamba")
_PACKAGE_ACTIONS = frozenset(
    "install reinstall add inject upgrade update sync lock create uninstall uninject remove rm".split()
)
# The package as managers name it: with extras or a version, as an option's value, a folder, an archive or an address.
_PACKAGE = re.compile(r"(?:^|[/=])guardagent(?:$|[\[\s=<>~!@;]|-\d|\.git\b|/$)", re.IGNORECASE)
_CLEARING = re.compile(r"-c|--cl(?:e|ea|ear)?")
_LONGEST_PATH = 4096
_MAX_MATCHES, _MAX_COMMANDS = 1000, 2000
_REASON = "This would change what guards this agent: {}."


class Protection:
    """The protected files and folders.

    Args:
        paths: absolute paths; what lies in a folder is protected, too.
        sources: files that commands may name and read, but not change.
    """

    def __init__(self, paths: Iterable[str], sources: Iterable[str] = ()) -> None:
        self._paths, self._sources = _real(paths), _real(sources)
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
        besides = _CONTENTS if tool in _EDITORS else _PLACE if tool in PATCH_TOOLS else frozenset()
        named = _strings(args, besides)
        touched = next((touched_path for text in named if (touched_path := self._touched(text, cwd))), None)
        return None if touched is None else _REASON.format(touched)

    def _touched(self, text: str, cwd: str) -> str | None:
        """Returns the protected path that a string names or contains."""
        if not _is_path(text):
            return self._mentioned(text)
        protected = self._reached(text, cwd, holders=True) or self._reached(text, cwd, among=self._sources)
        return protected or self._mentioned(text)

    def _mentioned(self, text: str) -> str | None:
        """Returns the end of a protected path that a string contains, as code does."""
        return next((tail for tail in self._tails if tail in text), None)

    def _reached(self, path: str, cwd: str, *, holders: bool = False, among: Sequence[str] = ()) -> str | None:
        """Returns the protected path that a path is or lies in; with `holders`, also one that lies in the path.

        Args:
            path: the path.
            cwd: the folder that it is relative to.
            holders: whether what lies in the path counts.
            among: the protected paths; without it, those that no command may name.
        """
        for expanded_path in _expanded(os.path.join(cwd or os.sep, os.path.expanduser(path))):
            for whole in {os.path.normpath(expanded_path), real_path(expanded_path, cwd)}:
                for protected in among or self._paths:
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
        for simple_command in islice(all_commands(text), _MAX_COMMANDS):
            if simple_command is None:  # unknown: what it says must not even name the guard
                own = "its hooks" if _OWN_COMMANDS.search(text) else None
                target = own or next((tail for tail in self._tails if tail in text), None)
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
        if _only_reads(command):
            return None
        if _runs_own(command):
            return "its hooks"
        if _changes_package(command):
            return "its package"
        if target := self._of_code(command, folder):
            return target
        if command.name == "git" and (kept := self._of_git(command, folder)) is not None:
            return kept or None
        if command.name in _PLACING:
            return self._of_placing(command, folder)
        return self._of_arguments(command, folder)

    def _of_arguments(self, command: ShellCommand, folder: str) -> str | None:
        changed = (value for word in changed_words(command) for value in word if _is_path(value))
        if of_source := next((path for value in changed if (path := self._source(value, folder))), None):
            return of_source
        if command.name == "find" and (danger := self._of_find(command, folder)):
            return danger
        clears = _clears_environment(command)
        holders = clears or (command.name in _WHOLE_FOLDERS and not _adds_rights(command))
        values = [value for word in command.words[1:] for value in word]
        values += [".venv"] if clears and command.name == "uv" else []  # the folder that it takes without a name
        return next((named for value in values if (named := self._named(value, folder, holders=holders))), None)

    def _source(self, value: str, folder: str) -> str | None:
        return self._reached(value, folder, among=self._sources) if self._sources else None

    def _of_git(self, command: ShellCommand, folder: str) -> str | None:
        """Returns the protected path that a command of git changes; empty if it is known to change none."""
        words = plain_words(command)
        action = next(
            (word for before, word in pairwise(["", *words]) if word[:1] != "-" and before not in _GIT_VALUES), ""
        )
        takes_ignored = (action == "stash" and {"-a", "--all"} & set(words)) or (
            action == "clean" and any(re.fullmatch(r"-[a-zA-Z]*[xX][a-zA-Z]*", word) for word in words)
        )
        if takes_ignored and (target := self._reached(".", folder, holders=True)):
            return target
        for before, word in pairwise(["", *words]):
            attached = _GIT_OUTPUT.match(word)
            into = word[attached.end() :] if attached else word if re.fullmatch("-o|--o[a-z]*", before) else ""
            if into and (target := self._touched(into, folder)):
                return target
        return "" if action in _KEEPING_GIT and not {"-c", "--config-env", "--exec-path"} & set(words) else None

    def _of_placing(self, command: ShellCommand, folder: str) -> str | None:
        """Returns the protected path that a command moves, or that it writes where it copies something to."""
        origins, targets, is_folder = _placing(command)
        moves = command.name == "mv" or "--remove-source-files" in options(command)
        gone = [*(origins if moves else ()), *(targets if any(map(_DELETES.match, options(command))) else ())]
        for path in gone:
            if target := self._reached(path, folder, holders=True) or self._source(path, folder):
                return target
        for into in targets:
            landing = is_folder or (
                os.path.isdir(os.path.join(folder, os.path.expanduser(into))) and "-T" not in options(command)
            )
            for origin in (
                path for word in origins for path in _expanded(os.path.join(folder, os.path.expanduser(word)))
            ):
                within = landing and not origin.endswith(("/", "/."))
                place = os.path.join(into, os.path.basename(origin.rstrip("/"))) if within else into
                if target := self._replaced(place, origin, folder):
                    return target
        return None

    def _replaced(self, place: str, origin: str, folder: str) -> str | None:
        """Returns the protected path that is replaced where something is copied to a place."""
        whole = real_path(place, folder)
        for protected in (*self._paths, *self._sources):
            if _is_in(whole, protected) or fnmatchcase(protected, whole):
                return protected
            brought = os.path.join(origin, os.path.relpath(protected, whole))
            if _is_in(protected, whole) and (os.path.exists(brought) or not os.path.exists(origin)):
                return protected
        return None

    def _of_find(self, command: ShellCommand, folder: str) -> str | None:
        """Returns the protected path that a search deletes: by its name, or as all files are deleted."""
        words = plain_words(command)
        names = [(test, pattern) for test, pattern in pairwise(words) if test in ("-name", "-iname", "-path", "-ipath")]
        for root in (value for word in find_roots(command) or ((".",),) for value in word):
            whole = real_path(root, folder)
            for protected in (*self._paths, *self._sources):
                if not _is_in(protected, whole):
                    continue
                parts = os.path.relpath(protected, whole).split("/")
                if not names or not is_narrowed(words) or any(_is_found(root, parts, *test) for test in names):
                    return protected
        return None

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
                reached = (
                    self._reached(string, folder) or self._source(string, folder)
                    for string in strings
                    if _is_path(string)
                )
                if of_code := self._like(strings, folder) or next((path for path in reached if path), None):
                    return of_code
        return None

    def _like(self, strings: Iterable[str], folder: str) -> str | None:
        """Returns the protected file whose name a string in code has; also one of the folder, by a pattern."""
        parts = {string.rpartition("/")[2] for string in strings}
        for path in (*self._paths, *self._sources):
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


def _real(paths: Iterable[str]) -> tuple[str, ...]:
    named = [os.path.abspath(path) for path in paths if path]
    return tuple(dict.fromkeys([*named, *map(os.path.realpath, named)]))


def _only_reads(command: ShellCommand) -> bool:
    """Whether a command changes nothing. What `find -exec` runs is a command of its own."""
    writing = _FIND_WRITES if command.name == "find" else _WRITING_OPTIONS
    keeps = not {option.partition("=")[0] for option in options(command)} & writing
    text = " ".join((command.name or "", *plain_words(command)))
    return bool((command.name in _READING and keeps) or _CHECKS.match(text))


def _runs_own(command: ShellCommand) -> bool:
    """Whether a command changes hooks, or answers what they ask: `guardagent hook install`, by whatever name it has."""
    words = [word[0] if word else "" for word in command.words]
    if command.name == "alias":
        return any("guardagent" in word for word in words)
    plain = [word for word in words if not word.startswith("-")]
    return any(
        (first == "hook" and second in _OWN) or (second == "watch" and re.search(r"(?:^|/)guardagent[^/]*$", first))
        for first, second in pairwise(plain)
    ) or (command.name != "git" and any(map(_OWN_PROGRAMS.search, words)))


def _placing(command: ShellCommand) -> tuple[list[str], list[str], bool]:
    """Returns what is copied or moved, to where, and whether that is a folder for certain."""
    into = value_after(command, "-t", "--target-directory")
    words = tuple(word for word in operands(command) if word not in into)
    if not into:
        words, into = words[:-1], words[-1:]
    origins, targets = ([value for word in part for value in word] for part in (words, into))
    return (
        origins,
        targets,
        len(into) != 1 or into != operands(command)[-1:] or len(words) > 1 or targets[0][-1:] == "/",
    )


def _is_found(root: str, parts: Sequence[str], test: str, pattern: str) -> bool:
    """Whether a test of `find` can find a path or one of its folders; the parts are those below the root."""
    if "path" in test:
        return any(fnmatchcase("/".join([root, *parts[: at + 1]]), pattern) for at in range(len(parts)))
    return any(fnmatchcase(part.lower(), pattern.lower()) for part in parts)


def _adds_rights(command: ShellCommand) -> bool:
    """Whether `chmod` leaves the rights of the owner: `chmod -R u+w .`, `chmod -R 755 .`."""
    return command.name == "chmod" and any(
        re.fullmatch(r"[ugoa]*\+[rwxX]+|0?[67][0-7]{2}", word) for word in plain_words(command)
    )


def _changes_package(command: ShellCommand) -> bool:
    """Whether a package manager installs, upgrades or removes this package."""
    if not any(map(_PACKAGE_MANAGERS.fullmatch, [command.name or "", *_modules(command)])):
        return False
    values = {value for word in command.words[1:] for value in word}
    return not values.isdisjoint(_PACKAGE_ACTIONS) and any(map(_PACKAGE.search, values))


def _clears_environment(command: ShellCommand) -> bool:
    """Whether a command empties a virtual environment: `python -m venv --clear .venv`, `uv venv --clear`."""
    programs = {command.name, *_modules(command), *(plain_words(command) if command.name == "uv" else ())}
    return not programs.isdisjoint(("venv", "virtualenv")) and any(map(_CLEARING.fullmatch, options(command)))


def _modules(command: ShellCommand) -> list[str]:
    words = plain_words(command)
    joined = (word[2:] for word in words if word.startswith("-m"))  # `python -mpip`
    return [*joined, *(module for option, module in pairwise(words) if option == "-m")]


def _expanded(path: str) -> Sequence[str]:
    """Returns the files that a pattern matches, and the pattern itself."""
    if not any(sign in path for sign in "*?["):
        return (path,)
    return (path, *islice(glob.iglob(path), _MAX_MATCHES))


def _strings(value: Any, besides: frozenset[str]) -> Iterator[str]:
    """Yields the strings of an argument, but for those of some names."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, part in value.items():
            yield from _strings(name, besides)
            yield from _strings(part, besides) if name not in besides else ()
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _strings(part, besides)
