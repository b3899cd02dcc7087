"""Splits a stream into lines of limited length; of a longer line only both ends are kept."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_END = 1024  # bytes kept at each end
_ID = rb'"id"\s*:\s*(?:(?P<number>-?\d{1,18})|"(?P<text>[\w.~:-]{1,200})")\s*'
_VERSION = rb'"jsonrpc"\s*:\s*"2\.0"\s*'
_FIRST = re.compile(rb"\s*\{\s*(?:" + _VERSION + rb",\s*)?" + _ID + rb",", re.ASCII)
_LAST = re.compile(rb"(?:,\s*" + _VERSION + rb")?,\s*" + _ID + rb"(?:,\s*" + _VERSION + rb")?\}\s*$", re.ASCII)


@dataclass(frozen=True, slots=True)
class OverlongLine:
    """A line above the length limit."""

    head: bytes
    tail: bytes

    @property
    def id(self) -> Any:
        """Returns the request id, if it is the first or last member, as clients write it."""
        found = _FIRST.match(self.head) or _LAST.search(self.tail)
        if found is None:
            return None
        return int(found["number"]) if found["number"] else found["text"].decode()


class LineBuffer:
    """Splits a stream into lines in linear time.

    Args:
        limit: the maximum number of bytes in a line.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._begin()

    def feed(self, chunk: bytes) -> Iterator[bytes | OverlongLine]:
        """Returns the non-empty lines that end in the next bytes of the stream."""
        *pieces, rest = chunk.split(b"\n")
        for piece in pieces:
            if piece or self._size:
                self._add(piece)
                yield self._finish()
        self._add(rest)

    def end(self) -> OverlongLine | None:
        """Returns the last line, if the stream ends in an overlong one."""
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
