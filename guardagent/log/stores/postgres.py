"""A log in PostgreSQL: a stream of entries, to which several servers append.

A batch is one transaction. It locks the row of the stream's head and reads the end; one statement then moves the head,
and inserts the entries only if the head and the last entry are still the ones that were read. So a stream never forks,
and a server that was cut off cannot append late.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from guardagent._support.postgres import PostgresConnection, connect, psycopg
from guardagent._support.stores import StoreAddress
from guardagent.errors import InputError, LogError, UnknownNameError
from guardagent.log.chain import FIRST, DamagedLogError, Entry
from guardagent.log.stores import EntryFactory

HAS_ADDRESSES = True
_T = TypeVar("_T")
_SCHEMA, _STREAM = "guardagent_log", "default"
_MAX_NAME = 200  # characters of a stream
_BATCH_SIZE = 1024
_TABLES = """
CREATE SCHEMA IF NOT EXISTS {schema};
CREATE TABLE {schema}.heads (stream text PRIMARY KEY, seq bigint NOT NULL, hash text NOT NULL);
CREATE TABLE {schema}.entries (
    stream text NOT NULL, seq bigint NOT NULL, entry text NOT NULL, prev text NOT NULL, hash text NOT NULL,
    PRIMARY KEY (stream, seq)
)"""
_BEGIN = """
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
SET LOCAL statement_timeout = '15s';
SET LOCAL idle_in_transaction_session_timeout = '5s';
SELECT set_config('synchronous_commit', {commit}, true)"""
_DURABLE = "CASE current_setting('synchronous_commit') WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END"
_HEAD = "SELECT seq, hash FROM {schema}.heads WHERE stream = %(stream)s"
_ENTRIES = "SELECT seq::bigint, entry::text, prev::text, hash::text FROM {schema}.entries WHERE stream = %(stream)s"
_ADD_STREAM = "INSERT INTO {schema}.heads VALUES (%(stream)s, 0, %(hash)s) ON CONFLICT DO NOTHING"
_APPEND = """
WITH moved AS (
    UPDATE {schema}.heads SET seq = %(to)s, hash = %(hash)s
    WHERE stream = %(stream)s AND seq = %(seq)s AND hash = %(prev)s AND (seq = 0 OR EXISTS (
        SELECT FROM {schema}.entries WHERE stream = %(stream)s AND seq = %(seq)s AND hash = %(prev)s))
    RETURNING stream
)
INSERT INTO {schema}.entries (stream, seq, entry, prev, hash)
SELECT stream, new.* FROM moved, unnest(%(seqs)s::bigint[], %(texts)s::text[], %(prevs)s::text[], %(hashes)s::text[])
    AS new"""


class _Stream:
    """The stream at an address, and the statements for it."""

    def __init__(self, address: object) -> None:
        scheme, _, rest = str(address).partition(":")
        self.address = StoreAddress.read(scheme, rest, ("schema", "stream"))
        self.schema = self.address.name_option("schema", _SCHEMA)
        self.stream = self.address.options.get("stream", _STREAM)
        if not (self.stream.isprintable() and 0 < len(self.stream) <= _MAX_NAME):
            raise InputError(
                f"{self.address.shown}: the stream is {self.stream!r}; expected a name of up to {_MAX_NAME} characters"
            )
        self.name = f"{self.address.shown}?stream={self.stream}"

    def execute(self, db: PostgresConnection, query: str, **values: Any) -> psycopg.Cursor[tuple[Any, ...]]:
        """Runs a statement; its parameters are these values and the stream."""
        return db.execute(query.format(schema=self.schema).encode(), {"stream": self.stream, **values})

    def head(self, db: PostgresConnection, *, lock: bool = False) -> tuple[int, str] | None:
        """Returns the stored head: its number of entries, and its hash."""
        row = self.execute(db, f"{_HEAD} FOR UPDATE" if lock else _HEAD).fetchone()
        return (row[0], row[1]) if row else None

    def last(self, db: PostgresConnection) -> Entry | None:
        row = self.execute(db, f"{_ENTRIES} ORDER BY seq DESC LIMIT 1").fetchone()
        return Entry(*row) if row else None


class Store:
    """Appends to one stream."""

    def __init__(self, path: object, *, durable: bool) -> None:
        self._stream = _Stream(path)
        self.name = self._stream.name
        self._beginning = _BEGIN.format(commit=_DURABLE if durable else "'off'").encode()
        self._durable = durable
        self._db: PostgresConnection | None = None
        with self._errors():
            self._prepare(self._connection())

    def last(self) -> Entry | None:
        """Returns the last entry."""
        with self._errors():
            return self._reconnecting(self._stream.last)

    def append(self, make: EntryFactory) -> None:
        """Appends in one transaction."""
        with self._errors():
            db = self._reconnecting(self._begin)
            last = self._stream.last(db)
            entries = make(last, ())
            seq, prev = (last.seq, last.hash) if last is not None else (0, FIRST)
            new = dict(zip(("seqs", "texts", "prevs", "hashes"), map(list, zip(*entries, strict=True)), strict=True))
            end = {"to": entries[-1].seq, "hash": entries[-1].hash}
            if self._stream.execute(db, _APPEND, seq=seq, prev=prev, **end, **new).rowcount != len(entries):
                raise LogError(f"{self.name}: the head of the stream differs from its last entry; nothing is added")
            db.execute("COMMIT")

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
        self._db = None

    def _reconnecting(self, step: Callable[[PostgresConnection], _T]) -> _T:
        """Runs a step that appends nothing, again if the connection was cut while it was idle."""
        try:
            return step(self._connection())
        except psycopg.OperationalError:
            if self._db is None or not self._db.broken:
                raise
            self.close()
            return step(self._connection())

    def _begin(self, db: PostgresConnection) -> PostgresConnection:
        """Begins a transaction that no other writer of the stream shares."""
        db.execute(self._beginning)
        if self._stream.head(db, lock=True) is None:
            raise LogError(f"{self.name}: no longer exists: the stream was removed")
        return db

    def _connection(self) -> PostgresConnection:
        if self._db is None:
            self._db = connect(self._stream.address)
        return self._db

    def _prepare(self, db: PostgresConnection) -> None:
        """Creates what is missing, and makes sure that the server keeps what it acknowledges."""
        if self._durable and db.execute("SHOW fsync").fetchone() != ("on",):
            raise LogError(f"{self.name}: the server has fsync = off; expected fsync = on, or 'durable=False'")
        if not _has_tables(db, self._stream.schema):
            with db.transaction():
                db.execute("SELECT pg_advisory_xact_lock(5135011087)")
                if not _has_tables(db, self._stream.schema):
                    db.execute(_TABLES.format(schema=self._stream.schema).encode())
        if self._stream.head(db) is None:
            self._stream.execute(db, _ADD_STREAM, hash=FIRST)

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Closes the connection at any error: the server then drops what is not committed."""
        try:
            yield
        except BaseException as error:
            with contextlib.suppress(psycopg.Error):
                self.close()
            if isinstance(error, psycopg.Error | OSError | UnicodeError):
                reason = self._stream.address.without_secrets(error)
                raise LogError(f"{self.name}: the log cannot be written: {reason}") from None
            raise


