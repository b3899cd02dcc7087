"""Counters in the tables of a database: an SQLite file of one machine, or a PostgreSQL server of several.

Each key has a row with its totals, and each amount that can still leave its window, or is in flight, has one of its
own. A reservation is on the disk when it returns; a settlement that a power loss undoes leaves the amount in flight.
"""

from __future__ import annotations

import abc
import secrets
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from guardagent._support.stores import SqliteFile, SqliteFormat
from guardagent.errors import CounterError, InputError
from guardagent.policy.evaluation.counters import CountedAmount, CounterKey
from guardagent.session.counters.memory import (
    CounterReading,
    CountersChangedError,
    FoundAmount,
    Reservation,
    number,
    reading_of,
)

_ADVICE = "continue with the release that created it, or begin a new one: then all counts begin at zero"
_MARGIN = 0.01  # seconds; the exact comparison of times is not the database's
_READ = """SELECT k.settled, k.pending, k.version, k.clock, a.reservation, a.time, a.amount, a.pending
           FROM keys k LEFT JOIN amounts a
             ON a.counter = k.counter AND a.key = k.key
                AND a.time < CASE WHEN k.clock > ? THEN k.clock ELSE ? END - ?
           WHERE k.counter = ? AND k.key = ?"""
_PUT = """INSERT INTO keys VALUES (?, ?, ?, ?, ?, ?, ?)
          ON CONFLICT (counter, key) DO UPDATE SET settled = excluded.settled, pending = excluded.pending,
              version = excluded.version, clock = excluded.clock, expires = excluded.expires"""
_SWEPT = 2  # other keys that a reservation deletes, since their amounts have long been out of their window
_NEVER = 1e300  # a number, since databases differ about infinity


class StatementRunner(Protocol):
    """Runs statements, with `?` as the mark of a parameter."""

    def execute(self, query: str, parameters: Sequence[Any] = ..., /) -> Any: ...


class TableCounters(abc.ABC):
    """A `CounterStore` in the tables of a database."""

    @abc.abstractmethod
    def _connected(self) -> AbstractContextManager[Any]:
        """Gives a `StatementRunner`; each statement is a transaction of its own."""

    @abc.abstractmethod
    def _transaction(self, keys: Sequence[tuple[str, str]], /, *, durable: bool = True) -> AbstractContextManager[Any]:
        """Opens a transaction that alone writes these keys."""

    @abc.abstractmethod
    def _try_lock(self, db: Any, key: tuple[str, str], /) -> bool:
        """Whether the transaction may write a further key, without waiting."""

    def read(self, key: CounterKey, now: float) -> CounterReading:
        with self._connected() as db:
            return _read(db, key, now)[0]

    def reserve(
        self, reservation: str, amounts: Sequence[CountedAmount], now: float, seen: Mapping[CounterKey, Any]
    ) -> None:
        if not amounts and len(seen) < 2:
            return  # nothing to add, and one value is consistent by itself
        keys = {(key.counter, key.key) for key in (*seen, *(counted.key for counted in amounts))}
        with self._transaction(sorted(keys)) as db:
            for key, version in seen.items():
                if _version(db, key) != version:
                    raise CountersChangedError("a counter was raised since it was read")
            for counted in amounts:
                _add(db, reservation, counted, now)
            self._forget_some(db, now)

    def settle(self, reservation: str) -> None:
        self._close(reservation, counts=True)

    def release(self, reservation: str) -> None:
        self._close(reservation, counts=False)

    def pending(self) -> list[Reservation]:
        query = (
            "SELECT reservation, counter, key, amount, time FROM amounts WHERE pending = 1 ORDER BY time, reservation"
        )
        with self._connected() as db:
            return [
                Reservation(one, counter, key, number(amount), time)
                for one, counter, key, amount, time in db.execute(query)
            ]

    def _close(self, reservation: str, *, counts: bool) -> None:
        query = "SELECT counter, key, amount FROM amounts WHERE reservation = ? AND pending = 1"
        with self._connected() as db:
            found = db.execute(query, (reservation,)).fetchall()
        if not found:
            return
        with self._transaction(sorted(row[:2] for row in found), durable=False) as db:
            for counter, key, amount in db.execute(query, (reservation,)).fetchall():
                _settle(db, (reservation, counter, key), amount, counts=counts)

    def _forget_some(self, db: StatementRunner, now: float) -> None:
        """Deletes keys whose amounts have long been out of their window, a few at each reservation."""
        query = "SELECT counter, key FROM keys WHERE expires < ? LIMIT ?"
        for row in db.execute(query, (now, _SWEPT)).fetchall():
            if (
                self._try_lock(db, row)
                and db.execute("DELETE FROM keys WHERE counter = ? AND key = ? AND expires < ?", (*row, now)).rowcount
            ):
                db.execute("DELETE FROM amounts WHERE counter = ? AND key = ?", row)


def _read(db: StatementRunner, key: CounterKey, now: float) -> tuple[CounterReading, float, list[str]]:
    """Returns the state of a key, its latest time, and the reservations that are out of its window."""
    window = _NEVER if key.window is None else key.window
    rows = db.execute(_READ, (now, now, window - _MARGIN, key.counter, key.key)).fetchall()
    if not rows:
        return CounterReading(0, 0, None), now, []
    settled, pending, version, clock = rows[0][:4]
    found = [FoundAmount(*row[4:]) for row in rows if row[4] is not None]
    return reading_of(key, (settled, pending, version, clock), found, now)


