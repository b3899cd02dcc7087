"""PostgreSQL: a schema that several machines share, and connections on which every wait ends.

Every wait ends (for a connection, a lock or an answer), also if the server hangs or the network drops packets. The
server itself ends the transaction of a client that was cut off or stopped, so that it neither blocks others nor commits
late.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import select
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from functools import cache
from typing import Any

from guardagent._support.requirements import require
from guardagent._support.stores import (
    CONNECTIONS,
    SECONDS,
    SqliteFile,
    StatementRunner,
    StoreAddress,
    StoreFormat,
    StoreServer,
)
from guardagent.errors import GuardError, InputError

require({"psycopg": "3.2"}, "postgres")

import psycopg  # noqa: E402
from psycopg import errors, sql  # noqa: E402

__all__ = ["PostgresConnection", "connect", "psycopg"]  # from here, its version is tested before it is imported


_LOCK_SECONDS = 4  # for another transaction, which the server ends earlier
_IDLE_SECONDS = 2  # a transaction whose client is silent
_SETTINGS = f"""
SELECT set_config('search_path', %s, false), set_config('statement_timeout', '{_LOCK_SECONDS}s', false),
       set_config('idle_in_transaction_session_timeout', '{_IDLE_SECONDS}s', false),
       set_config('default_transaction_isolation', 'read committed', false),
       set_config('synchronous_commit', CASE WHEN current_setting('synchronous_commit') IN ('off', 'local')
                                             THEN 'on' ELSE current_setting('synchronous_commit') END, false)
