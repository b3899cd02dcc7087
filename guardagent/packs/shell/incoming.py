"""Code that reaches an interpreter from elsewhere: its input, the output of commands, and files written before."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from guardagent.packs.shell.arguments import operands, plain_words, value_after
from guardagent.packs.shell.commands import SHELLS, inner_commands
from guardagent.packs.shell.foreign_code import INTERPRETERS, code_effects
from guardagent.packs.shell.recipes import MAKES, makefiles, recipes
from guardagent.packs.shell.script import ShellCommand
from guardagent.packs.shell.unpacked import Unpacked, cloned, place, unpacked, unpacks
from guardagent.packs.shell.words import SUBSTITUTED

_DOWNLOADERS = frozenset(
    "curl wget fetch aria2c http https lynx nc ncat netcat socat ftp scp rsync gh ssh dig nslookup telnet".split()
)
_DECODERS = frozenset(
    "base64 base32 xxd openssl gunzip zcat bzcat xzcat uudecode rev tr gpg hexdump od unxz bunzip2 sed "
    "awk printf cut".split()
)
_SOURCE = ("source", ".")


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file that the script writes: the kinds of running it, and its content if that is known."""

    kinds: tuple[str, ...]
    text: str | None

    def followed_by(self, more: WrittenFile) -> WrittenFile:
        """The file with what is appended, or written in its place: each may be what runs."""
        texts = [one.text for one in (self, more) if one.text is not None]
        return WrittenFile((*self.kinds, *more.kinds), "\n".join(texts) if texts else None)


@dataclass(slots=True)
class Files:
    """The files that a script writes, by path, those that it unpacks from downloads, and repositories it clones."""

    written: dict[str, WrittenFile] = field(default_factory=dict)
    unpacked: list[Unpacked] = field(default_factory=list)
    cloned: list[Unpacked] = field(default_factory=list)


def output_kinds(commands: Iterable[ShellCommand]) -> tuple[str, ...]:
    """The kinds of running the output of commands."""
    names = {name for command in commands for name in _names(command)}
    kinds = (("remote_code", names & _DOWNLOADERS), ("obfuscated", names & _DECODERS))
    return tuple(kind for kind, found in kinds if found)


def _names(command: ShellCommand) -> Iterator[str]:
    yield command.name or ""
    for inner in inner_commands(command):
        yield from _names(inner)


def written_files(commands: Iterable[ShellCommand]) -> Files:
    """The files that a script downloads or writes."""
    found = Files()
    for command in (inner for one in commands for inner in (one, *inner_commands(one))):
        text = printed((command,))
        file = WrittenFile(output_kinds((command, *command.sources)) if text is None else (), text)
        for path in _written(command):
            known = found.written.get(place(command, path))
            found.written[place(command, path)] = file if known is None else known.followed_by(file)
        found.written.update(_copied(command, found))
        found.cloned.extend(cloned(command))
        if unpacks(command):
            archives = [value for word in command.words[1:] for value in word]
            files = [found.written.get(place(command, value)) for value in archives]
            kinds = (*output_kinds(command.sources), *(kind for one in files if one for kind in one.kinds))
            if "remote_code" in kinds:
                found.unpacked.append(unpacked(command, command.sources))
    return found


def _copied(command: ShellCommand, files: Files) -> dict[str, WrittenFile]:
    """Written files under the names that `mv` and `cp` give them."""
    paths = [place(command, word[0]) for word in operands(command) if len(word) == 1]
    if command.name not in ("mv", "cp", "install", "ln") or len(paths) < 2:
        return {}
    known = [(path, files.written[path]) for path in paths[:-1] if path in files.written]
    names = ((paths[-1], f"{paths[-1]}/{posixpath.basename(path)}") for path, _ in known)
    return {name: file for both, (_, file) in zip(names, known, strict=True) for name in both}


def _written(command: ShellCommand) -> Iterator[str]:
    yield from (value for word in command.writes for value in word)
    if command.name in ("curl", "wget", "aria2c", "fetch"):
        yield from (word.rpartition("/")[2] for word in plain_words(command) if "/" in word)
        named = value_after(command, "-o", "-O", "--output", "--output-document")
        combined = [word for word in plain_words(command) if re.fullmatch(r"-[a-zA-Z]+[oO]", word)]
        yield from (value for word in (*named, *value_after(command, *combined)) for value in word)
    if command.name == "tee":
        yield from (value for word in operands(command) for value in word)


