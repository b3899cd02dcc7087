"""A ledger in an SQLite file that several processes can share."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from guardagent._support.sqlite_file import SqliteFile, SqliteFormat
from guardagent.enforcement.calls import HostCall
from guardagent.enforcement.ledger.conversation_history import SqliteJournal
from guardagent.enforcement.ledger.protocol import REJECTED, USED, RecordedRequest
from guardagent.errors import InputError, LedgerError
from guardagent.session.shared_history import HistoryChangedError

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
_FORMAT = SqliteFormat(
    "ledger",
    "SqliteLedger",
    0x47414C42,
    1,
    (*_SCHEMA, "INSERT INTO ledger VALUES (lower(hex(randomblob(8))))"),
    "continue with the release that created it, or begin a new file: then old approvals are void",
    LedgerError,
)


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
        self._file = SqliteFile(self.path, _FORMAT)
        self._connected, self._transaction = self._file.connected, self._file.transaction
        with self._connected() as db:
            self.name: str = db.execute("SELECT name FROM ledger").fetchone()[0]

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

    def policy_of(self, conversation: str) -> str | None:
        """Returns the digest of the policy under which a conversation runs; None if it has not begun."""
        query = "SELECT policy FROM entries WHERE conversation = ? AND entry IS NOT NULL LIMIT 1"
        with self._connected() as db:
            found = db.execute(query, (conversation,)).fetchone()
        return None if found is None else str(found[0])

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
        self._file.close()


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
