"""Files of downloaded archives and repositories, which a script unpacks and then runs."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass

from guardagent.packs.shell.arguments import operands, plain_words, value_after
from guardagent.packs.shell.script import ShellCommand

_ENDINGS = re.compile(r"(?:\.git|\.(?:tar|tgz|txz|tbz2?|zip|7z|gz|xz|bz2|zst))+$|[-_.]?v?\d[\w.]*$")


@dataclass(frozen=True, slots=True)
class Unpacked:
    """The places of foreign files.

    Attributes:
        folder: where they were unpacked.
        is_own: whether the folder holds nothing else.
        names: how a folder in it may be called, without versions.
    """

    folder: str
    is_own: bool
    names: frozenset[str]

    def has(self, path: str, *, is_script: bool) -> bool:
        """Whether a file, or a script beside the archive, may be one of these files."""
        inside = path if self.folder == "." else path.removeprefix(f"{self.folder}/")
        if inside == path and self.folder != ".":
            return False
        first, _, rest = inside.partition("/")
        return self.is_own or (_plain(first) in self.names if rest else is_script)


def place(command: ShellCommand, value: str) -> str:
    """The path of a file of a command."""
    return posixpath.normpath(posixpath.join(command.folder or "", value))


def unpacks(command: ShellCommand) -> bool:
    """Whether a command unpacks an archive."""
    words = plain_words(command)
    if command.name in ("tar", "bsdtar", "gtar"):
        return any(re.fullmatch(r"-?[a-zA-Z]*x[a-zA-Z]*|--extract|--get", word) for word in words)
    return command.name == "unzip" or (command.name in ("7z", "7za", "unar") and "l" not in words[:1])


def unpacked(command: ShellCommand, sources: tuple[ShellCommand, ...] = ()) -> Unpacked:
    """The files that a command unpacks from its arguments or from the output of others."""
    folders = [value for word in value_after(command, "-C", "--directory", "-d") for value in word]
    folder = place(command, folders[0] if folders else "")
    names = frozenset(name for one in (command, *sources) for name in _names(one))
    return Unpacked(folder, is_own=folder != place(command, ""), names=names)


def cloned(command: ShellCommand) -> Iterator[Unpacked]:
    """The folder of a repository that a command fetches: `git clone URL [FOLDER]`."""
    if command.name == "git" and plain_words(command)[:1] == ["clone"]:
        found = [word[0] for word in operands(command)[1:] if len(word) == 1]
        at = next((n for n, one in enumerate(found) if re.search(r"://|^[\w.-]+@", one)), None)
        if at is not None:
            name = found[at + 1] if at + 1 < len(found) else found[at].rstrip("/").rpartition("/")[2]
            yield Unpacked(place(command, name.removesuffix(".git")), is_own=True, names=frozenset())


def _names(command: ShellCommand) -> Iterator[str]:
    for word in plain_words(command):
        yield from filter(None, map(_plain, re.split(r"[/:?]", word)))


def _plain(name: str) -> str:
    return _ENDINGS.sub("", _ENDINGS.sub("", name))
