"""Shared stores: an SQLite file of several processes, addresses of stores, and servers that keep one.

The SQLite file has a fixed schema. An address is a URL whose password no message shows. A server has its errors, and a
limit on the time that its users wait for it.
"""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

from guardagent._support.files import folder_lock, sync_folder
from guardagent.errors import GuardError, InputError

_BRIEF_SECONDS = 0.0005  # enough for another thread to go on and to release a lock, as only one of them runs
_LOCK_SECONDS = 5.0  # how long a process waits for another one
_inherited: list[sqlite3.Connection] = []
"""Connections that a fork has inherited; SQLite forbids their use and closing."""


@dataclass(frozen=True, slots=True)
class StoreFormat:
    """The content of a kind of store.

    Attributes:
        name: the kind in messages, such as `ledger`.
        version: the version of the format.
        advice: the advice for stores of another version.
        error: the error of a store that cannot be used.
        prefix: on a server, the database schema or the beginning of all keys, unless the address names another one.
        tables: the statements that create the tables in PostgreSQL.
        file_tables: those that create them in an SQLite file.
        creator: the class or command that creates such files.
        application: the number that marks such files.
    """

    name: str
    version: int
    advice: str
    error: type[GuardError]
    prefix: str = ""
    tables: tuple[str, ...] = ()
    file_tables: tuple[str, ...] = ()
    creator: str = ""
    application: int = 0


class StatementRunner(Protocol):
    """Runs statements, with `?` as the mark of a parameter."""

    def execute(self, query: str, parameters: Sequence[Any] = ..., /) -> Any: ...


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
    _opened = 0  # the number of connections until now
    _patience: float  # for which the connection waits for the locks of others

    def __init__(self, path: Path, kind: StoreFormat) -> None:
        self.path, self._kind = path.absolute(), kind  # so that the process may change its folder
        self._reset()
        try:
            self._create()
            self._connection()
        except (sqlite3.Error, OSError) as error:
            raise InputError(
                f"{path}: cannot be opened as a {kind.name}: {_reason(error)}; expected an SQLite file"
            ) from None
        self._file = file_identity(path)

    @contextlib.contextmanager
    def transaction(self, *_: str, durable: bool = True, seconds: float | None = None) -> Iterator[sqlite3.Connection]:
        """Opens a transaction that locks the file. One that is not durable survives its process, not a power loss.

        Raises:
            StoreBusyError: others use the file for so long.
        """
        with self.connected(seconds=seconds) as db:
            if durable != self._is_full:
                db.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
                self._is_full = durable
            with write_transaction(db, may_be_busy=seconds is not None):
                yield db

    @contextlib.contextmanager
    def connected(self, *, seconds: float | None = None) -> Iterator[sqlite3.Connection]:
        """Gives the connection to one thread at a time; reconnects after an error. Raises as `transaction`."""
        if self._process != os.getpid():
            _inherited.extend([self._db] if self._db is not None else [])
            self._reset()
        name, error_type = self._kind.name, self._kind.error
        with held_lock(self._lock, seconds=seconds):
            try:
                if file_identity(self.path) != self._file:  # SQLite would continue to use the removed file
                    raise error_type(
                        f"{self.path}: is another file than the one that was opened; the {name} was moved or replaced"
                    )
                db, patience = self._connection(), _LOCK_SECONDS if seconds is None else seconds
                if patience != self._patience:
                    wait_for_locks(db, patience)
                    self._patience = patience
                yield db
            except (sqlite3.Error, OSError) as error:
                self._close()
                raise error_type(f"{self.path}: the {name} cannot be used: {_reason(error)}") from None

    def version(self) -> object:
        """Returns a value that changes with the content of the file; None if that takes over half a millisecond."""
        if not self._lock.acquire(timeout=_BRIEF_SECONDS):
            return None
        try:
            if self._db is None or self._process != os.getpid() or file_identity(self.path) != self._file:
                return None
            return self.version_in(self._db)
        except (sqlite3.Error, OSError):
            return None
        finally:
            self._lock.release()

    def version_in(self, db: sqlite3.Connection) -> object:
        """Returns the version of the content that the next statements see, or a later one."""
        return self._opened, db.total_changes, db.execute("PRAGMA data_version").fetchone()[0]

    def try_lock(self, *_: object) -> bool:
        """Returns True: a transaction locks the whole file."""
        return True

    def execute(self, query: str, parameters: Sequence[Any]) -> list[Any]:
        """Runs a statement as a transaction of its own, and returns its rows."""
        with self.transaction() as db:
            return db.execute(query, parameters).fetchall()

    def repeatable(self, query: str, parameters: Sequence[Any]) -> list[Any]:
        """Returns the rows of a statement that only reads."""
        with self.connected() as db:
            return db.execute(query, parameters).fetchall()

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
                db = connect_file(self.path, _LOCK_SECONDS)
                undo.callback(db.close)
                self._require_format(db)
                db.execute("PRAGMA synchronous = FULL")
                undo.pop_all()
            self._db, self._is_full, self._opened = db, True, self._opened + 1
            self._patience = _LOCK_SECONDS
        return self._db

    def _create(self) -> None:
        path = self.path
        if path.exists() and path.stat().st_size:
            return
        with folder_lock(path.parent):
            if path.exists() and path.stat().st_size:
                return
            create_file(path, self._kind.application, self._kind.version, self._kind.file_tables)

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
        statements = {_folded(row[0]) for row in db.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}
        if statements != {_folded(statement) for statement in kind.file_tables if statement.startswith("CREATE ")}:
            raise InputError(
                f"{path}: has other tables, indexes or triggers than a {kind.name}; expected the file as "
                f"{kind.creator} created it: restore it from a backup, or begin a new one"
            )


