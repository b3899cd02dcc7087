"""A log in an SQLite file: each row is an entry. Several processes may append to it.

A batch is one transaction, which reads the last row and appends after it. In WAL mode readers never block writers.
"""

from __future__ import annotations

import contextlib
import math
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from guardagent._support.files import folder_lock
from guardagent._support.stores import connect_file, create_file, file_identity, wait_for_locks, write_transaction
from guardagent.errors import ContentError, InputError, LogError
from guardagent.log.chain import DamagedLogError, Entry
from guardagent.log.stores import EntryFactory, write_errors

_APPLICATION = 0x47414C47
_VERSION = 1
_SCHEMA = (
    "CREATE TABLE entries (seq INTEGER PRIMARY KEY, entry TEXT NOT NULL, prev TEXT NOT NULL, hash TEXT NOT NULL)",
    "CREATE TRIGGER kept BEFORE DELETE ON entries BEGIN SELECT RAISE(ABORT, 'nothing is removed from a log'); END",
    "CREATE TRIGGER fixed BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT, 'nothing is changed in a log'); END",
)
_COLUMNS = "seq, entry, prev, hash"
_INSERT = f"INSERT INTO entries ({_COLUMNS}) VALUES (?, ?, ?, ?)"  # noqa: S608
_LAST = f"SELECT {_COLUMNS} FROM entries ORDER BY seq DESC LIMIT 1"  # noqa: S608
_LOCK_TIMEOUT = 20.0  # seconds
_BATCH_SIZE = 1024


class Store:
    """Appends to one file."""

    appends_within = True  # a time

    def __init__(self, path: Path, *, durable: bool) -> None:
        self.name = str(path)
        self._path = path
        self._durable = durable
        self._db: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._patience = _LOCK_TIMEOUT
        with self._log_errors():
            self._connection()

    def last(self) -> Entry | None:
        """Returns the last entry."""
        with self._log_errors():
            return _last(self._connection())

    def append(self, make: EntryFactory, *, seconds: float | None = None) -> None:
        """Appends in one transaction.

        Raises:
            StoreBusyError: another process writes for so long.
        """
        with self._log_errors():
            db = self._connection()
            self._require_same_file()
            patience = _LOCK_TIMEOUT if seconds is None else seconds
            if patience != self._patience:
                wait_for_locks(db, patience)
                self._patience = patience
            with write_transaction(db, may_be_busy=seconds is not None):
                db.executemany(_INSERT, make(_last(db), ()))

    def close(self) -> None:
        """Closes the file; the last process to do so merges everything into the one file."""
        if self._db is not None:
            self._db.close()
        self._db = None

    def _log_errors(self) -> contextlib.AbstractContextManager[None]:
        return write_errors(self._path, self.close, sqlite3.Error)

    def _connection(self) -> sqlite3.Connection:
        if self._db is None:
            with contextlib.ExitStack() as undo:
                if not self._path.exists() or not self._path.stat().st_size:
                    _create(self._path, fresh=self._file is None)
                db = connect_file(self._path, _LOCK_TIMEOUT)
                undo.callback(db.close)
                _require_log(db, self._path)
                db.execute(f"PRAGMA synchronous = {'FULL' if self._durable else 'NORMAL'}")
                self._file = self._file or file_identity(self._path)
                undo.pop_all()
            self._db, self._patience = db, _LOCK_TIMEOUT
        return self._db

    def _require_same_file(self) -> None:
        """Makes sure that the file was not replaced: SQLite would write to a removed one."""
        if file_identity(self._path) != self._file:
            raise LogError(f"{self._path}: is another file than the one opened: the log was moved or replaced")


