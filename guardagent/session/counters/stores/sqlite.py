"""Counters in an SQLite file that several processes of one machine share."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from guardagent._support.sqlite_file import SqliteFile, SqliteFormat
from guardagent.errors import CounterError, InputError
from guardagent.session.counters.tables import ADVICE, TableStore

_FORMAT = SqliteFormat(
    "file of counters",
    "'sqlite:PATH'",
    0x47414343,
    1,
    (
        """CREATE TABLE keys (counter TEXT NOT NULL, key TEXT NOT NULL, settled TEXT NOT NULL, pending TEXT NOT NULL,
                              version INTEGER NOT NULL, clock REAL NOT NULL, expires REAL,
                              PRIMARY KEY (counter, key)) WITHOUT ROWID""",
        "CREATE INDEX keys_by_expiry ON keys (expires)",
        """CREATE TABLE amounts (reservation TEXT NOT NULL, counter TEXT NOT NULL, key TEXT NOT NULL,
                                 time REAL NOT NULL, amount TEXT NOT NULL, pending INTEGER NOT NULL,
                                 PRIMARY KEY (reservation, counter)) WITHOUT ROWID""",
        "CREATE INDEX amounts_by_time ON amounts (counter, key, time)",
    ),
    ADVICE,
    CounterError,
)


class Store(TableStore):
    """A store in a file, which is created in an existing folder. Its address is `sqlite:PATH`.

    Args:
        path: the path of the file.

    Raises:
        InputError: the file cannot be opened, holds something else, or belongs to another release.
    """

    def __init__(self, path: str) -> None:
        if not path:
            raise InputError("'sqlite:' has no path; expected an address such as 'sqlite:counters.db'")
        self._file = SqliteFile(Path(path), _FORMAT)

    def close(self) -> None:
        """Closes the file; the next use opens it again."""
        self._file.close()

    def _connected(self) -> AbstractContextManager[Any]:
        return self._file.connected()

    def _transaction(self, _keys: Sequence[tuple[str, str]], *, durable: bool = True) -> AbstractContextManager[Any]:
        return self._file.transaction(durable=durable)

    def _try_lock(self, _db: Any, _key: tuple[str, str]) -> bool:
        return True  # a transaction locks the whole file