def create_file(path: Path, application: int, version: int, statements: Sequence[str]) -> None:
    """Creates an SQLite file under another name and renames it, so that it appears complete.

    The caller has locked its folder.
    """
    new = path.with_name(f".{path.name}.new")
    for suffix in ("", "-journal", "-wal", "-shm"):  # left behind by a killed process
        Path(f"{new}{suffix}").unlink(missing_ok=True)
    os.close(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    with contextlib.closing(sqlite3.connect(new, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(f"PRAGMA application_id = {application}")
        db.execute(f"PRAGMA user_version = {version}")
        for statement in statements:
            db.execute(statement)
    new.replace(path)
    sync_folder(path.parent)


def connect_file(path: Path, seconds: float) -> sqlite3.Connection:
    """Connects to an existing SQLite file, in autocommit mode; waits so long for the locks of others."""
    uri = f"{path.resolve().as_uri()}?mode=rw"
    return sqlite3.connect(uri, uri=True, timeout=seconds, isolation_level=None, check_same_thread=False)


class StoreBusyError(GuardError):
    """Others use a store, and the caller does not wait for them; nothing was done."""


@contextlib.contextmanager
def held_lock(lock: threading.Lock, *, seconds: float | None) -> Iterator[None]:
    """Holds a lock meanwhile.

    Raises:
        StoreBusyError: another thread holds it for so long.
    """
    if not lock.acquire(timeout=-1 if seconds is None else seconds):
        raise StoreBusyError("another thread uses the store")
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def write_transaction(db: sqlite3.Connection, *, may_be_busy: bool = False) -> Iterator[None]:
    """Opens a transaction with the write lock of an SQLite file; an exception undoes it.

    Raises:
        StoreBusyError: with `may_be_busy`, in place of SQLite's error: another connection keeps the lock.
    """
    try:
        db.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError as error:
        if not may_be_busy or error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
            raise
        raise StoreBusyError("another process writes to the store") from None
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:  # an error such as a full disk has already ended it
            db.execute("ROLLBACK")
        raise


def wait_for_locks(db: sqlite3.Connection, seconds: float) -> None:
    """Sets how long a connection waits for the locks of others."""
    db.execute(f"PRAGMA busy_timeout = {int(seconds * 1000)}")


def file_identity(path: Path) -> tuple[int, int]:
    """Returns what distinguishes a file from one that replaces it."""
    status = os.stat(path)  # noqa: PTH116 - faster, and called at every use
    return status.st_dev, status.st_ino


def _folded(statement: str) -> str:
    return " ".join(statement.split())


def _reason(error: sqlite3.Error | OSError) -> object:
    return error.strerror if isinstance(error, OSError) else error


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """The address of a store on a server.

    Attributes:
        url: the URL for the client library, without the store's own options.
        options: the store's own options of the query.
        shown: the address for messages: without user, password and query.
        secrets: the passwords in the URL.
    """

    url: str
    options: dict[str, str]
    shown: str
    secrets: tuple[str, ...]

    @classmethod
    def read(cls, scheme: str, rest: str, own: Collection[str]) -> StoreAddress:
        """Reads an address; `rest` follows the colon, and `own` has the names of the store's own options.

        Raises:
            InputError: it is not a URL, or has an option twice.
        """
        parts = _split(scheme, rest)
        pairs = parse_qsl(parts.query, keep_blank_values=True)
        names = [name for name, _ in pairs]
        shown = f"{scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise InputError(f"{shown}: the option {twice!r} occurs twice; expected it once")
        others = urlencode([pair for pair in pairs if pair[0] not in own], quote_via=quote)  # libpq reads + as a plus
        options = {name: value for name, value in pairs if name in own}
        password = parts.netloc.rpartition("@")[0].partition(":")[2]
        secrets = [password, unquote(password), *(value for name, value in pairs if "password" in name)]
        secrets = sorted({secret for secret in secrets if secret}, key=len, reverse=True)
        return cls(parts._replace(query=others).geturl(), options, shown, tuple(secrets))

    def without_secrets(self, message: object) -> str:
        """Returns the first line of an error message of the client library, without passwords."""
        text = (str(message).strip().splitlines() or [type(message).__name__])[0]
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text

    def name_option(self, name: str, default: str) -> str:
        """Returns an option that is a name of letters, digits and underscores.

        Raises:
            InputError: it is something else.
        """
        option = self.options.get(name, default)
        if not re.fullmatch("[a-z_][a-z0-9_]{0,50}", option):
            raise InputError(
                f"{self.shown}: the option {name!r} is {option!r}; expected up to 51 lower-case letters, digits and "
                "underscores, and no digit at the beginning"
            )
        return option


def _split(scheme: str, rest: str) -> SplitResult:
    try:
        parts = urlsplit(f"{scheme}:{rest}")
        readable = rest.startswith("//") and parts.port != 0 and not parts.fragment and rest.isprintable()
        readable = readable and "@" not in parts.path + parts.query  # else a password with a slash would be shown
    except ValueError:
        readable = False
    if not readable:  # the address itself may hold a password
        raise InputError(
            f"the address of the store at {scheme!r} cannot be read; expected {scheme}://user:password@host:port/name, "
            "with special characters in the password percent-encoded"
        )
    return parts


SECONDS = 5.0  # for a connection, and for each answer
PAUSE = 1.0  # after an answer that did not come, nobody else waits for the server
CONNECTIONS = 16  # of one process


class StoreServer:
    """A server that keeps a store.

    Args:
        address: its address.
        kind: the kind of store, for messages.
        error_type: the error of a store that cannot be used.
        library_errors: the errors of the client library.
    """

    def __init__(
        self,
        address: StoreAddress,
        kind: str,
        error_type: type[GuardError],
        library_errors: tuple[type[Exception], ...],
    ) -> None:
        self.address, self.error_type = address, error_type
        self._name = kind
        self._library_errors: tuple[type[Exception], ...] = (*library_errors, OSError, UnicodeError)
        self._resumes = 0.0

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        """Turns errors of the library into those of the store. While the server hangs, one user at a time waits."""
        started = time.monotonic()
        if started < self._resumes:
            raise self.failure("the server did not answer a moment ago")
        try:
            yield
        except self._library_errors as error:
            if time.monotonic() - started > 0.9 * SECONDS:
                self._resumes = time.monotonic() + PAUSE
            raise self.failure(self.reason(error)) from error

    def failure(self, reason: str) -> GuardError:
        """Returns the error of a store that cannot be used."""
        return self.error_type(f"{self.address.shown}: the {self._name} cannot be used: {reason}")

    def reason(self, error: BaseException) -> str:
        """Returns the message of an error of the library, without passwords."""
        return self.address.without_secrets(error)
