"""A server's state in a PostgreSQL database that several machines share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from guardagent._support.postgres_server import PostgresFormat, PostgresServer
from guardagent.errors import StateError
from guardagent.server.state.state_store import ADVICE
from guardagent.server.state.tables import TableState

_FORMAT = PostgresFormat(
    "server's state",
    "guardagent_server",
    1,
    (
        """CREATE TABLE items (number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, kind text NOT NULL,
                               tenant text NOT NULL, name text NOT NULL, value text NOT NULL,
                               version bigint NOT NULL)""",
        "CREATE UNIQUE INDEX items_by_name ON items (kind, tenant, name)",
        "CREATE INDEX items_by_number ON items (kind, tenant, number)",
    ),
    ADVICE,
    StateError,
)


class PostgresState(TableState):
    """A `StateStore` in a database schema. Its address is `postgresql://user@host/database`.

    Raises:
        InputError: as `PostgresServer`.
    """

    def __init__(self, rest: str) -> None:
        self._server = PostgresServer(rest, _FORMAT)

    def _run(self, query: str, parameters: Sequence[Any]) -> list[Any]:
        if query.startswith("SELECT"):
            return self._server.repeatable(query, parameters)
        with self._server.connected() as db:
            return db.execute(query, parameters).fetchall()

    def close(self) -> None:
        self._server.close()
