"""The stores of entries, each with a `Store` that appends and a `LogReader`.

A store is named by the suffix of its files or the scheme of its addresses: `run.jsonl` belongs to the store `jsonl`,
`postgresql://host/name` to `postgres`. It is imported when a log of its kind is opened.

A log of JSON Lines may be rotated. `audit.jsonl` is the current file. An earlier file has the number of its first entry
in its name, as `audit.000000005001.jsonl` does. Each file after the first begins with a record that names the one
before:

    {"kind":"continued","file":"audit.000000000001.jsonl","entries":5000,"hash":"sha256:…"}
"""

from __future__ import annotations

import contextlib
import json
import math
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from guardagent._support.plugins import Plugins
from guardagent.errors import InputError, LogError, UnknownNameError
from guardagent.log.chain import DamagedLogError, Entry

STORES = Plugins("kind of log", __name__, ("LogReader", "Store"), group="guardagent.stores")
_ALIASES = {"db": "sqlite", "sqlite3": "sqlite", "postgresql": "postgres"}
_DIGITS = 12  # of a number in the name of an earlier file

LogSource = Path | str | Sequence[Path | str]
"""A log to read: a file, the address of a stream, a folder with one log, or several files in order."""

EntryFactory = Callable[[Entry | None, Sequence[Mapping[str, Any]]], Sequence[Entry]]
"""Returns the entries to append, from the last one and the records of the store itself, which go first."""


@dataclass(frozen=True, slots=True)
class Rotation:
    """The limits after which a log begins a new file, before its next entry.

    Attributes:
        max_bytes: the size of a file.
        max_age: the age of its first entry, in seconds.
        clock: returns seconds since the epoch.

    Raises:
        InputError: a limit is not a positive number.
    """

    max_bytes: int | None = None
    max_age: float | None = None
    clock: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        for name, limit in (("max_bytes", self.max_bytes), ("max_age", self.max_age)):
            if limit is not None and not (type(limit) in (int, float) and 0 < limit < math.inf):
                raise InputError(f"{name!r} is {limit!r}; expected a number above 0")

    def is_due(self, size: int, first: Entry) -> bool:
        """Returns whether a file of this size that begins with this entry is to be closed."""
        if self.max_bytes is not None and size >= self.max_bytes:
            return True
        return self.max_age is not None and self.clock() - _seconds(first) >= self.max_age


@lru_cache(maxsize=16)  # asked for at each entry
def _seconds(entry: Entry) -> float:
    """Returns the time of an entry; one without a readable time is older than any limit."""
    try:
        return datetime.fromisoformat(json.loads(entry.text)["time"]).timestamp()
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return -math.inf


def archive_path(path: Path, first: int) -> Path:
    """Returns the later name of a log file that begins with the entry of this number."""
    path = path.resolve()
    return path.with_name(f"{path.stem}.{first:0{_DIGITS}}{path.suffix}")


def archives(path: Path) -> list[tuple[int, Path]]:
    """Returns the earlier files of a log in order, with the numbers in their names.

    Raises:
        OSError: the folder cannot be read.
    """
    path = path.resolve()
    name = re.compile(rf"{re.escape(path.stem)}\.([0-9]{{{_DIGITS},18}}){re.escape(path.suffix)}")
    archives = [(name.fullmatch(path.name), path) for path in path.parent.iterdir()]
    return sorted((int(match[1]), archive) for match, archive in archives if match)


def current_path(path: Path) -> Path:
    """Returns the current file of the log to which a file belongs."""
    name, _, number = path.stem.rpartition(".")
    is_archive = name and re.fullmatch(rf"[0-9]{{{_DIGITS},18}}", number)
    return path.with_name(f"{name}{path.suffix}") if is_archive else path


def continued_record(archive: Path, last: Entry) -> dict[str, Any]:
    """Returns the first record of the file after an archive that ends with this entry."""
    return {"kind": "continued", "file": archive.name, "entries": last.seq, "hash": last.hash}


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