def incoming(command: ShellCommand, files: Files, workspace: str) -> Iterator[str | tuple[str]]:
    """The kinds of code that a command gets from elsewhere, and shell scripts among it, as tuples of one."""
    name = command.name or ""
    is_shell = name in SHELLS or name in _SOURCE
    if name in MAKES:
        yield from _of_make(command, files)
    if not is_shell and not INTERPRETERS.fullmatch(name):
        yield from _of_file(command, command.words[0], files, workspace, is_shell=True)
        return
    for word in operands(command)[:1]:
        yield from _of_file(command, word, files, workspace, is_shell=is_shell)
    if any(word in ((), (SUBSTITUTED,)) for word in operands(command)):
        yield "unreadable"
        yield from output_kinds(command.sources)
    if _reads_input(command, is_shell=is_shell):
        for word in command.reads:
            yield from _of_file(command, word, files, workspace, is_shell=is_shell)
        yield from _of_input(command, workspace, is_shell=is_shell)


def _of_file(
    command: ShellCommand, word: tuple[str, ...], files: Files, workspace: str, *, is_shell: bool
) -> Iterator[str | tuple[str]]:
    is_program = word == command.words[0]
    for value in word:
        path = place(command, value)
        file = files.written.get(path)
        if file is not None:
            yield from file.kinds
            if is_shell and file.text is not None:
                yield (file.text,)
            elif file.text is not None and (effects := code_effects(command.name or "", file.text)) is not None:
                yield from effects.kinds(command.folder, workspace)
        is_path = "/" in value or not is_program
        if is_path and any(
            one.has(path, is_script=is_shell) for one in (*files.unpacked, *(files.cloned if is_shell else ()))
        ):
            yield "remote_code"


def _of_make(command: ShellCommand, files: Files) -> Iterator[str | tuple[str]]:
    for path in (place(command, one) for one in makefiles(command)):
        file = files.written.get(path)
        if file is not None:
            yield from file.kinds
            if file.text is not None:
                yield (recipes(file.text),)
        if any(one.has(path, is_script=False) for one in files.unpacked):
            yield "remote_code"


def _reads_input(command: ShellCommand, *, is_shell: bool) -> bool:
    code = r"-[a-zA-Z]*c|--command" if is_shell else r"-[a-zA-Z]*[ceEr]|--eval|--execute|-m"
    if any(re.fullmatch(code, word) for word in plain_words(command)):
        return False
    found = operands(command)
    return not found or found[0] in (("-",), ("/dev/stdin",)) or "-s" in plain_words(command)


def _of_input(command: ShellCommand, workspace: str, *, is_shell: bool) -> Iterator[str | tuple[str]]:
    text = command.text if command.text is not None else printed(command.sources)
    if is_shell and text is not None:
        yield (text,)
    elif text is not None and (effects := code_effects(command.name or "", text)) is not None:
        yield from effects.kinds(command.folder, workspace)
    elif text is not None or command.sources:
        yield from output_kinds(command.sources)
        if not _is_file(command.sources):
            yield "unreadable"


def printed(sources: tuple[ShellCommand, ...]) -> str | None:
    """The output of a command that only prints literals."""
    if len(sources) != 1 or sources[0].name not in ("echo", "printf", "cat"):
        return None
    command = sources[0]
    words = [word for word in command.words[1:] if word not in (("-e",), ("-n",), ("-en",))]
    if command.name == "printf" or len(words) + 1 < len(command.words):
        words = [tuple(value.replace("\\n", "\n").replace("\\t", "\t") for value in word) for word in words]
    if command.name == "cat":
        return command.text if not words else None
    if any(len(word) != 1 or "\\" in word[0] or "%" in word[0] for word in words):
        return None
    return " ".join(word[0] for word in words)


def _is_file(sources: tuple[ShellCommand, ...]) -> bool:
    return len(sources) == 1 and sources[0].name == "cat" and all(len(word) == 1 for word in sources[0].words)