class LogReader:
    """Reads one file in portions, so that no writer waits for a slow reader."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._path = path
        self.notes: list[str] = []

    def __iter__(self) -> Iterator[Entry]:
        query = f"SELECT {_COLUMNS} FROM entries WHERE seq > ? ORDER BY seq LIMIT {_BATCH_SIZE}"  # noqa: S608
        last = -math.inf  # a tampered row may have any number
        while rows := self._portion(query, last):
            yield from rows
            last = rows[-1].seq

    def backwards(self) -> Iterator[Entry]:
        """Iterates from the end."""
        query = f"SELECT {_COLUMNS} FROM entries WHERE seq < ? ORDER BY seq DESC LIMIT {_BATCH_SIZE}"  # noqa: S608
        first = math.inf
        while rows := self._portion(query, first):
            yield from rows
            first = rows[-1].seq

    def _portion(self, query: str, bound: float) -> list[Entry]:
        while True:
            before = _state(self._path)
            try:
                with contextlib.closing(_connect_reading(self._path, *before)) as db:
                    _require_log(db, self._path)
                    rows = [Entry(*row) for row in db.execute(query, (bound,))]
            except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
                problem: Exception | None = error
            else:
                problem = None
            if before[0] or before == _state(self._path):  # otherwise a writer appeared meanwhile
                break
        if problem is not None:
            raise _unreadable(self._path, problem)
        return rows


def _create(path: Path, *, fresh: bool) -> None:
    """Creates the file, which appears complete; one that was open before and is gone is not created again."""
    if not fresh:
        raise LogError(f"{path}: no longer exists: the log was moved or removed")
    with folder_lock(path.parent):
        if path.exists() and path.stat().st_size:
            return
        if _wal(path).exists():  # SQLite would read it as part of the new file
            raise LogError(f"{path}: no longer exists, but {_wal(path).name!r} has entries of it: move the log back")
        create_file(path, _APPLICATION, _VERSION, _SCHEMA)


def _require_log(db: sqlite3.Connection, path: Path) -> None:
    """Makes sure that no other schema can change the meaning of reads or writes."""
    application = db.execute("PRAGMA application_id").fetchone()[0]
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if (application, version) != (_APPLICATION, _VERSION):
        raise ContentError("is not a log, or has the format of another release", path)
    statements = [row[0] for row in db.execute("SELECT sql FROM sqlite_schema ORDER BY rowid LIMIT 9")]
    if statements != list(_SCHEMA):
        raise DamagedLogError("cannot be read: the file has tables or triggers that a log does not have")


def _last(db: sqlite3.Connection) -> Entry | None:
    row = db.execute(_LAST).fetchone()
    return Entry(*row) if row else None


def _state(path: Path) -> tuple[bool, int, int]:
    """Returns whether a WAL file exists, and the main file's modification time and size."""
    try:
        status = path.stat()
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    return _wal(path).exists(), status.st_mtime_ns, status.st_size


def _connect_reading(path: Path, wal: bool, *_: int) -> sqlite3.Connection:  # noqa: FBT001
    """Opens the file for reading; without a WAL file there is no writer, and only the one file is read.

    A WAL file is read too. Its index is created beside it, or, in a read-only folder, in memory: then nobody may write
    there during the read, and nobody who could is locked out.
    """
    uri = f"{path.resolve().as_uri()}?mode=ro"
    if not wal:
        return _connect(f"{uri}&immutable=1")
    if os.access(path.parent, os.W_OK) or Path(f"{path}-shm").exists():
        return _connect(uri)
    db = _connect(f"{uri}&vfs=unix-none")
    db.execute("PRAGMA locking_mode = EXCLUSIVE")
    return db


def _connect(uri: str) -> sqlite3.Connection:
    return sqlite3.connect(uri, uri=True, timeout=_LOCK_TIMEOUT, isolation_level=None)


def _wal(path: Path) -> Path:
    return Path(f"{path}-wal")


def _unreadable(path: Path, error: Exception) -> Exception:
    """Returns the error for an unreadable file: damage if it was a log, else an input error."""
    if type(error) is sqlite3.DatabaseError and "not a database" in str(error):
        return ContentError(f"is not a log: {error}", path)
    if isinstance(error, sqlite3.OperationalError) and "UTF-8" not in str(error):
        return InputError(f"{path}: cannot be read: {error}")
    return DamagedLogError(f"cannot be read: {error}")
