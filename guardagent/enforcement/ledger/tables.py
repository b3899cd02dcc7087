"""A ledger in the tables of a database: an SQLite file of one machine, or a PostgreSQL server of several."""

from __future__ import annotations

import abc
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from guardagent._support.stores import SqliteFile, StatementRunner, StoreBusyError, StoreFormat
from guardagent.enforcement.calls import HostCall
from guardagent.enforcement.ledger.history import (
    REJECTED,
    USED,
    ConversationJournal,
    RecordedRequest,
    refused_place,
    stored_name,
)
from guardagent.enforcement.ledger.staging import HistoryChange, Provided
from guardagent.errors import InputError, LedgerError

if TYPE_CHECKING:
    from guardagent._support.postgres import TableStore

_SETTLE_SECONDS, _SETTLE_PAUSE = 5.0, 0.002
_ADVICE = "continue with the release that created it, or begin a new one: then old approvals are void"


class TableLedger(abc.ABC):
    """A `Ledger` in the tables of a database. A conversation has one writer at a time.

    A transaction with the lock of a conversation alone writes its approvals and its end.

    Args:
        tables: the tables.

    Attributes:
        name: identifies the ledger.
    """

    def __init__(self, tables: TableStore) -> None:
        self._tables = tables
        with tables.connected() as db:
            self.name = db.execute("SELECT name FROM ledger").fetchone()[0]

    def close(self) -> None:
        """Closes the file or the idle connections; the next use opens new ones."""
        self._tables.close()

    @abc.abstractmethod
    def commit(
        self, changes: Sequence[HistoryChange], *, seconds: float | None = None, provided: Provided | None = None
    ) -> set[str]:
        """See `HistoryStore.commit`."""

    @abc.abstractmethod
    def _add_entry(self, row: tuple[str, int, str, str], call_id: str | None) -> bool:
        """Adds an entry (conversation, place, policy, entry) if its place is the next one. Returns whether it was."""

    # --- approvals

    def record_request(self, call: HostCall, rules: Sequence[str], edited: HostCall | None = None) -> None:
        with self._tables.transaction(_conversation(call)) as db:
            root = _root(db, edited or call)
            _require_unused(db, call.digest, root)
            _put(db, call, RecordedRequest(tuple(rules), root))

    def recorded_request(self, call: HostCall) -> RecordedRequest | None:
        with self._tables.connected() as db:
            recorded_request = _recorded_request(db, call)
            _require_unused(db, call.digest, recorded_request.root if recorded_request else call.digest)
            return recorded_request

    def reject(self, call: HostCall) -> None:
        with self._tables.transaction(_conversation(call)) as db:
            _put(db, call, RecordedRequest((), _root(db, call), rejected=True))

    def use(self, call: HostCall) -> None:
        with self._tables.transaction(_conversation(call)) as db:
            question = _recorded_request(db, call)
            used = {call.digest, question.root if question else call.digest}
            _require_unused(db, *used)
            if question is not None and question.rejected:
                raise InputError(REJECTED)
            for digest in used:
                db.execute("INSERT INTO used VALUES (?)", (digest,))

    # --- conversations

    def end(self, conversation: str) -> None:
        name = stored_name(conversation)
        with self._tables.transaction(name) as db:
            db.execute("DELETE FROM questions WHERE conversation = ?", (name,))
            db.execute("DELETE FROM proposed WHERE conversation = ?", (name,))
            while last := _last(db, name):  # an entry may be added meanwhile
                mark = "INSERT INTO entries VALUES (?, ?, '', NULL) ON CONFLICT DO NOTHING"
                if db.execute(mark, (name, last + 1)).rowcount:  # so that other processes see the end
                    db.execute("DELETE FROM entries WHERE conversation = ? AND place <= ?", (name, last))
                    return

    def journal(self, conversation: str, policy: str) -> ConversationJournal:
        return ConversationJournal(self, conversation, policy)

    def policy_of(self, conversation: str) -> str | None:
        """Returns the digest of the policy under which a conversation runs; None if it has not begun."""
        query = "SELECT policy FROM entries WHERE conversation = ? AND entry IS NOT NULL LIMIT 1"
        with self._tables.connected() as db:
            row = db.execute(query, (stored_name(conversation),)).fetchone()
        return None if row is None else str(row[0])

    def entries(self, conversation: str, after: int) -> list[tuple[int, str, str | None]]:
        query = "SELECT place, policy, entry FROM entries WHERE conversation = ? AND place > ? ORDER BY place"
        with self._tables.connected() as db:
            return list(db.execute(query, (stored_name(conversation), after)).fetchall())

    def append(self, conversation: str, place: int, policy: str, entry: str, call_id: str | None) -> None:
        name = stored_name(conversation)
        if self._add_entry((name, place, policy, entry), None if call_id is None else stored_name(call_id)):
            return
        with self._tables.connected() as db:
            row = db.execute("SELECT entry FROM entries WHERE conversation = ? AND place = ?", (name, place)).fetchone()
            last = _last(db, name)
        if row is None or row[0] != entry:  # else it was added, and the answer was lost
            raise refused_place(conversation, place, last)

    def add_call_id(self, conversation: str, call_id: str) -> None:
        with self._tables.connected() as db:
            row = stored_name(conversation), stored_name(call_id)
            db.execute("INSERT INTO proposed VALUES (?, ?) ON CONFLICT DO NOTHING", row)

    def has_call_id(self, conversation: str, call_id: str) -> bool:
        query = "SELECT 1 FROM proposed WHERE conversation = ? AND id = ?"
        with self._tables.connected() as db:
            return db.execute(query, (stored_name(conversation), stored_name(call_id))).fetchone() is not None


