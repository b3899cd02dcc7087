"""A ledger in a PostgreSQL database that several machines share."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from guardagent._support.postgres_server import PostgresFormat, PostgresServer
from guardagent.enforcement.ledger.tables import ADVICE, TableLedger
from guardagent.errors import LedgerError

_FORMAT = PostgresFormat(
    "ledger",
    "guardagent_ledger",
    1,
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
    ADVICE,
    LedgerError,
)
_ADD = """
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
        self._server = PostgresServer(rest, _FORMAT)
        with self._connected() as db:
            self.name = db.execute("SELECT name FROM ledger").fetchone()[0]

    def close(self) -> None:
        """Closes idle connections; the next use opens new ones."""
        self._server.close()

    def _connected(self) -> AbstractContextManager[Any]:
        return self._server.connected()

    def _transaction(self, conversation: str) -> AbstractContextManager[Any]:
        return self._server.transaction(conversation)

    def _add_entry(self, row: tuple[str, int, str, str], call_id: str | None) -> bool:
        conversation, place = row[:2]
        call = call_id or "", call_id is not None
        return bool(self._server.repeatable(_ADD, (*row, conversation, place - 1, *call))[0][0])
