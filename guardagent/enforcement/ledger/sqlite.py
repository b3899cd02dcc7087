"""A ledger in an SQLite file that several processes can share."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from guardagent._support.locks import folder_lock, sync_folder
from guardagent.enforcement.calls import HostCall
from guardagent.enforcement.ledger.conversation_history import SqliteJournal
from guardagent.enforcement.ledger.protocol import REJECTED, USED, RecordedRequest
from guardagent.errors import InputError, LedgerError
from guardagent.session.shared_history import HistoryChangedError

_APPLICATION = 0x47414C42
_VERSION = 1
_SCHEMA = (
    "CREATE TABLE ledger (name TEXT NOT NULL)",
    """CREATE TABLE questions (digest TEXT PRIMARY KEY, conversation TEXT NOT NULL, root TEXT NOT NULL,
                               rules TEXT NOT NULL, rejected INTEGER NOT NULL) WITHOUT ROWID""",
    "CREATE INDEX questions_of ON questions (conversation)",
    "CREATE TABLE used (digest TEXT PRIMARY KEY) WITHOUT ROWID",
    """CREATE TABLE entries (conversation TEXT NOT NULL, place INTEGER NOT NULL, policy TEXT NOT NULL,
                             entry TEXT, PRIMARY KEY (conversation, place)) WITHOUT ROWID""",
    "CREATE TABLE proposed (conversation TEXT, id TEXT, PRIMARY KEY (conversation, id)) WITHOUT ROWID",
)
_LOCK_SECONDS = 5.0  # how long a process waits for another one
_inherited: list[sqlite3.Connection] = []
"""Connections that a fork has inherited; SQLite forbids their use and closing."""


class SqliteLedger:
    """A `Ledger` in a file, which is created in an existing folder. Only its owner may read it.

    Acknowledged writes are on the disk. Processes share conversations by sharing the file. The file must not be on a
    network file system, since SQLite cannot rely on its locks.

    Args:
        path: the path of the file.

    Raises:
        InputError: the file cannot be opened, is not a ledger, or belongs to another release.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._reset()
        try:
            self._create()
            self.name: str = self._connection().execute("SELECT name FROM ledger").fetchone()[0]
        except (sqlite3.Error, OSError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise InputError(f"{self.path}: cannot be opened as a ledger: {reason}; expected an SQLite file") from None
        self._file = _identity(self.path)

    # --- approvals

    def record_request(self, call: HostCall, rules: Sequence[str], edited: HostCall | None = None) -> None:
        with self._transaction() as db:
            root = _root(db, edited or call)
            _require_unused(db, call.digest, root)
            _put(db, call, RecordedRequest(tuple(rules), root))

    def recorded_request(self, call: HostCall) -> RecordedRequest | None:
        with self._connected() as db:
            found = _recorded_request(db, call)
            _require_unused(db, call.digest, found.root if found else call.digest)
            return found

    def reject(self, call: HostCall) -> None:
        with self._transaction() as db:
            _put(db, call, RecordedRequest((), _root(db, call), rejected=True))

    def use(self, call: HostCall) -> None:
        with self._transaction() as db:
            question = _recorded_request(db, call)
            used = {call.digest, question.root if question else call.digest}
            _require_unused(db, *used)
            if question is not None and question.rejected:
                raise InputError(REJECTED)
            db.executemany("INSERT INTO used VALUES (?)", [(one,) for one in used])

    def end(self, conversation: str) -> None:
        with self._transaction() as db:
            db.execute("DELETE FROM questions WHERE conversation = ?", (conversation,))
            db.execute("DELETE FROM proposed WHERE conversation = ?", (conversation,))
            last = _last(db, conversation)
            if last:  # so that other processes see the end
                db.execute("DELETE FROM entries WHERE conversation = ?", (conversation,))
                db.execute("INSERT INTO entries VALUES (?, ?, '', NULL)", (conversation, last + 1))

    # --- conversations

    def journal(self, conversation: str, policy: str) -> SqliteJournal:
        return SqliteJournal(self, conversation, policy)

    def entries(self, conversation: str, after: int) -> list[tuple[int, str, str | None]]:
        """Returns (place, policy, entry) of the entries after a place; the end of a conversation has no entry."""
        query = "SELECT place, policy, entry FROM entries WHERE conversation = ? AND place > ? ORDER BY place"
        with self._connected() as db:
            return db.execute(query, (conversation, after)).fetchall()

    def append(self, conversation: str, place: int, policy: str, entry: str, call_id: str | None) -> None:
        """Adds an entry.

        Raises:
            MovedError: another process has added an entry at this place.
        """
        with self._transaction() as db:
            if _last(db, conversation) != place - 1:
                raise HistoryChangedError(f"another process added to conversation {conversation!r}")
            db.execute("INSERT INTO entries VALUES (?, ?, ?, ?)", (conversation, place, policy, entry))
            if call_id is not None:
                db.execute("INSERT OR IGNORE INTO proposed VALUES (?, ?)", (conversation, call_id))

    def add_call_id(self, conversation: str, call_id: str) -> None:
        """Stores the id of a call."""
        with self._transaction() as db:
            db.execute("INSERT OR IGNORE INTO proposed VALUES (?, ?)", (conversation, call_id))

    def has_call_id(self, conversation: str, call_id: str) -> bool:
        """Whether the id is stored."""
        query = "SELECT 1 FROM proposed WHERE conversation = ? AND id = ?"
        with self._connected() as db:
            return db.execute(query, (conversation, call_id)).fetchone() is not None

    # --- the file

    def close(self) -> None:
        """Closes the file; the next use opens it again."""
        with self._lock:
            self._close()

    def _reset(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Opens a transaction with a write lock."""
        with self._connected() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:  # an error such as a full disk has already ended it
                    db.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        """Gives the connection to one thread at a time; reconnects after an error."""
        if self._process != os.getpid():
            _inherited.extend([self._db] if self._db is not None else [])
            self._reset()
        with self._lock:
            try:
                if _identity(self.path) != self._file:  # SQLite would continue to use the removed file
                    raise LedgerError(
                        f"{self.path}: is another file than the one that was opened; the ledger was moved or replaced"
                    )
                yield self._connection()
            except (sqlite3.Error, OSError) as error:
                self._close()
                reason = error.strerror if isinstance(error, OSError) else error
                raise LedgerError(f"{self.path}: the ledger cannot be used: {reason}") from None

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
                _require_ledger(db, self.path)
                db.execute("PRAGMA synchronous = FULL")
                undo.pop_all()
            self._db = db
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
                _create_schema(db)
            new.replace(path)
            sync_folder(path.parent)


def _create_schema(db: sqlite3.Connection) -> None:
    db.execute("PRAGMA journal_mode = WAL")
    db.execute(f"PRAGMA application_id = {_APPLICATION}")
    db.execute(f"PRAGMA user_version = {_VERSION}")
    for statement in _SCHEMA:
        db.execute(statement)
    db.execute("INSERT INTO ledger VALUES (?)", (secrets.token_hex(8),))


def _require_ledger(db: sqlite3.Connection, path: Path) -> None:
    if db.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION:
        raise InputError(
            f"{path}: is not a ledger; expected a file that SqliteLedger created, or the path of a new one"
        )
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version != _VERSION:
        raise InputError(
            f"{path}: is a ledger of format {version}, and this release reads format {_VERSION}; "
            "continue with the release that created it, or begin a new file: then old approvals are void"
        )


def _identity(path: Path) -> tuple[int, int]:
    found = os.stat(path)  # noqa: PTH116 - faster, and called at every use
    return found.st_dev, found.st_ino


def _last(db: sqlite3.Connection, conversation: str) -> int:
    """Returns the place of the last entry, or 0."""
    query = "SELECT coalesce(max(place), 0) FROM entries WHERE conversation = ?"
    return db.execute(query, (conversation,)).fetchone()[0]  # type: ignore[no-any-return]


def _recorded_request(db: sqlite3.Connection, call: HostCall) -> RecordedRequest | None:
    row = db.execute("SELECT rules, root, rejected FROM questions WHERE digest = ?", (call.digest,)).fetchone()
    return RecordedRequest(tuple(json.loads(row[0])), row[1], bool(row[2])) if row else None


def _root(db: sqlite3.Connection, call: HostCall) -> str:
    question = _recorded_request(db, call)
    return question.root if question else call.digest


def _put(db: sqlite3.Connection, call: HostCall, one: RecordedRequest) -> None:
    row = (call.digest, call.conversation, one.root, json.dumps(one.rules), one.rejected)
    db.execute("INSERT OR REPLACE INTO questions VALUES (?, ?, ?, ?, ?)", row)


def _require_unused(db: sqlite3.Connection, *digests: str) -> None:
    for digest in digests:
        if db.execute("SELECT 1 FROM used WHERE digest = ?", (digest,)).fetchone():
            raise InputError(USED)