def _conversation(call: HostCall) -> str:
    return stored_name(str(call.conversation))


def _last(db: StatementRunner, name: str) -> int:
    """Returns the place of the last entry, or 0."""
    query = "SELECT coalesce(max(place), 0) FROM entries WHERE conversation = ?"
    return db.execute(query, (name,)).fetchone()[0]  # type: ignore[no-any-return]


def _recorded_request(db: StatementRunner, call: HostCall) -> RecordedRequest | None:
    row = db.execute("SELECT rules, root, rejected FROM questions WHERE digest = ?", (call.digest,)).fetchone()
    return RecordedRequest(tuple(json.loads(row[0])), row[1], bool(row[2])) if row else None


def _root(db: StatementRunner, call: HostCall) -> str:
    question = _recorded_request(db, call)
    return question.root if question else call.digest


def _put(db: StatementRunner, call: HostCall, recorded_request: RecordedRequest) -> None:
    row = (
        call.digest,
        _conversation(call),
        recorded_request.root,
        json.dumps(recorded_request.rules),
        int(recorded_request.rejected),
    )
    db.execute(
        """INSERT INTO questions VALUES (?, ?, ?, ?, ?) ON CONFLICT (digest) DO UPDATE
           SET root = excluded.root, rules = excluded.rules, rejected = excluded.rejected""",
        row,
    )


def _require_unused(db: StatementRunner, *digests: str) -> None:
    for digest in digests:
        if db.execute("SELECT 1 FROM used WHERE digest = ?", (digest,)).fetchone():
            raise InputError(USED)


# --- databases

