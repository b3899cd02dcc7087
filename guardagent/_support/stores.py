"""An SQLite file with a fixed schema that several threads and processes share."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from guardagent._support.locks import folder_lock, sync_folder
from guardagent.errors import GuardError, InputError

_LOCK_SECONDS = 5.0  # how long a process waits for another one
_inherited: list[sqlite3.Connection] = []
"""Connections that a fork has inherited; SQLite forbids their use and closing."""


@dataclass(frozen=True, slots=True)
class SqliteFormat:
    """The content of a kind of file.

    Attributes:
        name: the kind in messages, such as `ledger`.
        creator: the class that creates such files.
        application: the number that marks such files.
        version: the version of the schema.
        schema: the statements that create it.
        advice: the advice for files of another version.
        error: the error of a file that cannot be used.
    """

    name: str
    creator: str
    application: int
    version: int
    schema: tuple[str, ...]
    advice: str
    error: type[GuardError]


class SqliteFile:
    """A file of one format, which is created in an existing folder. Only its owner may read it.

    Acknowledged writes are on the disk. The file must not be on a network file system, since SQLite cannot rely on its
    locks.

    Args:
        path: the path of the file.
        kind: its format.

    Raises:
        InputError: the file cannot be opened, has another format, or belongs to another release.
    """

    _is_full: bool  # the synchronous mode of the connection

    def __init__(self, path: Path, kind: SqliteFormat) -> None:
        self.path, self._kind = path.absolute(), kind  # so that the process may change its folder
        self._reset()
        try:
            self._create()
            self._connection()
        except (sqlite3.Error, OSError) as error:
            raise InputError(
                f"{path}: cannot be opened as a {kind.name}: {_reason(error)}; expected an SQLite file"
            ) from None
        self._file = _identity(path)

    @contextlib.contextmanager
    def transaction(self, *, durable: bool = True) -> Iterator[sqlite3.Connection]:
        """Opens a transaction with a write lock. One that is not durable survives its process, but not a power loss."""
        with self.connected() as db:
            if durable != self._is_full:
                db.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
                self._is_full = durable
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:  # an error such as a full disk has already ended it
                    db.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def connected(self) -> Iterator[sqlite3.Connection]:
        """Gives the connection to one thread at a time; reconnects after an error."""
        if self._process != os.getpid():
            _inherited.extend([self._db] if self._db is not None else [])
            self._reset()
        name, error_type = self._kind.name, self._kind.error
        with self._lock:
            try:
                if _identity(self.path) != self._file:  # SQLite would continue to use the removed file
                    raise error_type(
                        f"{self.path}: is another file than the one that was opened; the {name} was moved or replaced"
                    )
                yield self._connection()
            except (sqlite3.Error, OSError) as error:
                self._close()
                raise error_type(f"{self.path}: the {name} cannot be used: {_reason(error)}") from None

    def close(self) -> None:
        """Closes the file; the next use opens it again."""
        with self._lock:
            self._close()

    def _reset(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None
        self._is_full = True

    def _close(self) -> None:
        with contextlib.suppress(sqlite3.Error):
            if self._db is not None:
                self._db.close()
        self._db = None

    def _connection(self) -> sqlite3.Connection:
        if self._db is None:
            with contextlib.ExitStack() as undo:
                uri = f"{self.path.resolve().as_uri()}?mode=rw"
                db = sqlite3.connect(
                    uri, uri=True, timeout=_LOCK_SECONDS, isolation_level=None, check_same_thread=False
                )
                undo.callback(db.close)
                self._require_format(db)
                db.execute("PRAGMA synchronous = FULL")
                undo.pop_all()
            self._db, self._is_full = db, True
        return self._db

    def _create(self) -> None:
        """Creates the file under another name and renames it, so that it appears complete."""
        path = self.path
        if path.exists() and path.stat().st_size:
            return
        with folder_lock(path.parent):
            if path.exists() and path.stat().st_size:
                return
            new = path.with_name(f".{path.name}.new")
            for left in ("", "-journal", "-wal", "-shm"):  # left behind by a killed process
                Path(f"{new}{left}").unlink(missing_ok=True)
            os.close(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            with contextlib.closing(sqlite3.connect(new, isolation_level=None)) as db:
                self._create_schema(db)
            new.replace(path)
            sync_folder(path.parent)

    def _create_schema(self, db: sqlite3.Connection) -> None:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(f"PRAGMA application_id = {self._kind.application}")
        db.execute(f"PRAGMA user_version = {self._kind.version}")
        for statement in self._kind.schema:
            db.execute(statement)

    def _require_format(self, db: sqlite3.Connection) -> None:
        kind, path = self._kind, self.path
        if db.execute("PRAGMA application_id").fetchone()[0] != kind.application:
            raise InputError(
                f"{path}: is not a {kind.name}; expected a file that {kind.creator} created, or the path of a new one"
            )
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if version != kind.version:
            raise InputError(
                f"{path}: is a {kind.name} of format {version}, and this release reads format {kind.version}; "
                f"{kind.advice}"
            )
        found = {_folded(row[0]) for row in db.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}
        if found != {_folded(one) for one in kind.schema if one.startswith("CREATE ")}:
            raise InputError(
                f"{path}: has other tables, indexes or triggers than a {kind.name}; expected the file as "
                f"{kind.creator} created it: restore it from a backup, or begin a new one"
            )


def _identity(path: Path) -> tuple[int, int]:
    found = os.stat(path)  # noqa: PTH116 - faster, and called at every use
    return found.st_dev, found.st_ino


def _folded(statement: str) -> str:
    return " ".join(statement.split())


def _reason(error: sqlite3.Error | OSError) -> object:
    return error.strerror if isinstance(error, OSError) else error
