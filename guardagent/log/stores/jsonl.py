"""A log as JSON Lines: each line is an entry that ends with its hash. Several processes may append, under its lock.

A batch is one write, followed by one fsync. A process killed in between leaves an unfinished line at the end, which was
never acknowledged; the next append drops it and records that in the log. A complete entry followed by anything but a
line break is not unfinished: it was changed.

A new file of a rotated log is complete before it takes the name of the current one, and that one has its later name by
then. So at every moment the current file exists, and others follow it to the new one.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator
from io import BufferedReader
from itertools import islice
from pathlib import Path

from guardagent._support.files import sync_folder
from guardagent.errors import ContentError, InputError, LogError
from guardagent.log.chain import DamagedLogError, Entry
from guardagent.log.stores import EntryFactory, Rotation, archive_path, archives, continued_record, write_errors

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
    match = _LINE.match(tail)
    if len(tail) >= _MAX_LINE or (match and match.end() < len(tail)):
        raise DamagedLogError("has a changed end of line")
    return match is not None


def _end(tail: bytes, notes: list[str] | None) -> Iterator[Entry]:
    if _is_complete(tail):
        yield _entry(tail)
    elif tail and notes is None:
        raise DamagedLogError("has an unfinished entry at the end of an earlier file")
    elif tail and notes is not None:
        notes.append(f"the last {len(tail):,} bytes are an unfinished entry, which was never acknowledged")


def _entry(line: bytes) -> Entry:
    match = _LINE.fullmatch(line)
    try:
        text, prev, seq, digest = (part.decode("ascii") for part in match.groups()) if match else ("",) * 4
    except UnicodeDecodeError:
        match = None
    if match is None:
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


ROTATES = True
_LOCK_TIMEOUT = 20.0  # seconds
_PAUSE = 0.0005


class Store:
    """Appends to the current file of a log."""

    def __init__(self, path: Path, *, durable: bool, rotation: Rotation | None = None) -> None:
        self.name = str(path)
        self._path = path
        self._durable = durable
        self._rotation = rotation
        self._handle: int | None = None
        self._seen = False
        self._size = -1  # when the end was last read or written here
        self._first: Entry | None = None
        self._last: Entry | None = None
        with self._writing() as handle:
            self._read_end(handle)

    def last(self) -> Entry | None:
        """Returns the last entry."""
        with self._writing() as handle:
            self._read_end(handle)
            return self._last

    def append(self, make: EntryFactory) -> None:
        """Appends with one write and one fsync, or begins a new file."""
        with self._writing() as handle:
            torn = self._read_end(handle)
            recovered = [{"kind": "recovered", "bytes": torn}] if torn else []
            archive = self._archive()
            continued = [continued_record(archive, self._last)] if archive and self._last else []
            batch = make(self._last, [*continued, *recovered])
            data = "".join([f"{entry.line}\n" for entry in batch]).encode()
            if torn:
                os.ftruncate(handle, self._size)
            if archive is not None and self._size:
                self._rotate(handle, archive, data)
                self._size, self._first = 0, None
            else:
                self._write(handle, data)
            self._size, self._last = self._size + len(data), batch[-1]
            self._first = self._first or batch[0]

    def close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
        self._handle, self._size, self._first = None, -1, None

    # --- the current file

    @contextlib.contextmanager
    def _writing(self) -> Iterator[int]:
        """Gives the locked file."""
        import fcntl

        with write_errors(self._path, self.close):
            handle = self._locked()
            try:
                yield handle
            finally:
                if self._handle is not None:
                    fcntl.flock(self._handle, fcntl.LOCK_UN)

    def _locked(self) -> int:
        """Opens and locks the current file, also if another process began it meanwhile."""
        while True:
            handle = self._open()
            _lock(handle, self._path)
            opened = os.fstat(handle)
            if os.path.samestat(opened, os.stat(self._path)):  # noqa: PTH116 - faster
                return handle
            rotated = any(os.path.samestat(opened, path.stat()) for _, path in archives(self._path))
            self.close()
            if not rotated:
                raise LogError(f"{self._path}: is another file than the one opened: the log was moved or replaced")

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

    def _read_end(self, handle: int) -> int:
        """Finds the last entry if others have written since; returns the number of unfinished bytes after it."""
        size = os.fstat(handle).st_size
        if size == self._size:
            return 0
        with open(handle, "rb", closefd=False) as file:
            last, torn, lacks_break = last_entry(file, size)
            if lacks_break:
                os.write(handle, b"\n")
                size += 1
            self._first = self._first or first_entry(file)
        self._size, self._last = size - torn, last or self._last_archived()
        return torn

    def _last_archived(self) -> Entry | None:
        """Returns the last entry of the earlier files."""
        earlier = archives(self._path)
        with _opened(earlier[-1][1]) if earlier else contextlib.nullcontext() as file:
            return next(entries_backwards(file, None), None) if file is not None else None

    def _write(self, handle: int, data: bytes) -> None:
        try:
            _write_all(handle, data, durable=self._durable)
        except BaseException:
            with contextlib.suppress(OSError):  # otherwise the next append drops the partial write
                os.ftruncate(handle, self._size)
            raise

    # --- rotation

    def _archive(self) -> Path | None:
        """Returns the file that the next entries continue: the current one if it is full, or the last earlier one."""
        if self._first is None:
            return archives(self._path)[-1][1] if self._last is not None else None
        is_due = self._rotation is not None and self._rotation.is_due(self._size, self._first)
        return archive_path(self._path, self._first.seq) if is_due else None

    def _rotate(self, handle: int, archive: Path, data: bytes) -> None:
        """Replaces the current file by a new one with this content, which is locked until the change is durable."""
        current = archive.with_name(self._path.resolve().name)
        temporary = archive.with_name(f".{current.name}.new")
        fresh = os.open(temporary, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            _lock(fresh, temporary)
            os.fchmod(fresh, os.fstat(handle).st_mode & 0o777)
            _write_all(fresh, data, durable=self._durable)
            _link(current, archive)
            self._sync(current.parent)
            temporary.replace(current)
            self._sync(current.parent)
        except BaseException:
            os.close(fresh)
            temporary.unlink(missing_ok=True)
            raise
        os.close(handle)
        self._handle = fresh

    def _sync(self, folder: Path) -> None:
        if self._durable:
            sync_folder(folder)


class LogReader:
    """Reads a log: one file after the earlier ones of the same log, or the given files in order."""

    def __init__(self, *paths: Path) -> None:
        self._paths = paths
        self.name = str(paths[0]) if len(paths) == 1 else f"{paths[0]} to {paths[-1]}"
        self.notes: list[str] = []

    def __iter__(self) -> Iterator[Entry]:
        with self._last_file() as (earlier, last):
            for path in earlier:
                with _opened(path) as file:
                    yield from entries(file, None)
            yield from entries(last, self.notes)

    def backwards(self) -> Iterator[Entry]:
        """Iterates from the end."""
        with self._last_file() as (earlier, last):
            yield from entries_backwards(last, self.notes)
            for path in reversed(earlier):
                with _opened(path) as file:
                    yield from entries_backwards(file, None)

    @contextlib.contextmanager
    def _last_file(self) -> Iterator[tuple[list[Path], BufferedReader]]:
        """Opens the last file, and only then looks for the earlier ones, since it may be closed meanwhile."""
        *earlier, last = self._paths
        with _opened(last) as file:
            yield earlier or _archives_before(last, file), file


def _archives_before(path: Path, file: BufferedReader) -> list[Path]:
    """Returns the earlier files; not those that follow, nor the file itself if it has its later name already."""
    first, opened = first_entry(file), os.fstat(file.fileno())
    return [
        path
        for number, path in archives(path)
        if (first is None or number < first.seq) and not os.path.samestat(opened, path.stat())
    ]


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[BufferedReader]:
    try:
        with path.open("rb") as file:
            beginning = file.peek(len(BEGINNING))[: len(BEGINNING)]
            if not BEGINNING.startswith(beginning):
                raise ContentError("is not a log; expected log entries", path, 1)
            yield file
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None


def _link(current: Path, archive: Path) -> None:
    """Gives the current file its later name, which it has already if a process was killed here."""
    try:
        os.link(current, archive)
    except FileExistsError:
        if not archive.samefile(current):
            raise LogError(f"{archive}: exists already; expected no such file beside the log") from None


def _write_all(handle: int, data: bytes, *, durable: bool) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(handle, left) :]
    if durable:
        os.fsync(handle)


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
