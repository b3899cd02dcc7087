"""A server's state in an SQLite file, for the servers of one machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from guardagent._support.sqlite_file import SqliteFile, SqliteFormat
from guardagent.errors import StateError
from guardagent.server.state.state_store import ADVICE
from guardagent.server.state.tables import TableState

_FORMAT = SqliteFormat(
    "server's state",
    "'guardagent serve'",
    0x47415353,
    1,
    (
        """CREATE TABLE items (number INTEGER PRIMARY KEY, kind TEXT NOT NULL, tenant TEXT NOT NULL,
                               name TEXT NOT NULL, value TEXT NOT NULL, version INTEGER NOT NULL)""",
        "CREATE UNIQUE INDEX items_by_name ON items (kind, tenant, name)",
        "CREATE INDEX items_by_number ON items (kind, tenant, number)",
    ),
    ADVICE,
    StateError,
)


class SqliteState(TableState):
    """A `StateStore` in a file, which is created in an existing folder. Its address is `sqlite:PATH`.

    Raises:
        InputError: the file cannot be opened, holds something else, or belongs to another release.
    """

    def __init__(self, path: Path | str) -> None:
        self._file = SqliteFile(Path(path), _FORMAT)

    def _run(self, query: str, parameters: Sequence[Any]) -> list[Any]:
        if query.startswith("SELECT"):
            with self._file.connected() as db:
                return db.execute(query, parameters).fetchall()
        with self._file.transaction() as db:
            return db.execute(query, parameters).fetchall()

    def close(self) -> None:
        self._file.close()
