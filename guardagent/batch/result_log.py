"""A durable file of results: rows of JSON, one per line, appended by one process at a time.

If a run is killed, all written rows remain. Only the last one may be torn; it is removed before the next is appended.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterable, Iterator
from io import FileIO
from pathlib import Path
from typing import Self

from guardagent._support.files import replace_file
from guardagent.errors import ContentError, InputError


class ResultLog:
    """The file, open and locked; created if missing.

    Raises:
        InputError: another run is writing to it, or it cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with file_errors(path):
            self._file = FileIO(path, "a+")
        self._complete_size = 0
        if not self._has_lock():
            self.close()
            raise InputError(f"{path}: another run is writing to it; wait until that run ends")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes and unlocks the file."""
        self._file.close()

    @property
    def size(self) -> int:
        """The size of the file in bytes."""
        return self._file.seek(0, os.SEEK_END)

    def rows(self, start: int = 0) -> list[str]:
        """The lines from a byte offset on, unvalidated, without a torn last line."""
        with file_errors(self.path):
            self._file.seek(start)
            data = self._file.readall() or b""
        complete = data[: data.rfind(b"\n") + 1]  # on bytes: the row may be torn within a character
        self._complete_size = start + len(complete)
        return complete.decode("utf-8", "replace").split("\n")[:-1]

    def drop_torn_row(self) -> None:
        """Truncates a torn last row, once the rows before it are validated."""
        with file_errors(self.path):
            self._file.truncate(self._complete_size)

    def append(self, row: str) -> None:
        """Appends a row."""
        data = f"{row}\n".encode()
        with file_errors(self.path):
            while data:
                data = data[self._file.write(data) :]

    def replace(self, rows: Iterable[str]) -> None:
        """Replaces all rows atomically and closes the file; after a crash, either the old or the new rows remain."""
        with self, file_errors(self.path):
            replace_file(self.path, "".join(f"{row}\n" for row in rows))

    def _has_lock(self) -> bool:
        """Locks the file; whether that succeeded, and no other run has replaced the file since it was opened."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # released by the system when the process ends
            return os.path.samestat(os.fstat(self._file.fileno()), self.path.stat())
        except OSError:
            return False


@contextlib.contextmanager
def file_errors(path: Path) -> Iterator[None]:
    """Turns errors of the operating system into errors that name the file."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path}: cannot be read or written: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ContentError("is not UTF-8; expected the unchanged file", path) from None
