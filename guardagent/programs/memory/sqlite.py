"""A store in an SQLite file: texts stay on disk, and their profiles in memory.

An addition is one transaction, synced to disk before it returns: it survives `kill -9` and a power loss. Each operation
opens its own connection, so that no thread, fork or crash can leave one in an undefined state. The profiles are in the
same file, so that they always match their texts.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sqlite3
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from guardagent._support.files import folder_lock, parse_json
from guardagent._support.stores import create_file, write_transaction
from guardagent.errors import ContentError, InputError
from guardagent.programs.memory.retrieval import Demonstration, Neighbour, Query
from guardagent.programs.memory.search import PROFILE, Numbers, Profiles, profile, search

_VERSION = 1
_SCHEMA = (
    """CREATE TABLE demonstrations (
  id INTEGER PRIMARY KEY AUTOINCREMENT, digest BLOB NOT NULL UNIQUE,
  agent_input TEXT NOT NULL, agent_output TEXT NOT NULL, plan TEXT NOT NULL, code TEXT NOT NULL)""",
    (
        "CREATE TABLE profiles "
        f"(id INTEGER PRIMARY KEY, profile BLOB NOT NULL CHECK (length(profile) = {PROFILE.itemsize}))"
    ),
    "CREATE TRIGGER gone AFTER DELETE ON demonstrations BEGIN DELETE FROM profiles WHERE id = old.id; END",
    "CREATE TRIGGER fixed BEFORE UPDATE ON demonstrations BEGIN SELECT RAISE(ABORT, 'delete it and add another'); END",
)
_TIMEOUT = 60.0
_AT_ONCE = 4096
_COLUMNS = "agent_input, agent_output, plan, code"


class Store:
    """The demonstrations of one file, which the first addition creates.

    Args:
        address: `sqlite:` and the file's path.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        name = address.removeprefix("sqlite:")
        self._path = Path(name.removeprefix("//") if name.startswith("///") else name)
        if not name.strip("/"):
            raise ValueError(f"{address!r} does not name a file; expected 'sqlite:///path/to/file.db'")
        self._index = _Index()

    def __len__(self) -> int:
        with self._read_transaction() as db:
            count: int = db.execute("SELECT count(*) FROM profiles").fetchone()[0] if db else 0
        return count

    def __iter__(self) -> Iterator[Demonstration]:
        last, is_full = -1, True
        while is_full:  # in batches, so that a slow reader blocks nobody
            with self._read_transaction() as db:
                query = f"SELECT id, {_COLUMNS} FROM demonstrations WHERE id > ? ORDER BY id LIMIT 256"  # noqa: S608
                rows = db.execute(query, (last,)).fetchall() if db else []
            yield from (self._demonstration(row) for row in rows)
            is_full, last = bool(rows), rows[-1][0] if rows else last

    def add(self, new: Sequence[Demonstration]) -> int:
        """Adds all new ones or none, and returns their number."""
        rows = [(_digest(each), each, profile(each.agent_input, each.agent_output).tobytes()) for each in new]
        self._make()
        with self._open() as db, write_transaction(db):
            return sum(_insert(db, *row) for row in rows)

    def known(self, demonstrations: Collection[Demonstration]) -> set[Demonstration]:
        """Returns the demonstrations that the file has."""
        query = "SELECT 1 FROM demonstrations WHERE digest = ?"
        with self._read_transaction() as db:
            return {
                demonstration
                for demonstration in demonstrations
                if db and db.execute(query, (_digest(demonstration),)).fetchone()
            }

    def nearest(self, query: Query) -> list[Neighbour]:
        """Returns exactly the k nearest or farthest; ties in insertion order."""
        with self._read_transaction() as db:
            if db is None:
                return []
            ids, profiles = self._index.up_to_date(db)
            best = search(query, profiles, lambda chosen: _read_texts(db, ids, chosen))
            demonstrations = {at: self._demonstration(_row(db, int(ids[at]))) for _, at in best}
        return [query.neighbour(demonstrations[at], distance) for distance, at in best]

    def _demonstration(self, row: tuple[int, str, str, str, str]) -> Demonstration:
        number, agent_input, agent_output, plan, code = row
        steps = parse_json(plan, f"{self._path}, demonstration {number}")
        return Demonstration(agent_input, agent_output, tuple(steps), code)

    @contextlib.contextmanager
    def _read_transaction(self) -> Iterator[sqlite3.Connection | None]:
        """Yields a connection with a consistent snapshot of the file; None if the file does not exist."""
        if not self._path.exists():
            yield None
            return
        with self._open() as db:
            db.execute("BEGIN")
            yield db

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            with contextlib.closing(self._connect()) as db:
                version = db.execute("PRAGMA user_version").fetchone()[0]
                if version != _VERSION:
                    raise ContentError(
                        f"is not a file of demonstrations with version {_VERSION}; its version is {version}",
                        self._path,
                    )
                db.execute("PRAGMA synchronous = FULL")
                yield db
        except sqlite3.DatabaseError as error:
            raise ContentError(f"cannot be read as a file of demonstrations: {error}", self._path) from None

    def _connect(self) -> sqlite3.Connection:
        """Connects, with a file in a read-only folder as immutable, since SQLite cannot create lock files there."""
        frozen = not os.access(self._path.parent, os.W_OK) and not Path(f"{self._path}-wal").exists()
        uri = f"{self._path.resolve().as_uri()}?mode={'ro&immutable=1' if frozen else 'rw'}"
        return sqlite3.connect(uri, uri=True, timeout=_TIMEOUT, isolation_level=None)

    def _make(self) -> None:
        """Creates the file atomically, by rename."""
        if self._path.exists():
            return
        try:
            self._path.parent.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"{self._path.parent}: cannot be created: {error.strerror}; expected a writable parent folder"
            ) from None
        with folder_lock(self._path.parent):
            if not self._path.exists():
                create_file(self._path, 0, _VERSION, _SCHEMA)


