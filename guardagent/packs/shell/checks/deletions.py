"""Deleted folders, and deleted files outside of the workspace."""

from __future__ import annotations

import re
from collections.abc import Iterator

from guardagent.packs.shell.arguments import operands, options, plain_words
from guardagent.packs.shell.effects import deleted, paths_of
from guardagent.packs.shell.paths import zone
from guardagent.packs.shell.script import ShellCommand
from guardagent.packs.shell.wrappers import printed_words

_DELETERS = ("rm", "rmdir", "unlink", "shred", "srm", "trash")
_NARROWING = {"-name", "-iname", "-path", "-regex", "-empty"}


def check(command: ShellCommand, workspace: str) -> Iterator[str]:
    name, words = command.name, plain_words(command)
    if name in _DELETERS:
        for path in paths_of(operands(command), command, workspace):
            yield from deleted(path)
    if name in ("shred", "srm") or (name == "rm" and "--no-preserve-root" in words):
        yield "delete"
    if name == "xargs" and set(words) & set(_DELETERS) and not printed_words(command):
        yield "delete"
    if name == "find" and ("-delete" in words or set(words) & set(_DELETERS)):
        yield from _of_find(command, workspace)
    if name == "mv" and ("/dev/null" in words or any(re.search(r"(?:^|/)\.git/?$", one) for one in words[:-1])):
        yield "delete"
    if name == "git" and "clean" in words and any("f" in one and "n" not in one for one in options(command)):
        yield "delete"
    if name in ("docker", "podman") and words[1:2] == ["prune"]:
        yield "delete"


def _of_find(command: ShellCommand, workspace: str) -> Iterator[str]:
    """Deletes by `find` need a narrowed search inside of the workspace."""
    narrowed = options(command) & _NARROWING and "*" not in plain_words(command)
    for path in paths_of(operands(command)[:1] or ((".",),), command, workspace):
        if path is None or zone(path) not in ("inside", "temporary") or not narrowed:
            yield "delete"
