"""Reads entries from the lines of an open file, from either end.

A process killed in a write leaves an unfinished line at the end. A complete entry followed by anything but a line break
is not unfinished: it was changed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from io import BufferedReader
from itertools import islice

from guardagent.log.chain import DamagedLogError, Entry

BEGINNING = b'{"entry":'
_LINE = re.compile(rb'\{"entry":(\{.*\}),"prev":"([^"]*)","seq":([1-9][0-9]{0,17}),"hash":"([^"]*)"\}', re.DOTALL)
_MAX_LINE = 64 * 2**20
_BLOCK = 64 * 2**10


def entries(file: BufferedReader, notes: list[str] | None) -> Iterator[Entry]:
    """Iterates over the entries in order; an unfinished end is noted, or damage without `notes`."""
    file.seek(0)
    while line := file.readline(_MAX_LINE):
        if line.endswith(b"\n"):
            yield _entry(line[:-1])
        else:
            yield from _end(line, notes)


def entries_backwards(file: BufferedReader, notes: list[str] | None) -> Iterator[Entry]:
    """Iterates over the entries from the last one."""
    size = file.seek(0, os.SEEK_END)
    lines = _lines_backwards(file, size)
    yield from _end(next(lines), notes)
    yield from map(_entry, lines)


def first_entry(file: BufferedReader) -> Entry | None:
    """Returns the first entry of a file; None if it has no line."""
    file.seek(0)
    line = file.readline(_MAX_LINE)
    return _entry(line[:-1]) if line.endswith(b"\n") else None


def last_entry(file: BufferedReader, size: int) -> tuple[Entry | None, int, bool]:
    """Returns the last entry, the bytes of an unfinished one after it, and whether it lacks only its line break."""
    tail, *lines = islice(_lines_backwards(file, size), 2)
    if _is_complete(tail):
        return _entry(tail), 0, True
    return _entry(lines[0]) if lines else None, len(tail), False


def _is_complete(tail: bytes) -> bool:
    """Returns whether the bytes after the last line break are an entry that lacks only its own line break.

    Raises:
        DamagedLogError: something else follows the entry, which no interrupted write leaves behind.
    """
    found = _LINE.match(tail)
    if len(tail) >= _MAX_LINE or (found and found.end() < len(tail)):
        raise DamagedLogError("has a changed end of line")
    return found is not None


def _end(tail: bytes, notes: list[str] | None) -> Iterator[Entry]:
    if _is_complete(tail):
        yield _entry(tail)
    elif tail and notes is None:
        raise DamagedLogError("has an unfinished entry at the end of an earlier file")
    elif tail and notes is not None:
        notes.append(f"the last {len(tail):,} bytes are an unfinished entry, which was never acknowledged")


def _entry(line: bytes) -> Entry:
    found = _LINE.fullmatch(line)
    try:
        text, prev, seq, digest = (part.decode("ascii") for part in found.groups()) if found else ("",) * 4
    except UnicodeDecodeError:
        found = None
    if found is None:
        raise DamagedLogError("has a changed line")
    return Entry(int(seq), text, prev, digest)


def _lines_backwards(file: BufferedReader, size: int) -> Iterator[bytes]:
    """Yields the lines without line breaks from the last; the first result follows the last line break, often empty."""
    rest, at = b"", size
    while at:
        begin = max(0, at - _BLOCK)
        file.seek(begin)
        first, *lines = (file.read(at - begin) + rest).split(b"\n")
        yield from reversed(lines)
        rest, at = first, begin
        if len(rest) > _MAX_LINE:
            raise DamagedLogError("has a line that is too long")
    yield rest