class _Index:
    """The profiles in memory, with their ids."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ids: Numbers = np.empty(0, np.int64)
        self._profiles: Profiles = np.empty(0, PROFILE)
        self._size = 0

    def up_to_date(self, db: sqlite3.Connection) -> tuple[Numbers, Profiles]:
        """Returns ids and profiles including new rows. Later updates do not change the returned arrays."""
        with self._lock:
            last = int(self._ids[self._size - 1]) if self._size else -1
            self._reserve(db.execute("SELECT count(*) FROM profiles WHERE id > ?", (last,)).fetchone()[0])
            rows = db.execute("SELECT id, profile FROM profiles WHERE id > ? ORDER BY id", (last,))
            while portion := rows.fetchmany(_AT_ONCE):
                end = self._size + len(portion)
                self._ids[self._size : end] = [number for number, _ in portion]
                self._profiles[self._size : end] = np.frombuffer(b"".join(blob for _, blob in portion), PROFILE)
                self._size = end
            return self._ids[: self._size], self._profiles[: self._size]

    def _reserve(self, more: int) -> None:
        """Reserves space for `more` rows and some spare, since additions come one by one."""
        needed = self._size + more
        if needed > len(self._ids):
            for name in ("_ids", "_profiles"):
                old = getattr(self, name)
                grown = np.zeros(needed + needed // 8, old.dtype)
                grown[: self._size] = old[: self._size]
                setattr(self, name, grown)


def _insert(db: sqlite3.Connection, digest: bytes, new: Demonstration, profile_bytes: bytes) -> bool:
    insert = f"INSERT OR IGNORE INTO demonstrations (digest, {_COLUMNS}) VALUES (?, ?, ?, ?, ?)"  # noqa: S608
    values = (digest, new.agent_input, new.agent_output, json.dumps(new.plan, ensure_ascii=False), new.code)
    cursor = db.execute(insert, values)
    if cursor.rowcount == 0:
        return False
    db.execute("INSERT INTO profiles VALUES (?, ?)", (cursor.lastrowid, profile_bytes))
    return True


def _digest(demonstration: Demonstration) -> bytes:
    return hashlib.sha256(demonstration.to_json().encode()).digest()


def _row(db: sqlite3.Connection, number: int) -> tuple[int, str, str, str, str]:
    query = f"SELECT id, {_COLUMNS} FROM demonstrations WHERE id = ?"  # noqa: S608
    row: tuple[int, str, str, str, str] = db.execute(query, (number,)).fetchone()
    return row


def _read_texts(db: sqlite3.Connection, ids: Numbers, chosen: Iterable[int]) -> Mapping[int, tuple[str, str]]:
    at = {int(ids[position]): position for position in chosen}
    marks = ", ".join("?" * len(at))
    query = f"SELECT id, agent_input, agent_output FROM demonstrations WHERE id IN ({marks})"  # noqa: S608
    return {at[number]: texts for number, *texts in db.execute(query, tuple(at))}
