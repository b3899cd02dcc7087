"""Incremental scanner that reports the members of a JSON object as they are completed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

from guardagent._support import strict_json

_SPACE = b" \t\n\r"
_QUOTE, _BACKSLASH, _COMMA, _COLON = b'"\\,:'
_OPEN, _CLOSE = b"{[", b"}]"


class MalformedCall(ValueError):  # noqa: N818 - a property of the text
    """The generated text is not JSON that can be judged."""


class Phase(Enum):
    KEY = 1
    COLON = 2
    VALUE = 3
    AFTER = 4


@dataclass(frozen=True, slots=True)
class JsonMember:
    """A complete value: the keys that lead to it (none for the object itself), and its offsets."""

    path: tuple[str, ...]
    start: int
    end: int


@dataclass(slots=True)
class JsonScanner:
    """The scanner state for one object. It relies on the grammar for validity, and is small, so that copies are cheap.

    Attributes:
        levels: the depth to which members are reported: 1 for those of the object itself only.
    """

    levels: int
    depth: int = 0
    path: tuple[str, ...] = ()
    starts: tuple[int, ...] = ()
    phase: Phase = Phase.VALUE
    skipped_depth: int = 0  # the depth of the outermost list or of an object below `levels`; 0 outside
    in_string: bool = False
    escaped: bool = False
    in_scalar: bool = False  # within a number, true, false or null

    def copy(self) -> JsonScanner:
        return JsonScanner(
            self.levels, self.depth, self.path, self.starts, self.phase, self.skipped_depth, self.in_string,
            self.escaped, self.in_scalar,
        )  # fmt: skip

    def read(self, text: bytes | bytearray, start: int, end: int) -> Iterator[JsonMember]:
        """Scans on, at most to the end of the object, and yields each completed member.

        Raises:
            MalformedCall: a key is not a valid string.
        """
        for at in range(start, end):
            yield from self._byte(text, at, text[at])
            if self.is_complete:
                return

    @property
    def is_complete(self) -> bool:
        return self.phase is Phase.AFTER and not self.depth

    def _byte(self, text: bytes | bytearray, at: int, byte: int) -> Iterator[JsonMember]:
        if self.in_string:
            yield from self._string_byte(text, at, byte)
        elif byte == _QUOTE:
            self.in_string = True
            self._begin_value(at)
        elif byte in _OPEN:
            self._begin_value(at)
            self._open(byte)
        elif byte in _CLOSE or byte == _COMMA:
            yield from self._close(at, byte)
        elif byte == _COLON:
            self.phase = Phase.VALUE if not self.skipped_depth else self.phase
        elif byte in _SPACE:
            yield from self._end_scalar(at)
        elif not self.in_scalar and not self.skipped_depth:
            self._begin_value(at)
            self.in_scalar = True

    def _string_byte(self, text: bytes | bytearray, at: int, byte: int) -> Iterator[JsonMember]:
        if self.escaped:
            self.escaped = False
        elif byte == _BACKSLASH:
            self.escaped = True
        elif byte == _QUOTE:
            self.in_string = False
            if not self.skipped_depth:
                yield from self._end_string(text, at)

    def _end_string(self, text: bytes | bytearray, at: int) -> Iterator[JsonMember]:
        if self.phase is Phase.KEY:
            self.path = (*self.path, parse_value(text[self.starts[-1] : at + 1]))
            self.starts = self.starts[:-1]
            self.phase = Phase.COLON
        else:
            yield self._complete(at + 1)

    def _begin_value(self, at: int) -> None:
        if not self.skipped_depth and self.phase is not Phase.COLON:
            self.starts = (*self.starts, at)

    def _open(self, byte: int) -> None:
        self.depth += 1
        if self.skipped_depth:
            return
        if byte == _OPEN[0] and self.depth <= self.levels:
            self.phase = Phase.KEY
        else:
            self.skipped_depth = self.depth

    def _close(self, at: int, byte: int) -> Iterator[JsonMember]:
        if byte == _COMMA:
            yield from self._end_scalar(at)
            self.phase = Phase.KEY if not self.skipped_depth else self.phase
            return
        if not self.skipped_depth:
            yield from self._end_scalar(at)
        self.depth -= 1
        if not self.skipped_depth or self.depth < self.skipped_depth:
            self.skipped_depth = 0
            yield self._complete(at + 1)

    def _end_scalar(self, at: int) -> Iterator[JsonMember]:
        if self.in_scalar and not self.skipped_depth:
            self.in_scalar = False
            yield self._complete(at)

    def _complete(self, end: int) -> JsonMember:
        """Reports a complete value, and drops its start and key."""
        member = JsonMember(self.path, self.starts[-1], end)
        self.path, self.starts, self.phase = self.path[:-1], self.starts[:-1], Phase.AFTER
        return member


def parse_value(text: bytes | bytearray) -> Any:
    """Parses a piece of JSON strictly.

    Raises:
        MalformedCall: it is not valid JSON, a key appears twice, or it is nested too deeply.
    """
    try:
        return strict_json.loads(text)
    except ValueError as error:
        raise MalformedCall(str(error)) from None