def _version(db: StatementRunner, key: CounterKey) -> Any:
    row = db.execute("SELECT version FROM keys WHERE counter = ? AND key = ?", (key.counter, key.key)).fetchone()
    return None if row is None else row[0]


def _add(db: StatementRunner, reservation: str, counted: CountedAmount, now: float) -> None:
    key = counted.key
    reading, clock, expired = _read(db, key, now)
    for one in expired:
        db.execute("DELETE FROM amounts WHERE reservation = ? AND counter = ?", (one, key.counter))
    expires = None if key.window is None else clock + 2 * key.window  # so that a clock that goes back frees nothing
    totals = str(reading.settled), str(reading.pending + counted.amount)
    db.execute(_PUT, (key.counter, key.key, *totals, secrets.randbits(62), clock, expires))  # a version of no other row
    db.execute(
        "INSERT INTO amounts VALUES (?, ?, ?, ?, ?, 1)",
        (reservation, key.counter, key.key, clock, str(counted.amount)),
    )


def _settle(db: StatementRunner, row: tuple[str, str, str], amount: str, *, counts: bool) -> None:
    reservation, counter, key = row
    found = db.execute(
        "SELECT settled, pending, expires FROM keys WHERE counter = ? AND key = ?", (counter, key)
    ).fetchone()
    if found is None:
        raise CounterError(f"the counter {counter!r} lacks the total of a key; its tables were changed or are damaged")
    settled, pending = number(found[0]) + (number(amount) if counts else 0), number(found[1]) - number(amount)
    db.execute(
        "UPDATE keys SET settled = ?, pending = ? WHERE counter = ? AND key = ?",
        (str(settled), str(pending), counter, key),
    )
    if counts and found[2] is not None:  # the amount leaves the window later
        db.execute("UPDATE amounts SET pending = 0 WHERE reservation = ? AND counter = ?", (reservation, counter))
        return
    db.execute("DELETE FROM amounts WHERE reservation = ? AND counter = ?", (reservation, counter))
    if found[2] is None and not settled and not pending:
        db.execute("DELETE FROM keys WHERE counter = ? AND key = ?", (counter, key))


# --- databases

_SQLITE_FORMAT = SqliteFormat(
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
    _ADVICE,
    CounterError,
)


class SqliteCounters(TableCounters):
    """A store in a file, which is created in an existing folder. Its address is `sqlite:PATH`.

    Args:
        path: the path of the file.

    Raises:
        InputError: the file cannot be opened, holds something else, or belongs to another release.
    """

    def __init__(self, path: str) -> None:
        if not path:
            raise InputError("'sqlite:' has no path; expected an address such as 'sqlite:counters.db'")
        self._file = SqliteFile(Path(path), _SQLITE_FORMAT)

    def close(self) -> None:
        """Closes the file; the next use opens it again."""
        self._file.close()

    def _connected(self) -> AbstractContextManager[Any]:
        return self._file.connected()

    def _transaction(self, _keys: Sequence[tuple[str, str]], *, durable: bool = True) -> AbstractContextManager[Any]:
        return self._file.transaction(durable=durable)

    def _try_lock(self, _db: Any, _key: tuple[str, str]) -> bool:
        return True  # a transaction locks the whole file


_POSTGRES_TABLES = (
    """CREATE TABLE keys (counter text, key text, settled text NOT NULL, pending text NOT NULL,
                          version bigint NOT NULL, clock double precision NOT NULL, expires double precision,
                          PRIMARY KEY (counter, key))""",
    "CREATE INDEX keys_by_expiry ON keys (expires)",
    """CREATE TABLE amounts (reservation text, counter text, key text NOT NULL, time double precision NOT NULL,
                             amount text NOT NULL, pending integer NOT NULL, PRIMARY KEY (reservation, counter))""",
    "CREATE INDEX amounts_by_time ON amounts (counter, key, time)",
    "CREATE INDEX amounts_in_flight ON amounts (time) WHERE pending = 1",
)


class PostgresCounters(TableCounters):
    """A store in a database schema. Its address is `postgresql://user@host/database`.

    Args:
        rest: the address after `postgresql:`.

    Raises:
        InputError: as `PostgresServer`.
    """

    def __init__(self, rest: str) -> None:
        from guardagent._support.postgres import PostgresFormat, PostgresServer  # here: requires psycopg

        tables = PostgresFormat("store of counters", "guardagent_counters", 1, _POSTGRES_TABLES, _ADVICE, CounterError)
        self._server = PostgresServer(rest, tables)

    def close(self) -> None:
        """Closes idle connections; the next use opens new ones."""
        self._server.close()

    def _connected(self) -> AbstractContextManager[Any]:
        return self._server.connected()

    def _transaction(self, keys: Sequence[tuple[str, str]], *, durable: bool = True) -> AbstractContextManager[Any]:
        return self._server.transaction(*map("\0".join, keys), durable=durable)

    def _try_lock(self, db: Any, key: tuple[str, str]) -> bool:
        return self._server.try_lock(db, "\0".join(key))
