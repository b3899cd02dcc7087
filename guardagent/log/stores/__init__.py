"""Where entries are kept: one file per store, with a `Store` that appends and a `LogReader`.

A store is named by the suffix of its files: `run.jsonl` is of the store `jsonl`. A store is imported when a log
with its suffix is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from guardagent._support.plugins import Plugins
from guardagent.errors import UnknownNameError
from guardagent.log.chain import Entry

STORES = Plugins("kind of log", __name__, ("LogReader", "Store"), group="guardagent.stores")
_SUFFIX_ALIASES = {"db": "sqlite", "sqlite3": "sqlite"}

EntryFactory = Callable[[Entry | None, int], Sequence[Entry]]
"""The entries to append, given the last one, and how many bytes of an unfinished write were dropped after it."""


class Store(Protocol):
    """Appends entries to a file. One thread uses it at a time; other processes may use the same file."""

    def __init__(self, path: Path, *, durable: bool) -> None:
        """Opens a file, and makes it where there is none.

        Raises:
            LogError: it cannot be written, or is no log.
        """

    def last(self) -> Entry | None:
        """The last entry."""
        ...

    def append(self, make: EntryFactory) -> None:
        """Appends all or none; when it returns, they are there, and were written through to the disk if `durable`.

        Raises:
            LogError: nothing was appended, or nobody knows.
        """

    def close(self) -> None:
        """Leaves nothing open; what is appended afterwards opens the file again."""


class LogReader(Protocol):
    """Reads a file without changing it, in constant memory, while others may append."""

    notes: list[str]
    """What is worth saying of it, and no damage."""

    def __iter__(self) -> Iterator[Entry]:
        """The entries in their order.

        Raises:
            Damaged: it cannot be read on; entries were changed.
            InputError: it is missing, cannot be read, or is no log.
        """
        ...

    def backwards(self) -> Iterator[Entry]:
        """The entries, the last one first."""
        ...


def open_store(path: Path, *, durable: bool) -> Store:
    """The store of a file, by its suffix.

    Raises:
        UnknownNameError: no store has this suffix.
        LogError: it cannot be written, or is no log.
    """
    store: Store = _module(path).Store(path, durable=durable)
    return store


def open_reader(path: Path) -> LogReader:
    """What reads a file, by its suffix.

    Raises:
        UnknownNameError: no store has this suffix.
    """
    found: LogReader = _module(path).LogReader(path)
    return found


def _module(path: Path) -> Any:
    suffix = path.suffix.removeprefix(".")
    name = _SUFFIX_ALIASES.get(suffix, suffix)
    if name not in STORES:
        known = [f".{one}" for one in (*STORES, *_SUFFIX_ALIASES)]
        raise UnknownNameError("kind of log", path.suffix, known, where=str(path))
    return STORES.load(name)
