"""The stores of entries: one file each, with a `Store` that appends and a `LogReader`.

A store is named by the suffix of its files: `run.jsonl` belongs to the store `jsonl`. It is imported when a log with
its suffix is opened.
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
"""Returns the entries to append, from the last one and the number of unfinished bytes dropped after it."""


class Store(Protocol):
    """Appends entries to a file. One thread uses it at a time; other processes may use the same file."""

    def __init__(self, path: Path, *, durable: bool) -> None:
        """Opens a file, and creates it if it is missing.

        Raises:
            LogError: it cannot be written, or is not a log.
        """

    def last(self) -> Entry | None:
        """Returns the last entry."""
        ...

    def append(self, make: EntryFactory) -> None:
        """Appends all entries or none; on return they are in the file, and on the disk if `durable`.

        Raises:
            LogError: nothing was appended, or it is unknown whether it was.
        """

    def close(self) -> None:
        """Closes the file; a later append opens it again."""


class LogReader(Protocol):
    """Reads a file without changing it, in constant memory, while others may append."""

    notes: list[str]
    """Remarks that are not damage."""

    def __iter__(self) -> Iterator[Entry]:
        """Iterates over the entries in order.

        Raises:
            DamagedLogError: the file cannot be read further; entries were changed.
            InputError: it is missing, cannot be read, or is not a log.
        """
        ...

    def backwards(self) -> Iterator[Entry]:
        """Iterates over the entries from the last one."""
        ...


def open_store(path: Path, *, durable: bool) -> Store:
    """Opens the store of a file, by its suffix.

    Raises:
        UnknownNameError: no store has this suffix.
        LogError: it cannot be written, or is not a log.
    """
    store: Store = _module(path).Store(path, durable=durable)
    return store


def open_reader(path: Path) -> LogReader:
    """Opens the reader of a file, by its suffix.

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
