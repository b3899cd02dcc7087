"""A ledger in an SQLite file that several processes can share."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from guardagent._support.sqlite_file import SqliteFile, SqliteFormat
from guardagent.enforcement.ledger.tables import ADVICE, TableLedger
from guardagent.errors import InputError, LedgerError

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
    ADVICE,
    LedgerError,
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
        self._file = SqliteFile(self.path, _FORMAT)
        with self._connected() as db:
            self.name = db.execute("SELECT name FROM ledger").fetchone()[0]

    def close(self) -> None:
        """Closes the file; the next use opens it again."""
        self._file.close()

    def _connected(self) -> AbstractContextManager[Any]:
        return self._file.connected()

    def _transaction(self, _conversation: str) -> AbstractContextManager[Any]:
        return self._file.transaction()

    def _add_entry(self, row: tuple[str, int, str, str], call_id: str | None) -> bool:
        query = "SELECT coalesce(max(place), 0) FROM entries WHERE conversation = ?"
        with self._file.transaction() as db:
            if db.execute(query, row[:1]).fetchone()[0] != row[1] - 1:
                return False
            db.execute("INSERT INTO entries VALUES (?, ?, ?, ?)", row)
            if call_id is not None:
                db.execute("INSERT OR IGNORE INTO proposed VALUES (?, ?)", (row[0], call_id))
            return True
