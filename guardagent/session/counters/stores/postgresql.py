"""Counters in a PostgreSQL database that several machines share."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from guardagent._support.postgres_server import PostgresFormat, PostgresServer
from guardagent.errors import CounterError
from guardagent.session.counters.tables import ADVICE, TableStore

_FORMAT = PostgresFormat(
    "store of counters",
    "guardagent_counters",
    1,
    (
        """CREATE TABLE keys (counter text, key text, settled text NOT NULL, pending text NOT NULL,
                              version bigint NOT NULL, clock double precision NOT NULL, expires double precision,
                              PRIMARY KEY (counter, key))""",
        "CREATE INDEX keys_by_expiry ON keys (expires)",
        """CREATE TABLE amounts (reservation text, counter text, key text NOT NULL, time double precision NOT NULL,
                                 amount text NOT NULL, pending integer NOT NULL, PRIMARY KEY (reservation, counter))""",
        "CREATE INDEX amounts_by_time ON amounts (counter, key, time)",
        "CREATE INDEX amounts_in_flight ON amounts (time) WHERE pending = 1",
    ),
    ADVICE,
    CounterError,
)


class Store(TableStore):
    """A store in a database schema. Its address is `postgresql://user@host/database`.

    Args:
        rest: the address after `postgresql:`.

    Raises:
        InputError: as `PostgresServer`.
    """

    def __init__(self, rest: str) -> None:
        self._server = PostgresServer(rest, _FORMAT)

    def close(self) -> None:
        """Closes idle connections; the next use opens new ones."""
        self._server.close()

    def _connected(self) -> AbstractContextManager[Any]:
        return self._server.connected()

    def _transaction(self, keys: Sequence[tuple[str, str]], *, durable: bool = True) -> AbstractContextManager[Any]:
        return self._server.transaction(*map("\0".join, keys), durable=durable)

    def _try_lock(self, db: Any, key: tuple[str, str]) -> bool:
        return self._server.try_lock(db, "\0".join(key))