_FORMAT = StoreFormat(
    "ledger",
    1,
    _ADVICE,
    LedgerError,
    "guardagent_ledger",
    (
        "CREATE TABLE ledger (name text NOT NULL)",
        "INSERT INTO ledger VALUES (gen_random_uuid())",
        """CREATE TABLE questions (digest text PRIMARY KEY, conversation text NOT NULL, root text NOT NULL,
                               rules text NOT NULL, rejected integer NOT NULL)""",
        "CREATE INDEX questions_of ON questions (conversation)",
        "CREATE TABLE used (digest text PRIMARY KEY)",
        """CREATE TABLE entries (conversation text, place bigint, policy text NOT NULL, entry text,
                             PRIMARY KEY (conversation, place))""",
        "CREATE TABLE proposed (conversation text, id text, PRIMARY KEY (conversation, id))",
    ),
    (
        "CREATE TABLE ledger (name TEXT NOT NULL)",
        """CREATE TABLE questions (digest TEXT PRIMARY KEY, conversation TEXT NOT NULL, root TEXT NOT NULL,
                               rules TEXT NOT NULL, rejected INTEGER NOT NULL) WITHOUT ROWID""",
        "CREATE INDEX questions_of ON questions (conversation)",
        "CREATE TABLE used (digest TEXT PRIMARY KEY) WITHOUT ROWID",
        """CREATE TABLE entries (conversation TEXT NOT NULL, place INTEGER NOT NULL, policy TEXT NOT NULL,
                             entry TEXT, PRIMARY KEY (conversation, place)) WITHOUT ROWID""",
        "CREATE TABLE proposed (conversation TEXT, id TEXT, PRIMARY KEY (conversation, id)) WITHOUT ROWID",
        "INSERT INTO ledger VALUES (lower(hex(randomblob(8))))",
    ),
    creator="SqliteLedger",
    application=0x47414C42,
)


class SqliteLedger(TableLedger):
    """A `Ledger` in a file, which is created in an existing folder. Only its owner may read it.

    Acknowledged writes are on the disk. Processes share conversations by sharing the file. The file must not be on a
    network file system, since SQLite cannot rely on its locks. Its address is `sqlite:PATH`.

    Args:
        path: the path of the file.

    Raises:
        InputError: the file cannot be opened, is not a ledger, or belongs to another release.
    """

    def __init__(self, path: Path | str) -> None:
        if not str(path):
            raise InputError("'sqlite:' has no path; expected an address such as 'sqlite:ledger.db'")
        self.path = Path(path)
        self._tables: SqliteFile
        super().__init__(SqliteFile(self.path, _FORMAT))

    def commit(
        self, changes: Sequence[HistoryChange], *, seconds: float | None = None, provided: Provided | None = None
    ) -> set[str]:
        refused = set()
        with self._tables.transaction(seconds=seconds) as db:
            if provided is not None and _last(db, stored_name(provided[0])) != provided[1]:
                return {change.conversation for change in changes}
            for change in changes:
                name = stored_name(change.conversation)
                if _last(db, name) != change.after:
                    refused.add(change.conversation)
                    continue
                db.executemany("INSERT INTO entries VALUES (?, ?, ?, ?)", [(name, *row[:3]) for row in change.rows])
                proposed = [(name, stored_name(call_id)) for call_id in change.proposed]
                db.executemany("INSERT OR IGNORE INTO proposed VALUES (?, ?)", proposed)
        return refused

    def _add_entry(self, row: tuple[str, int, str, str], call_id: str | None) -> bool:
        with self._tables.transaction() as db:
            if _last(db, row[0]) != row[1] - 1:
                return False
            db.execute("INSERT INTO entries VALUES (?, ?, ?, ?)", row)
            if call_id is not None:
                db.execute("INSERT OR IGNORE INTO proposed VALUES (?, ?)", (row[0], call_id))
            return True


