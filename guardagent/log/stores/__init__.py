"""The stores of entries, each with a `Store` that appends and a `LogReader`.

A store is named by the suffix of its files or the scheme of its addresses: `run.jsonl` belongs to the store `jsonl`,
`postgresql://host/name` to `postgres`. It is imported when a log of its kind is opened.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from guardagent._support.plugins import Plugins
from guardagent.errors import InputError, LogError, UnknownNameError
from guardagent.log.chain import DamagedLogError, Entry
from guardagent.log.rotation import Rotation, current_path

STORES = Plugins("kind of log", __name__, ("LogReader", "Store"), group="guardagent.stores")
_ALIASES = {"db": "sqlite", "sqlite3": "sqlite", "postgresql": "postgres"}

LogSource = Path | str | Sequence[Path | str]
"""A log to read: a file, the address of a stream, a folder with one log, or several files in order."""

EntryFactory = Callable[[Entry | None, Sequence[Mapping[str, Any]]], Sequence[Entry]]
"""Returns the entries to append, from the last one and the records of the store itself, which go first."""


class Store(Protocol):
    """Appends entries to a log. One thread uses it at a time; other processes may use the same log.

    Attributes:
        name: names the log in messages, without any password.
    """

    name: str

    def __init__(self, path: Any, *, durable: bool) -> None:
        """Opens a file or an address, and creates the log if it is missing.

        Raises:
            InputError: it is not the address of a log.
            LogError: it cannot be written, or is not a log.
        """

    def last(self) -> Entry | None:
        """Returns the last entry."""
        ...

    def append(self, make: EntryFactory) -> None:
        """Appends all entries or none; on return they are in the log, and on the disk if `durable`.

        Raises:
            LogError: nothing was appended, or it is unknown whether it was.
        """

    def close(self) -> None:
        """Closes the log; a later append opens it again."""


class LogReader(Protocol):
    """Reads a log without changing it, in constant memory, while others may append.

    Attributes:
        name: names the log in messages, without any password.
        notes: remarks that are not damage.
    """

    name: str
    notes: list[str]

    def __iter__(self) -> Iterator[Entry]:
        """Iterates over the entries in order.

        Raises:
            DamagedLogError: the log cannot be read further; entries were changed.
            InputError: it is missing, cannot be read, or is not a log.
        """
        ...

    def backwards(self) -> Iterator[Entry]:
        """Iterates over the entries from the last one."""
        ...


def open_store(address: Path | str, *, durable: bool, rotation: Rotation | None = None) -> Store:
    """Opens the store of a file or an address.

    Raises:
        UnknownNameError: no store has this suffix or scheme.
        InputError: it is not the address of a log, or files of its kind are not rotated.
        LogError: it cannot be written, or is not a log.
    """
    module, place = _module(address), _place(address)
    if rotation is None:
        plain: Store = module.Store(place, durable=durable)
        return plain
    if not getattr(module, "ROTATES", False):
        raise InputError("only logs of JSON Lines are rotated; expected a .jsonl file, or no limit of size or age")
    rotated: Store = module.Store(place, durable=durable, rotation=rotation)
    return rotated


def open_reader(source: LogSource) -> LogReader:
    """Opens the reader of a log.

    Raises:
        UnknownNameError: no store has this suffix or scheme.
        InputError: it is not the address of a log, the folder does not have exactly one, or several files are not JSON
            Lines.
    """
    files = [source] if isinstance(source, Path | str) else list(source)
    files = [_log_in(file) if not is_address(file) and Path(file).is_dir() else file for file in files]
    modules = [_module(file) for file in files]
    if not files or (len(files) > 1 and not all(getattr(module, "ROTATES", False) for module in modules)):
        raise InputError("several files are one log only as JSON Lines; expected one log, or .jsonl files in order")
    reader: LogReader = modules[0].LogReader(*map(_place, files))
    return reader


@contextlib.contextmanager
def write_errors(path: Path, close: Callable[[], None], library_error: type[Exception] = OSError) -> Iterator[None]:
    """Raises LogError for any error of a file; after one of the system or of a library, the file is opened again."""
    try:
        yield
    except (OSError, library_error) as error:
        with contextlib.suppress(library_error):
            close()
        cause = error.strerror if isinstance(error, OSError) else error
        raise LogError(f"{path}: the log cannot be written: {cause}") from None
    except InputError as error:
        raise LogError(f"the log cannot be written: {error}") from None
    except DamagedLogError as damaged:
        raise LogError(f"{path}: {damaged}; nothing is added to it") from None


def is_address(log: Path | str) -> bool:
    """Returns whether this is an address with a scheme, not a file."""
    return re.match("[a-z][a-z0-9+]+:/", str(log)) is not None


def _place(log: Path | str) -> Path | str:
    return str(log) if is_address(log) else Path(log)


def _log_in(folder: Path | str) -> Path:
    """Returns the one log in a folder; the earlier files of a log belong to it."""
    known = (*STORES, *_ALIASES)
    try:
        paths = [path for path in Path(folder).iterdir() if not path.name.startswith(".")]
    except OSError as error:
        raise InputError(f"{folder}: cannot be read: {error.strerror}") from None
    logs = {current_path(path) for path in paths if path.suffix.removeprefix(".") in known}
    if len(logs) == 1:
        return logs.pop()
    names = ", ".join(sorted(log.name for log in logs))
    raise InputError(f"{Path(folder)}: has {f'several logs: {names}' if logs else 'no log'}; expected one, or its file")


def _module(log: Path | str) -> Any:
    """Returns the store of a log; an address may hold a password, so only its scheme is shown."""
    address = is_address(log)
    kind = str(log).partition(":")[0] if address else Path(log).suffix.removeprefix(".")
    name = _ALIASES.get(kind, kind)
    module = STORES.load(name) if name in STORES else None
    if module is not None and getattr(module, "HAS_ADDRESSES", False) == address:
        return module
    if address:
        raise InputError(
            f"no log has an address that begins with {kind!r}; expected postgresql://HOST/DATABASE, or a file"
        )
    known = [f".{store}" for store in (*STORES, *_ALIASES) if _ALIASES.get(store, store) != "postgres"]
    raise UnknownNameError("kind of log", Path(log).suffix, known, where=str(log))
