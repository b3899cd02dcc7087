"""A file of results that survives its writer: rows of JSON, one in a line, appended by one process at a time.

Wherever a run was ended, every row is there that was written; of the last one perhaps a part, which is cut off before
the next one comes.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterable, Iterator
from io import FileIO
from pathlib import Path
from typing import Self

from guardagent._support.locks import replace_file
from guardagent.errors import ContentError, InputError


class ResultLog:
    """The file, open and locked; a new one where there is none.

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
            raise InputError(f"{path}: another run is writing to it; expected that one to end first")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Lets others write."""
        self._file.close()

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return self._file.seek(0, os.SEEK_END)

    def rows(self, start: int = 0) -> list[str]:
        """The lines from a place on, which may be anything, without a last one that is torn."""
        with file_errors(self.path):
            self._file.seek(start)
            data = self._file.readall() or b""
        complete = data[: data.rfind(b"\n") + 1]  # bytes, since it may be torn within a character
        self._complete_size = start + len(complete)
        return complete.decode("utf-8", "replace").split("\n")[:-1]

    def drop_torn_row(self) -> None:
        """Cuts a torn row off, to which the next one would be glued, once all that was read is known to be ours."""
        with file_errors(self.path):
            self._file.truncate(self._complete_size)

    def append(self, row: str) -> None:
        """Adds a row, all of it."""
        data = f"{row}\n".encode()
        with file_errors(self.path):
            while data:
                data = data[self._file.write(data) :]

    def replace(self, rows: Iterable[str]) -> None:
        """Writes other rows instead, and ends: even a crash of the machine leaves the old ones or these."""
        with self, file_errors(self.path):
            replace_file(self.path, "".join(f"{row}\n" for row in rows))

    def _has_lock(self) -> bool:
        """Whether no other run holds it, nor has replaced it since it was opened."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the system releases it, however this process ends
            return os.path.samestat(os.fstat(self._file.fileno()), self.path.stat())
        except OSError:
            return False


@contextlib.contextmanager
def file_errors(path: Path) -> Iterator[None]:
    """Says of a file what the system says."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path}: cannot be read or written: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ContentError("is not UTF-8; expected it as it was written", path) from None
