"""Deleted folders, and deleted files outside of the workspace."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import dropwhile, groupby, pairwise, takewhile

from guardagent.packs.shell.arguments import operands, options, plain_words, value_after
from guardagent.packs.shell.commands import printed_words
from guardagent.packs.shell.effects import deleted, paths_of
from guardagent.packs.shell.paths import zone
from guardagent.packs.shell.script import ShellCommand
from guardagent.packs.shell.words import Word

_DELETERS = (
    "rm", "rmdir", "unlink", "shred", "srm", "trash", "trash-put", "rimraf", "del", "del-cli", "remove_directory",
)  # fmt: skip
# Programs that delete what they put into an archive, or copy, with an option.
_MOVES = {
    "tar": re.compile("--remove-files"),
    "zip": re.compile("-[a-zA-Z0-9]*m[a-zA-Z0-9]*|--move"),
    **dict.fromkeys(("7z", "7za", "7zz"), re.compile("-sdel")),
    "rsync": re.compile("--remove-source-files"),
}
_NOT, _ALTERNATIVES = ("!", "-not"), ("-o", "-or", ",")
_EXCLUDED_GROUPS = [(one, group) for one in _NOT for group in ("(", "\\(")]
_NARROWING = {"-name", "-iname", "-path", "-regex", "-empty"}


def check(command: ShellCommand, workspace: str) -> Iterator[str]:
    name, words = command.name, plain_words(command)
    emptied = value_after(command, "--basetemp") if name in ("pytest", "py.test") else ()
    for path in paths_of((*emptied, *_deleted(command)), command, workspace):
        yield from deleted(path)
    if name in ("shred", "srm") or (name == "rm" and "--no-preserve-root" in words):
        yield "delete"
    is_piped = name == "xargs" or (name == "parallel" and ":::" not in words)
    if is_piped and set(words) & set(_DELETERS) and not printed_words(command):
        yield "delete"
    if name == "find" and ("-delete" in words or set(words) & set(_DELETERS)):
        yield from _of_find(command, workspace)
    if name == "mv" and ("/dev/null" in words or any(re.search(r"(?:^|/)\.git/?$", one) for one in words[:-1])):
        yield "delete"
    if name == "git" and "clean" in words and any("f" in one and "n" not in one for one in options(command)):
        yield "delete"
    if name in ("docker", "podman") and words[1:2] == ["prune"]:
        yield "delete"


def _deleted(command: ShellCommand) -> tuple[Word, ...]:
    name, found = command.name or "", operands(command)
    if name == "gio" and found[:1] in ((("trash",),), (("remove",),)):
        return found[1:]
    if name in _MOVES and any(map(_MOVES[name].fullmatch, options(command))):
        return found
    if name == "rsync" and any(re.match("--del(?:ete)?", one) for one in options(command)):
        return found[-1:]
    return found if name in _DELETERS else ()


def _of_find(command: ShellCommand, workspace: str) -> Iterator[str]:
    """A search that is narrowed by a name deletes files; another one deletes its whole folders, as `rm -r` does."""
    is_narrowed = _is_narrowed(plain_words(command))
    for path in paths_of(_roots(command) or ((".",),), command, workspace):
        if path is None:
            yield "delete"
        elif not is_narrowed:
            yield from deleted(path)
        elif zone(path) not in ("inside", "temporary"):
            yield "delete"


def _roots(command: ShellCommand) -> tuple[Word, ...]:
    """The folders in which `find` begins: all words before its first test."""
    rest = dropwhile(lambda word: bool(word) and re.fullmatch(r"-(?:[HLP]|O\d+)", word[0]), command.words[1:])
    return tuple(takewhile(lambda word: not word or not word[0].startswith(("-", "(", "!", "\\")), rest))


def _is_narrowed(words: list[str]) -> bool:
    """Whether a search finds only some names: each of its alternatives asks for one, and no group is excluded."""
    excludes_group = any(pair in _EXCLUDED_GROUPS for pair in pairwise(words))
    alternatives = [list(group) for is_or, group in groupby(words, _ALTERNATIVES.__contains__) if not is_or]
    return not excludes_group and all(map(_asks_for_name, alternatives))


def _asks_for_name(words: list[str]) -> bool:
    """Whether a name is asked for. To exclude one, or to take every name, is not enough."""
    return any(
        one in _NARROWING and before not in _NOT and (one == "-empty" or any(map(str.isalnum, pattern)))
        for before, one, pattern in zip(["", *words], words, [*words[1:], ""], strict=False)
    )
