"""Logs for tests: creates them, reads them back, and changes them behind the library's back."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from guardagent.log import AuditLog
from guardagent.log.verification import Selection

KEY = b"sixteen bytes or more"
SUFFIXES = (".db", ".jsonl")
_Log = TypeVar("_Log", Path, str)


def record(number: int = 0, **more: Any) -> dict[str, Any]:
    return {"kind": "verdict", "conversation": f"c{number % 3}", "tool": "refund", "args": {"amount": number}, **more}


def filled(path: _Log, count: int = 20, **options: Any) -> _Log:
    """Creates a closed log with this number of entries."""
    with AuditLog(path, **options) as log:
        for number in range(1, count + 1):
            log.append(record(number))
    return path


def read(path: Path | str) -> list[dict[str, Any]]:
    """Returns the fields of all entries, with their numbers."""
    return [{"seq": entry.entry.seq, **entry.fields} for entry in Selection().entries(path)]


def copied(path: Path, to: Path) -> Path:
    """Copies a log, with the files that SQLite keeps beside it."""
    to.mkdir(exist_ok=True)
    for part in path.parent.glob(f"{path.name}*"):
        if not part.name.endswith("-shm"):
            shutil.copy(part, to / part.name)
    return to / path.name


@contextlib.contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Opens an SQLite log without its protecting triggers, which are restored afterwards."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        triggers = db.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' ORDER BY rowid").fetchall()
        for name, _ in triggers:
            db.execute(f"DROP TRIGGER {name}")
        yield db
        for _, sql in triggers:
            db.execute(sql)


def remove(path: Path, *numbers: int) -> None:
    """Removes entries."""
    if path.suffix == ".jsonl":
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(line for at, line in enumerate(lines, 1) if at not in numbers))
        return
    with opened(path) as db:
        db.executemany("DELETE FROM entries WHERE seq = ?", [(number,) for number in numbers])


def swap(path: Path, first: int, other: int) -> None:
    """Swaps two entries."""
    if path.suffix == ".jsonl":
        lines = path.read_bytes().splitlines(keepends=True)
        lines[first - 1], lines[other - 1] = lines[other - 1], lines[first - 1]
        path.write_bytes(b"".join(lines))
        return
    with opened(path) as db:
        for old, new in ((first, -1), (other, first), (-1, other)):
            db.execute("UPDATE entries SET seq = ? WHERE seq = ?", (new, old))


def edit(path: Path, old: str, new: str) -> None:
    """Replaces a string wherever it occurs in entries."""
    if path.suffix == ".jsonl":
        path.write_text(path.read_text().replace(old, new))
        return
    with opened(path) as db:
        db.execute("UPDATE entries SET entry = replace(entry, ?, ?)", (old, new))