"""
_inherited: list[Any] = []
"""Connections that a fork has inherited; to close them would end those of the parent."""


class _Connection(psycopg.Connection[Any]):
    """A connection on which every wait ends."""

    def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
        return super().wait(_within(gen, SECONDS), *args, **options)

    def __del__(self, *_: Any) -> None:
        """Ends silently with the store that holds it: libpq closes the socket, unless it is a fork's parent's."""


class PostgresStatements:
    """Runs statements with `?` as the mark of a parameter, as SQLite does."""

    def __init__(self, connection: _Connection) -> None:
        self._connection = connection

    def execute(self, query: str, parameters: Sequence[Any] = ()) -> Any:
        return self._connection.execute(_translated(query), parameters)


class PostgresServer(StoreServer):
    """A schema with the tables of one format; missing ones are created.

    Args:
        rest: the address after `postgresql:`. Its option `schema` names the schema; libpq reads all others.
        kind: the format.

    Raises:
        InputError: the server cannot be reached, loses acknowledged writes, or has other tables in the schema.
    """

    def __init__(self, rest: str, kind: StoreFormat) -> None:
        super().__init__(StoreAddress.read("postgresql", rest, ("schema",)), kind.name, kind.error, (psycopg.Error,))
        self._kind = kind
        self.schema = self.address.name_option("schema", kind.prefix)
        self._reset()
        try:
            with self._leased() as connection:
                self._prepare(connection)
        except kind.error as error:
            raise InputError(str(error)) from None
        except (psycopg.Error, OSError) as error:
            raise InputError(
                f"{self.address.shown}: cannot be opened as a {kind.name}: {self.reason(error)}; "
                "expected a PostgreSQL database"
            ) from None

    @contextlib.contextmanager
    def connected(self) -> Iterator[PostgresStatements]:
        """Gives statements that are each a transaction of its own."""
        with self.errors(), self._leased() as connection:
            yield PostgresStatements(connection)

    @contextlib.contextmanager
    def transaction(self, *locks: str, durable: bool = True) -> Iterator[PostgresStatements]:
        """Opens a transaction that holds these locks; others wait for them.

        One that is not durable survives its process, but not a crash of the server.
        """
        begin = ["BEGIN", *([] if durable else ["SET LOCAL synchronous_commit = off"])]
        begin += [f"SELECT pg_advisory_xact_lock({number})" for number in sorted(map(self._lock_number, locks))]
        with self.errors(), self._leased() as connection:
            try:
                connection.execute("; ".join(begin).encode())
                yield PostgresStatements(connection)
                connection.execute("COMMIT")
            except GuardError:
                connection.execute("ROLLBACK")
                raise

    def try_lock(self, db: StatementRunner, name: str) -> bool:
        """Locks a name for the transaction if nobody holds it."""
        return bool(db.execute("SELECT pg_try_advisory_xact_lock(?)", (self._lock_number(name),)).fetchone()[0])

    def execute(self, query: str, parameters: Sequence[Any]) -> list[Any]:
        """Runs a statement as a transaction of its own, and returns its rows."""
        with self.connected() as db:
            return list(db.execute(query, parameters).fetchall())

    def repeatable(self, query: str, parameters: Sequence[Any]) -> list[Any]:
        """Returns the rows of a statement that may run twice; it is repeated once if the connection breaks."""
        started = time.monotonic()
        with self.errors():
            try:
                return self._rows(query, parameters)
            except psycopg.OperationalError:
                if time.monotonic() - started >= _IDLE_SECONDS:  # the server hangs
                    raise
                return self._rows(query, parameters)

    def _rows(self, query: str, parameters: Sequence[Any]) -> list[Any]:
        with self._leased() as connection:
            return list(PostgresStatements(connection).execute(query, parameters).fetchall())

    def close(self) -> None:
        """Closes all idle connections; the next use opens new ones."""
        while self._idle:
            self._idle.pop().close()

    # --- connections

    @contextlib.contextmanager
    def _leased(self) -> Iterator[_Connection]:
        """Gives a connection to one thread at a time; one that is left in a transaction or an error is closed."""
        if self._process != os.getpid():
            _inherited.extend(self._idle)
            self._reset()
        free = self._free
        if not free.acquire(timeout=SECONDS):
            raise self.failure(f"all {CONNECTIONS} connections of this process are in use")
        try:
            connection = self._idle_one() or self._new()
            try:
                yield connection
            finally:
                if connection.info.transaction_status is psycopg.pq.TransactionStatus.IDLE:
                    self._idle.append(connection)
                else:
                    connection.close()
        finally:
            free.release()

    def _reset(self) -> None:
        self._process = os.getpid()
        self._free = threading.BoundedSemaphore(CONNECTIONS)
        self._idle: list[_Connection] = []

    def _idle_one(self) -> _Connection | None:
        """Returns an idle connection that the server has not ended."""
        while self._idle:
            connection = self._idle.pop()
            poll = select.poll()
            poll.register(connection.fileno(), select.POLLIN)
            if not poll.poll(0):
                return connection
            connection.close()
        return None

    def _new(self) -> _Connection:
        connection: _Connection = _Connection.connect(autocommit=True, **_connect_options(self.address.url, SECONDS))
        try:
            connection.execute(_SETTINGS, (self.schema,))
            self._require_safe(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _require_safe(self, connection: _Connection) -> None:
        """Requires that a connection leads to a server that keeps what it acknowledges."""
        query = "SELECT current_setting('fsync'), pg_is_in_recovery(), current_setting('transaction_read_only')"
        row = connection.execute(query).fetchone()
        assert row is not None
        if row[0] != "on":
            raise self.failure("its setting fsync = off loses acknowledged writes in a crash; expected fsync = on")
        if row[1] or row[2] != "off":
            raise self.failure("the server is a standby, or read-only; expected the primary")

    # --- the schema

    def _prepare(self, connection: _Connection) -> None:
        if self._version(connection) is None:
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (self._lock_number("schema"),))
                if self._version(connection) is None:
                    self._create(connection)
        version = self._version(connection)
        if version != (self._kind.name, self._kind.version):
            raise InputError(
                f"{self.address.shown}: the schema {self.schema!r} has the tables of {version}, and this release reads "
                f"{(self._kind.name, self._kind.version)}; {self._kind.advice}"
            )

    def _version(self, connection: _Connection) -> tuple[str, int] | None:
        query = "SELECT FROM pg_tables WHERE schemaname = %s AND tablename = 'format'"
        if connection.execute(query, (self.schema,)).fetchone() is None:
            return None
        row = connection.execute("SELECT kind, version FROM format").fetchone()
        return None if row is None else (row[0], row[1])

    def _create(self, connection: _Connection) -> None:
        if connection.execute("SELECT to_regnamespace(%s)", (self.schema,)).fetchone() == (None,):
            connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(self.schema)))
        connection.execute("CREATE TABLE format (kind text NOT NULL, version integer NOT NULL)")
        connection.execute("INSERT INTO format VALUES (%s, %s)", (self._kind.name, self._kind.version))
        for statement in self._kind.tables:
            connection.execute(statement.encode())

    def _lock_number(self, name: str) -> int:
        """Returns the number of an advisory lock; two names with the same number only wait for each other."""
        digest = hashlib.sha256(f"{self.schema}\0{name}".encode("utf-8", "surrogatepass")).digest()
        return int.from_bytes(digest[:8], "big", signed=True)

    # --- errors

    def reason(self, error: BaseException) -> str:
        if isinstance(error, errors.QueryCanceled):
            return f"another transaction held its lock for {_LOCK_SECONDS} seconds"
        return super().reason(error)


TableStore = SqliteFile | PostgresServer  # the tables of a format, in a file or on a server


def _within(steps: Generator[Any, Any, Any], seconds: float) -> Generator[Any, Any, Any]:
    """Passes on the steps of an operation until the time is up."""
    deadline = time.monotonic() + seconds
    try:
        state = next(steps)
        while True:
            ready = yield state
            if not ready and time.monotonic() >= deadline:
                raise psycopg.OperationalError(f"the server has not answered for {seconds:.0f} seconds")
            state = steps.send(ready)
    except StopIteration as end:
        return end.value


@cache
def _translated(query: str) -> bytes:
    return query.replace("%", "%%").replace("?", "%s").encode()


ANSWER_SECONDS = 20.0  # for each answer


class PostgresConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection whose operations raise `psycopg.OperationalError` after a time limit."""

    def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
        return super().wait(_within(gen, ANSWER_SECONDS), *args, **options)


def connect(address: StoreAddress) -> PostgresConnection:
    """Connects, in autocommit mode and without prepared statements, which some poolers lack.

    Raises:
        psycopg.Error: the server cannot be reached, or refuses.
    """
    options = {**_connect_options(address.url, ANSWER_SECONDS), "client_encoding": "utf8"}
    connection: PostgresConnection = PostgresConnection.connect(autocommit=True, prepare_threshold=None, **options)
    return connection


def _connect_options(url: str, seconds: float) -> dict[str, Any]:
    """Returns the options of a URL, and limits on the waits for the server where it has none."""
    defaults: dict[str, Any] = {
        "connect_timeout": int(SECONDS),
        "application_name": "guardagent",
        "keepalives_idle": 10,
        "keepalives_interval": 3,
        "keepalives_count": 3,
        "tcp_user_timeout": int(seconds * 1000),
    }
    return {**defaults, **psycopg.conninfo.conninfo_to_dict(url)}