class LogReader:
    """Reads one stream in portions, so that no transaction lasts long."""

    def __init__(self, path: object) -> None:
        self._stream = _Stream(path)
        self.name = self._stream.name
        self.notes: list[str] = []

    def __iter__(self) -> Iterator[Entry]:
        with self._reading() as db:
            last: Entry | None = None
            while True:
                for entry in self._portions(db, ">", "ASC", last):
                    yield (last := entry)
                if self._is_end(db, last):
                    return

    def backwards(self) -> Iterator[Entry]:
        """Iterates from the end."""
        with self._reading() as db:
            yield from self._portions(db, "<", "DESC", None)

    def _portions(self, db: PostgresConnection, after: str, order: str, last: Entry | None) -> Iterator[Entry]:
        while True:
            bound = "" if last is None else f"AND seq {after} %(seq)s"
            query = f"{_ENTRIES} {bound} ORDER BY seq {order} LIMIT {_BATCH_SIZE}"
            rows = self._stream.execute(db, query, seq=last.seq if last is not None else 0).fetchall()
            if not rows:
                return
            for row in rows:
                if None in row:
                    raise DamagedLogError("has an empty column")
                last = Entry(*row)
                yield last

    def _is_end(self, db: PostgresConnection, last: Entry | None) -> bool:
        """Returns whether no entry was appended meanwhile.

        Raises:
            DamagedLogError: the stream ends before or after its head.
        """
        count, digest = (last.seq, last.hash) if last is not None else (0, FIRST)
        query = f"SELECT seq, hash, (SELECT max(seq) FROM ({_ENTRIES}) AS one) FROM ({_HEAD}) AS two"  # noqa: S608
        row = self._stream.execute(db, query).fetchone()
        if row is not None and (row[2] or 0) > count:
            return False
        if row is None or row[:2] != (count, digest):
            recorded = f"records {row[0]} entries and the hash {row[1]}" if row else "is missing"
            raise DamagedLogError(f"is missing, or those before it were added: the head of the stream {recorded}")
        return True

    @contextlib.contextmanager
    def _reading(self) -> Iterator[PostgresConnection]:
        try:
            with connect(self._stream.address) as db:
                self._require_stream(db)
                yield db
        except UnicodeError:
            raise DamagedLogError("cannot be read: it is not UTF-8") from None
        except psycopg.Error as error:
            raise InputError(f"{self.name}: cannot be read: {self._stream.address.without_secrets(error)}") from None

    def _require_stream(self, db: PostgresConnection) -> None:
        if not _has_tables(db, self._stream.schema):
            raise InputError(f"{self.name}: the schema {self._stream.schema!r} has no log")
        if self._stream.head(db) is None:
            rows = self._stream.execute(db, "SELECT stream FROM {schema}.heads ORDER BY stream LIMIT 20")
            known = [row[0] for row in rows]
            raise UnknownNameError("stream", self._stream.stream, known, where=self._stream.address.shown)


def _has_tables(db: PostgresConnection, schema: str) -> bool:
    return db.execute("SELECT to_regclass(%s)", (f"{schema}.entries",)).fetchone() != (None,)
