"""Lines out of a stream, each at most so long; of a longer one only its two ends are kept."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_END = 1024  # bytes that are kept at each end
_ID = rb'"id"\s*:\s*(?:(?P<number>-?\d{1,18})|"(?P<text>[\w.~:-]{1,200})")\s*'
_VERSION = rb'"jsonrpc"\s*:\s*"2\.0"\s*'
_FIRST = re.compile(rb"\s*\{\s*(?:" + _VERSION + rb",\s*)?" + _ID + rb",", re.ASCII)
_LAST = re.compile(rb"(?:,\s*" + _VERSION + rb")?,\s*" + _ID + rb"(?:,\s*" + _VERSION + rb")?\}\s*$", re.ASCII)


@dataclass(frozen=True, slots=True)
class OverlongLine:
    """A line that is longer than it may be."""

    head: bytes
    tail: bytes

    @property
    def id(self) -> Any:
        """The id of the request that it is, where that stands first or last in it, as clients write it."""
        found = _FIRST.match(self.head) or _LAST.search(self.tail)
        if found is None:
            return None
        return int(found["number"]) if found["number"] else found["text"].decode()


class LineBuffer:
    """Puts lines together in linear time.

    Args:
        limit: bytes in a line.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._begin()

    def feed(self, chunk: bytes) -> Iterator[bytes | OverlongLine]:
        """The lines that end in the next bytes of the stream; without those that are empty."""
        *pieces, rest = chunk.split(b"\n")
        for piece in pieces:
            if piece or self._size:
                self._add(piece)
                yield self._finish()
        self._add(rest)

    def end(self) -> OverlongLine | None:
        """The last line, where the stream ends in one that is too long."""
        found = self._finish()
        return found if isinstance(found, OverlongLine) else None

    def _begin(self) -> None:
        self._parts: list[bytes] = []
        self._size, self._long, self._tail = 0, False, b""

    def _add(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size <= self._limit:
            self._parts.append(piece)
            return
        if not self._long:
            self._long, self._tail = True, b"".join(self._parts)
            self._parts = [(self._tail + piece)[:_END]]
        self._tail = (self._tail + piece)[-_END:]

    def _finish(self) -> bytes | OverlongLine:
        found = OverlongLine(self._parts[0], self._tail) if self._long else b"".join(self._parts)
        self._begin()
        return found
