"""A log as JSON Lines: each line is an entry that ends with its hash. Several processes may append, under its lock.

A batch is one write, followed by one fsync. A process killed in between leaves an unfinished line at the end, which was
never acknowledged; the next append drops it and records that in the log. A complete entry followed by anything but a
line break is not unfinished: it was changed.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterable, Iterator
from io import BufferedReader
from pathlib import Path

from guardagent._support.locks import sync_folder
from guardagent.errors import ContentError, InputError, LogError
from guardagent.log.chain import DamagedLogError, Entry
from guardagent.log.stores import EntryFactory

_BEGINNING = b'{"entry":'
_LINE = re.compile(rb'\{"entry":(\{.*\}),"prev":"([^"]*)","seq":([1-9][0-9]{0,17}),"hash":"([^"]*)"\}', re.DOTALL)
_MAX_LINE = 64 * 2**20
_BLOCK = 64 * 2**10
_LOCK_TIMEOUT = 20.0  # seconds
_PAUSE = 0.0005


class Store:
    """Appends to one file."""

    def __init__(self, path: Path, *, durable: bool) -> None:
        self._path = path
        self._durable = durable
        self._handle: int | None = None
        self._seen = False
        self._size, self._last = -1, None  # when the end was last read or written here
        with self._writing() as handle:
            self._read_end(handle)

    _last: Entry | None

    def last(self) -> Entry | None:
        """Returns the last entry."""
        with self._writing() as handle:
            self._read_end(handle)
            return self._last

    def append(self, make: EntryFactory) -> None:
        """Appends with one write and one fsync."""
        with self._writing() as handle:
            torn = self._read_end(handle)
            entries = make(self._last, torn)
            if torn:
                os.ftruncate(handle, self._size)
            data = "".join([f"{entry.line}\n" for entry in entries]).encode()
            self._write(handle, data)
            self._size, self._last = self._size + len(data), entries[-1]

    def close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
        self._handle, self._size = None, -1

    @contextlib.contextmanager
    def _writing(self) -> Iterator[int]:
        """Gives the locked file."""
        import fcntl

        try:
            handle = self._open()
            _lock(handle, self._path)
            try:
                self._require_same_file(handle)
                yield handle
            finally:
                fcntl.flock(handle, fcntl.LOCK_UN)
        except OSError as error:
            self.close()
            raise LogError(f"{self._path}: the log cannot be written: {error.strerror}") from None
        except DamagedLogError as damaged:
            raise LogError(f"{self._path}: {damaged}; nothing is added to it") from None

    def _open(self) -> int:
        if self._handle is None:
            new = not self._path.exists()
            if new and self._seen:
                raise LogError(f"{self._path}: no longer exists: the log was moved or removed")
            self._handle = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self._seen = True
            if new:
                sync_folder(self._path.parent)
        return self._handle

    def _require_same_file(self, handle: int) -> None:
        opened, current = os.fstat(handle), os.stat(self._path)  # noqa: PTH116 - faster
        if (opened.st_dev, opened.st_ino) != (current.st_dev, current.st_ino):
            raise LogError(f"{self._path}: is another file than the one opened: the log was moved or replaced")

    def _read_end(self, handle: int) -> int:
        """Finds the last entry if others have written since; returns the number of unfinished bytes after it."""
        size = os.fstat(handle).st_size
        if size == self._size:
            return 0
        with open(handle, "rb", closefd=False) as file:
            tail, *lines = _first_two(_lines_backwards(file, size))
        if _is_complete(tail):
            os.write(handle, b"\n")
            tail, lines, size = b"", [tail], size + 1
        self._size, self._last = size - len(tail), _entry(lines[0]) if lines else None
        return len(tail)

    def _write(self, handle: int, data: bytes) -> None:
        try:
            left = memoryview(data)
            while left:
                left = left[os.write(handle, left) :]
            if self._durable:
                os.fsync(handle)
        except BaseException:
            with contextlib.suppress(OSError):  # otherwise the next append drops the partial write
                os.ftruncate(handle, self._size)
            raise


class LogReader:
    """Reads one file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.notes: list[str] = []

    def __iter__(self) -> Iterator[Entry]:
        with self._open() as file:
            while line := file.readline(_MAX_LINE):
                if line.endswith(b"\n"):
                    yield _entry(line[:-1])
                else:
                    yield from self._end(line)

    def backwards(self) -> Iterator[Entry]:
        """Iterates from the end."""
        with self._open() as file:
            size = file.seek(0, os.SEEK_END)
            for number, line in enumerate(_lines_backwards(file, size)):
                if number:
                    yield _entry(line)
                else:
                    yield from self._end(line)

    def _end(self, tail: bytes) -> Iterator[Entry]:
        if _is_complete(tail):
            yield _entry(tail)
        elif tail:
            self.notes.append(f"the last {len(tail):,} bytes are an unfinished entry, which was never acknowledged")

    @contextlib.contextmanager
    def _open(self) -> Iterator[BufferedReader]:
        try:
            with self._path.open("rb") as file:
                beginning = file.peek(len(_BEGINNING))[: len(_BEGINNING)]
                if not _BEGINNING.startswith(beginning):
                    raise ContentError("is not a log; expected log entries", self._path, 1)
                yield file
        except FileNotFoundError:
            raise InputError(f"{self._path}: no such file") from None
        except OSError as error:
            raise InputError(f"{self._path}: cannot be read: {error.strerror}") from None


def _is_complete(tail: bytes) -> bool:
    """Whether the bytes after the last line break are an entry that lacks only its own line break.

    Raises:
        DamagedLogError: something else follows the entry, which no interrupted write leaves behind.
    """
    found = _LINE.match(tail)
    if len(tail) >= _MAX_LINE or (found and found.end() < len(tail)):
        raise DamagedLogError("has a changed end of line")
    return found is not None


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


def _first_two(lines: Iterable[bytes]) -> list[bytes]:
    return [line for line, _ in zip(lines, range(2), strict=False)]


def _lock(handle: int, path: Path) -> None:
    """Waits for other writers, up to a time limit."""
    import fcntl

    deadline = time.monotonic() + _LOCK_TIMEOUT
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise LogError(f"{path}: another process has been writing for {_LOCK_TIMEOUT:.0f} s") from None
            time.sleep(_PAUSE)
        else:
            return
