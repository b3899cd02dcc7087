"""Counters in the tables of a database: an SQLite file of one machine, or a PostgreSQL server of several.

Each key has a row with its totals, and each amount that can still leave its window, or is in flight, has one of its
own. A reservation is on the disk when it returns; a settlement that a power loss undoes leaves the amount in flight.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from guardagent._support.stores import SqliteFile, StatementRunner, StoreFormat
from guardagent.errors import CounterError, InputError
from guardagent.policy.evaluation.counters import CountedAmount, CounterKey
from guardagent.session.counters.memory import (
    CounterReading,
    CountersChangedError,
    FoundAmount,
    Reservation,
    id_range,
    number,
    reading_of,
)

if TYPE_CHECKING:
    from guardagent._support.postgres import TableStore

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
_PAGE = 500  # keys that one transaction deletes
_NEVER = 1e300  # a number, since databases differ about infinity


class TableCounters:
    """A `CounterStore` in the tables of a database. A transaction with the lock of a key alone writes it.

    Args:
        tables: the tables.
    """

    _bytewise = ""  # the collation that compares ids by their bytes

    def __init__(self, tables: TableStore) -> None:
        self._tables = tables

    def close(self) -> None:
        """Closes the file or the idle connections; the next use opens new ones."""
        self._tables.close()

    def read(self, key: CounterKey, now: float) -> CounterReading:
        with self._tables.connected() as db:
            return _read(db, key, now)[0]

    def reserve(
        self, reservation: str, amounts: Sequence[CountedAmount], now: float, seen: Mapping[CounterKey, Any]
    ) -> None:
        if not amounts and len(seen) < 2:
            return  # nothing to add, and one value is consistent by itself
        locks = {_lock(key.counter, key.key) for key in (*seen, *(counted.key for counted in amounts))}
        with self._tables.transaction(*locks) as db:
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

    def pending(self, prefix: str = "") -> list[Reservation]:
        name, ids = f"reservation{self._bytewise}", id_range(prefix) if prefix else ()
        query = "SELECT reservation, counter, key, amount, time FROM amounts WHERE pending = 1"
        query += f" AND {name} >= ? AND {name} < ?" if prefix else ""
        with self._tables.connected() as db:
            return [
                Reservation(reservation, counter, key, number(amount), time)
                for reservation, counter, key, amount, time in db.execute(f"{query} ORDER BY time, reservation", ids)
            ]

    def forget(self, now: float) -> None:
        """Deletes all keys whose amounts have long been out of their window."""
        is_more = True
        while is_more:
            with self._tables.transaction() as db:
                is_more = self._forget_some(db, now, _PAGE)

    def _close(self, reservation: str, *, counts: bool) -> None:
        query = "SELECT counter, key, amount FROM amounts WHERE reservation = ? AND pending = 1"
        with self._tables.connected() as db:
            rows = db.execute(query, (reservation,)).fetchall()
        if not rows:
            return
        with self._tables.transaction(*(_lock(*row[:2]) for row in rows), durable=False) as db:
            for counter, key, amount in db.execute(query, (reservation,)).fetchall():
                _settle(db, (reservation, counter, key), amount, counts=counts)

    def _forget_some(self, db: StatementRunner, now: float, limit: int = _SWEPT) -> bool:
        """Deletes keys whose amounts have long been out of their window, a few at each reservation; whether any."""
        query, deleted = "SELECT counter, key FROM keys WHERE expires < ? LIMIT ?", False
        for row in db.execute(query, (now, limit)).fetchall():
            if (
                self._tables.try_lock(db, _lock(*row))
                and db.execute("DELETE FROM keys WHERE counter = ? AND key = ? AND expires < ?", (*row, now)).rowcount
            ):
                db.execute("DELETE FROM amounts WHERE counter = ? AND key = ?", row)
                deleted = True
        return deleted


def _lock(counter: str, key: str) -> str:
    return f"{counter}\0{key}"


def _read(db: StatementRunner, key: CounterKey, now: float) -> tuple[CounterReading, float, list[str]]:
    """Returns the state of a key, its latest time, and the reservations that are out of its window."""
    window = _NEVER if key.window is None else key.window
    rows = db.execute(_READ, (now, now, window - _MARGIN, key.counter, key.key)).fetchall()
    if not rows:
        return CounterReading(0, 0, None), now, []
    settled, pending, version, clock = rows[0][:4]
    found_amounts = [FoundAmount(*row[4:]) for row in rows if row[4] is not None]
    return reading_of(key, (settled, pending, version, clock), found_amounts, now)


def _version(db: StatementRunner, key: CounterKey) -> Any:
    row = db.execute("SELECT version FROM keys WHERE counter = ? AND key = ?", (key.counter, key.key)).fetchone()
    return None if row is None else row[0]


def _add(db: StatementRunner, reservation: str, counted: CountedAmount, now: float) -> None:
    key = counted.key
    reading, clock, expired = _read(db, key, now)
    for expired_id in expired:
        db.execute("DELETE FROM amounts WHERE reservation = ? AND counter = ?", (expired_id, key.counter))
    expires = None if key.window is None else clock + 2 * key.window  # so that a clock that goes back frees nothing
    totals = str(reading.settled), str(reading.pending + counted.amount)
    db.execute(
        _PUT, (key.counter, key.key, *totals, secrets.randbits(62), clock, expires)
    )  # a version number unique to this row
    db.execute(
        "INSERT INTO amounts VALUES (?, ?, ?, ?, ?, 1)",
        (reservation, key.counter, key.key, clock, str(counted.amount)),
    )


def _settle(db: StatementRunner, row: tuple[str, str, str], amount: str, *, counts: bool) -> None:
    reservation, counter, key = row
    rows = db.execute(
        "SELECT settled, pending, expires FROM keys WHERE counter = ? AND key = ?", (counter, key)
    ).fetchone()
    if rows is None:
        raise CounterError(f"the counter {counter!r} lacks the total of a key; its tables were changed or are damaged")
    settled, pending = number(rows[0]) + (number(amount) if counts else 0), number(rows[1]) - number(amount)
    db.execute(
        "UPDATE keys SET settled = ?, pending = ? WHERE counter = ? AND key = ?",
        (str(settled), str(pending), counter, key),
    )
    if counts and rows[2] is not None:  # the amount leaves the window later
        db.execute("UPDATE amounts SET pending = 0 WHERE reservation = ? AND counter = ?", (reservation, counter))
        return
    db.execute("DELETE FROM amounts WHERE reservation = ? AND counter = ?", (reservation, counter))
    if rows[2] is None and not settled and not pending:
        db.execute("DELETE FROM keys WHERE counter = ? AND key = ?", (counter, key))


# --- databases

_FORMAT = StoreFormat(
    "store of counters",
    1,
    _ADVICE,
    CounterError,
    "guardagent_counters",
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
    creator="'sqlite:PATH'",
    application=0x47414343,
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
        super().__init__(SqliteFile(Path(path), replace(_FORMAT, name="file of counters")))


class PostgresCounters(TableCounters):
    """A store in a database schema. Its address is `postgresql://user@host/database`.

    Args:
        rest: the address after `postgresql:`.

    Raises:
        InputError: as `PostgresServer`.
    """

    _bytewise = ' COLLATE "C"'

    def __init__(self, rest: str) -> None:
        from guardagent._support.postgres import PostgresServer  # here: requires psycopg

        super().__init__(PostgresServer(rest, _FORMAT))
