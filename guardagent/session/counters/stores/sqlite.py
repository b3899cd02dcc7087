"""Counters in an SQLite file that several processes of one machine share.

Each key has a row with its totals, and each amount that can still leave its window, or is in flight, has one of its
own. A reservation is on the disk when it returns; a settlement that a power loss undoes leaves the amount in flight.
"""

from __future__ import annotations

import math
import secrets
import sqlite3
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from guardagent._support.sqlite_file import SqliteFile, SqliteFormat
from guardagent.errors import CounterError, InputError
from guardagent.policy.evaluation.counters import CountedAmount, CounterKey, Number
from guardagent.session.counters.protocol import CounterReading, CountersChangedError, Reservation

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
    "continue with the release that created it, or begin a new file: then all counts begin at zero",
    CounterError,
)
_MARGIN = 0.01  # seconds; the exact comparison of times is not SQLite's
_READ = """SELECT k.settled, k.pending, k.version, k.clock, a.reservation, a.time, a.amount, a.pending
           FROM keys k LEFT JOIN amounts a
             ON a.counter = k.counter AND a.key = k.key AND a.time < max(k.clock, ?) - ?
           WHERE k.counter = ? AND k.key = ?"""
_SWEPT = 2  # other keys that a reservation deletes, since their amounts have long been out of their window


class Store:
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

    def read(self, key: CounterKey, now: float) -> CounterReading:
        with self._file.connected() as db:
            return _read(db, key, now)[0]

    def reserve(
        self, reservation: str, amounts: Sequence[CountedAmount], now: float, seen: Mapping[CounterKey, Any]
    ) -> None:
        if not amounts and len(seen) < 2:
            return  # nothing to add, and one value is consistent by itself
        with self._file.transaction() as db:
            for key, version in seen.items():
                if _version(db, key) != version:
                    raise CountersChangedError("a counter was raised since it was read")
            for counted in amounts:
                _add(db, reservation, counted, now)
            _forget_some(db, now)

    def settle(self, reservation: str) -> None:
        self._close(reservation, counts=True)

    def release(self, reservation: str) -> None:
        self._close(reservation, counts=False)

    def pending(self) -> list[Reservation]:
        query = "SELECT reservation, counter, key, amount, time FROM amounts WHERE pending ORDER BY time, reservation"
        with self._file.connected() as db:
            return [
                Reservation(one, counter, key, _number(amount), time)
                for one, counter, key, amount, time in db.execute(query)
            ]

    def close(self) -> None:
        """Closes the file; the next use opens it again."""
        self._file.close()

    def _close(self, reservation: str, *, counts: bool) -> None:
        query = "SELECT counter, key, amount FROM amounts WHERE reservation = ? AND pending"
        with self._file.connected() as db:
            if db.execute(query, (reservation,)).fetchone() is None:
                return
        with self._file.transaction(durable=False) as db:
            for counter, key, amount in db.execute(query, (reservation,)).fetchall():
                _settle(db, (reservation, counter, key), _number(amount), counts=counts)


def _read(db: sqlite3.Connection, key: CounterKey, now: float) -> tuple[CounterReading, float, list[str]]:
    """Returns the state of a key, its latest time, and the reservations that are out of its window."""
    window = math.inf if key.window is None else key.window
    rows = db.execute(_READ, (now, window - _MARGIN, key.counter, key.key)).fetchall()
    if not rows:
        return CounterReading(0, 0, None), now, []
    if not all(isinstance(time, int | float | None) for row in rows for time in (row[3], row[5])):
        raise CounterError(
            f"the counter {key.counter!r} has a time that is no number; its file was changed or is damaged"
        )
    settled, pending, clock, expired = _number(rows[0][0]), _number(rows[0][1]), max(rows[0][3], now), []
    for *_, reservation, time, amount, is_pending in rows:
        if reservation is not None and clock - time > window:
            expired.append(reservation)
            settled -= 0 if is_pending else _number(amount)
            pending -= _number(amount) if is_pending else 0
    if settled < 0 or pending < 0:
        raise CounterError(f"the counter {key.counter!r} has a total below zero; its file was changed or is damaged")
    return CounterReading(settled, pending, rows[0][2]), clock, expired


def _version(db: sqlite3.Connection, key: CounterKey) -> Any:
    row = db.execute("SELECT version FROM keys WHERE counter = ? AND key = ?", (key.counter, key.key)).fetchone()
    return None if row is None else row[0]


def _add(db: sqlite3.Connection, reservation: str, counted: CountedAmount, now: float) -> None:
    key = counted.key
    reading, clock, expired = _read(db, key, now)
    for one in expired:
        db.execute("DELETE FROM amounts WHERE reservation = ? AND counter = ?", (one, key.counter))
    expires = None if key.window is None else clock + 2 * key.window  # so that a clock that goes back frees nothing
    db.execute(
        "INSERT OR REPLACE INTO keys VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            *(key.counter, key.key, str(reading.settled), str(reading.pending + counted.amount)),
            *(secrets.randbits(62), clock, expires),  # a version that no deleted row had
        ),
    )
    db.execute(
        "INSERT INTO amounts VALUES (?, ?, ?, ?, ?, 1)",
        (reservation, key.counter, key.key, clock, str(counted.amount)),
    )


def _settle(db: sqlite3.Connection, row: tuple[str, str, str], amount: Number, *, counts: bool) -> None:
    reservation, counter, key = row
    found = db.execute(
        "SELECT settled, pending, expires FROM keys WHERE counter = ? AND key = ?", (counter, key)
    ).fetchone()
    if found is None:
        raise CounterError(f"the counter {counter!r} lacks the total of a key; its file was changed or is damaged")
    settled, pending = _number(found[0]) + (amount if counts else 0), _number(found[1]) - amount
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


def _forget_some(db: sqlite3.Connection, now: float) -> None:
    """Deletes keys whose amounts have long been out of their window, a few at each reservation."""
    query = "SELECT counter, key FROM keys WHERE expires < ? LIMIT ?"
    for row in db.execute(query, (now, _SWEPT)).fetchall():
        db.execute("DELETE FROM amounts WHERE counter = ? AND key = ?", row)
        db.execute("DELETE FROM keys WHERE counter = ? AND key = ?", row)


def _number(text: str) -> Number:
    try:
        number = Fraction(text) if "/" in text else int(text)
    except (ValueError, TypeError, ZeroDivisionError):
        raise CounterError(f"{text!r} is not a number; the file of counters was changed or is damaged") from None
    return number
