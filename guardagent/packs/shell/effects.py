"""The kinds of danger in reading, changing and deleting paths."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from guardagent.packs.shell.paths import is_history, is_secret, resolved, zone
from guardagent.packs.shell.script import ShellCommand
from guardagent.packs.shell.words import Word


def paths_of(words: Iterable[Word], command: ShellCommand, workspace: str) -> Iterator[str | None]:
    for word in words:
        if not word:
            yield None
        for value in word:
            yield resolved(value, command.folder, workspace)


def changed(path: str | None) -> Iterator[str]:
    if path is None:
        yield "unreadable"
        return
    where = zone(path)
    if path.startswith(("/dev/tcp/", "/dev/udp/")):
        yield "reverse_shell"
    elif where not in ("inside", "temporary"):
        yield {"home": "outside", "startup": "persistence"}.get(where, where)
    yield from secret_kinds(path)


def read(path: str | None) -> Iterator[str]:
    if path is None:
        yield "unreadable"
    elif path.startswith(("/dev/tcp/", "/dev/udp/")):
        yield "reverse_shell"
    else:
        yield from secret_kinds(path)


def secret_kinds(path: str) -> Iterator[str]:
    """The kinds of reading or changing a path."""
    if is_secret(path):
        yield "secrets"
    if is_history(path):
        yield "history"


def deleted(path: str | None) -> Iterator[str]:
    """As a change; whole folders are more."""
    if path in (None, "/", "~", ".", "..", "*", "**", "./*", ".*", "~/*", "/*") or (path or "").endswith("/.git"):
        yield "delete" if path is not None else "unreadable"
    elif path is not None and zone(path) not in ("inside", "temporary"):
        yield "delete"
    if path == ".git" or (path or "").rstrip("/*") in ("/tmp", "/var/tmp"):  # noqa: S108
        yield "delete"
