"""Reads a file of any size in chunks of whole lines, each with its position and the digest of the file up to there."""

from __future__ import annotations

import contextlib
import hashlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path

from guardagent.errors import ContentError, InputError

MAX_LINE = 64 * 2**20
_CHUNK_LINES = 32
_CHUNK_BYTES = 256 * 2**10
_BLOCK = 2**20
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class InputLine:
    """A line that is not blank.

    Attributes:
        data: its bytes without the line ending; None for a line of more than `limit` bytes, which is discarded.
    """

    number: int
    data: bytes | None
    limit: int = MAX_LINE

    def text(self, path: Path | str) -> str:
        """The decoded line.

        Raises:
            ContentError: the line is too long, or is not UTF-8.
        """
        if self.data is None:
            raise ContentError(f"the line is too long; expected at most {self.limit:,} bytes", path, self.number)
        try:
            return self.data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ContentError(f"byte {error.start} is not UTF-8; expected UTF-8 text", path, self.number) from None


@dataclass(frozen=True, slots=True)
class FilePosition:
    """A position between two lines: the number of lines and bytes before it, and the digest of those bytes."""

    line: int = 0
    read: int = 0
    sha256: str = hashlib.sha256().hexdigest()


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive lines, and the position after them."""

    lines: tuple[InputLine, ...]
    end: FilePosition
    size: int


class LineReader:
    r"""Reads a stream of bytes from its beginning.

    Only "\n" ends a line, as in JSON Lines; a "\r" before it is JSON whitespace. Blank lines are counted and skipped.
    A byte order mark is not part of the first line.
    """

    def __init__(self, stream: BufferedReader, limit: int = MAX_LINE) -> None:
        self._stream = stream
        self._limit = limit
        self._digest = hashlib.sha256()
        self._line = self._read = 0

    @property
    def position(self) -> FilePosition:
        return FilePosition(self._line, self._read, self._digest.hexdigest())

    def skip_to(self, position: FilePosition) -> bool:
        """Skips to a position; false if the bytes before it have changed, or if it is now inside a line."""
        last = b"\n"
        while block := self._stream.read(min(_BLOCK, position.read - self._read)):
            self._advance(block)
            last = block[-1:]
        self._line = position.line
        return self.position == position and (last == b"\n" or not self._stream.peek(1))

    def chunks(self, end: int | None = None) -> Iterator[Chunk]:
        """Yields the rest of the file in chunks.

        Args:
            end: a byte offset at which a chunk must end, because one did in an earlier run.
        """
        while (chunk := self._chunk(end)).size:
            yield chunk

    def _chunk(self, end: int | None) -> Chunk:
        start = self._read
        lines: list[InputLine] = []
        while line := self._next_line():
            if line.data is None or line.data.strip():
                lines.append(line)
            if len(lines) == _CHUNK_LINES or self._read - start >= _CHUNK_BYTES or self._read == end:
                break
        return Chunk(tuple(lines), self.position, self._read - start)

    def _next_line(self) -> InputLine | None:
        data = self._stream.readline(self._limit + 1)
        if not data:
            return None
        whole = len(data) <= self._limit or data.endswith(b"\n")
        text = data.removeprefix(b"" if self._read else _BOM).rstrip(b"\r\n")
        line = InputLine(self._line + 1, text if whole else None, self._limit)
        self._line += 1
        self._advance(data)
        if not whole:
            self._skip_rest()
        return line

    def _skip_rest(self) -> None:
        while block := self._stream.readline(_BLOCK):
            self._advance(block)
            if block.endswith(b"\n"):
                return

    def _advance(self, data: bytes) -> None:
        self._digest.update(data)
        self._read += len(data)


@contextlib.contextmanager
def open_bytes(path: Path | str) -> Iterator[BufferedReader]:
    """Opens a file for reading, or standard input for `-`.

    Raises:
        InputError: the file is missing, is a folder, or cannot be read.
    """
    if str(path) == "-":
        if sys.stdin is None:
            raise InputError("standard input is closed; expected JSON Lines")
        yield sys.stdin.buffer  # type: ignore[misc]
        return
    with _open(Path(path)) as file:
        yield file


def _open(path: Path) -> BufferedReader:
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise InputError(f"{path}: is a folder; expected a file") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