_COMMIT = """/* guardagent commits */
WITH seen AS MATERIALIZED (
    SELECT name, adds FROM unnest(?::text[], ?::bigint[], ?::boolean[]) AS change (name, after, adds)
    WHERE (SELECT coalesce(max(place), 0) FROM entries WHERE conversation = name) = after
      AND (?::text IS NULL OR (SELECT coalesce(max(place), 0) FROM entries WHERE conversation = ?::text) = ?::bigint)
), rows AS (
    SELECT * FROM unnest(?::text[], ?::bigint[], ?::text[], ?::text[], ?::boolean[])
                  AS row (name, place, policy, entry, is_next)
), begun AS (
    INSERT INTO entries SELECT name, place, policy, entry FROM rows JOIN seen USING (name) WHERE is_next ORDER BY name
    ON CONFLICT DO NOTHING RETURNING conversation AS name
), others AS (
    INSERT INTO entries SELECT name, place, policy, entry FROM rows JOIN begun USING (name) WHERE NOT is_next
), added AS (
    SELECT name FROM begun UNION ALL SELECT name FROM seen WHERE NOT adds
), noted AS (
    INSERT INTO proposed SELECT name, id FROM unnest(?::text[], ?::text[]) AS call (name, id) JOIN added USING (name)
    ORDER BY name, id ON CONFLICT DO NOTHING
)
SELECT name FROM added
"""
_NOW = "SELECT clock_timestamp()"
_COMMITTING = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
  AND (state = 'disabled' OR state = 'active' AND query_start <= ?)
  AND (state = 'disabled' OR query LIKE '/* guardagent commits */%' OR query = '<insufficient privilege>')
"""
_ADD_NEXT_ENTRY = """
WITH added AS (
    INSERT INTO entries SELECT ?, ?, ?, ?
    WHERE (SELECT coalesce(max(place), 0) FROM entries WHERE conversation = ?) = ?
    ON CONFLICT DO NOTHING RETURNING conversation
), noted AS (
    INSERT INTO proposed SELECT conversation, ? FROM added WHERE ? ON CONFLICT DO NOTHING
)
SELECT count(*) FROM added
"""


class PostgresLedger(TableLedger):
    """A `Ledger` in a database schema. Its address is `postgresql://user@host/database`.

    Acknowledged writes are on the server's disk. An entry is added by one statement, which only succeeds at the next
    place of its conversation, so a process that was stopped or cut off adds nothing late.

    Args:
        rest: the address after `postgresql:`.

    Raises:
        InputError: as `PostgresServer`.
    """

    def __init__(self, rest: str) -> None:
        from guardagent._support.postgres import PostgresServer  # here: requires psycopg

        super().__init__(PostgresServer(rest, _FORMAT))

    def commit(
        self, changes: Sequence[HistoryChange], *, seconds: float | None = None, provided: Provided | None = None
    ) -> set[str]:
        if seconds is not None:
            raise StoreBusyError("the store is on a server")
        names = {change.conversation: stored_name(change.conversation) for change in changes}
        seen = [(names[change.conversation], change.after, bool(change.rows)) for change in changes]
        rows = [
            (names[change.conversation], *row[:3], row[0] == change.after + 1)  # who adds the first adds them all
            for change in changes
            for row in change.rows
        ]
        proposed = [
            (names[change.conversation], stored_name(call_id)) for change in changes for call_id in change.proposed
        ]
        watched = (None, None, None) if provided is None else (stored_name(provided[0]),) * 2 + (provided[1],)
        columns = [*_columns(seen, 3), *watched, *_columns(rows, 5), *_columns(proposed, 2)]
        added = {row[0] for row in self._tables.repeatable(_COMMIT, columns)}
        return {conversation for conversation, name in names.items() if name not in added}

    def settle(self) -> None:
        """Waits for the commits that may not have seen what was committed before.

        Raises:
            LedgerError: one of them takes too long.
        """
        since, until = self._tables.repeatable(_NOW, ())[0][0], time.monotonic() + _SETTLE_SECONDS
        while self._tables.repeatable(_COMMITTING, (since,))[0][0]:
            if time.monotonic() > until:
                problem = "a commit that began before is still running, or 'track_activities' is off"
                raise LedgerError(f"{problem}; look at 'pg_stat_activity' of the database")
            time.sleep(_SETTLE_PAUSE)

    def _add_entry(self, row: tuple[str, int, str, str], call_id: str | None) -> bool:
        conversation, place = row[:2]
        call = call_id or "", call_id is not None
        return bool(self._tables.repeatable(_ADD_NEXT_ENTRY, (*row, conversation, place - 1, *call))[0][0])


def _columns(rows: Sequence[tuple[object, ...]], count: int) -> list[list[object]]:
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(count)]
