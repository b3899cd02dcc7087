"""Finds where the members of a JSON object are complete while it is being written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

from guardagent._support import strict_json

_SPACE = b" \t\n\r"
_QUOTE, _BACKSLASH, _COMMA, _COLON = b'"\\,:'
_OPEN, _CLOSE = b"{[", b"}]"


class Unreadable(ValueError):  # noqa: N818 - it says what a text is
    """What was written is no JSON that can be judged."""


class Phase(Enum):
    KEY = 1
    COLON = 2
    VALUE = 3
    AFTER = 4


@dataclass(frozen=True, slots=True)
class Member:
    """A value that is complete: the keys that lead to it (none: the object itself), and where it stands."""

    path: tuple[str, ...]
    start: int
    end: int


@dataclass(slots=True)
class Members:
    """Where the reading of one object stands. It reads what a grammar lets through, and is small, so that it is copied.

    Attributes:
        levels: how deep members are reported: 1 only those of the object itself.
    """

    levels: int
    depth: int = 0
    path: tuple[str, ...] = ()
    starts: tuple[int, ...] = ()
    phase: Phase = Phase.VALUE
    listed: int = 0  # the depth of the outermost list, or of the first object that is too deep: nothing in it counts
    in_text: bool = False
    escaped: bool = False
    plain: bool = False  # a number or a word is being read

    def copy(self) -> Members:
        return Members(
            self.levels, self.depth, self.path, self.starts, self.phase, self.listed, self.in_text, self.escaped,
            self.plain,
        )  # fmt: skip

    def read(self, text: bytes | bytearray, start: int, end: int) -> Iterator[Member]:
        """Reads on in a text, up to the end of the object; what it finds complete.

        Raises:
            Unreadable: a key is no text.
        """
        for at in range(start, end):
            yield from self._byte(text, at, text[at])
            if self.is_complete:
                return

    @property
    def is_complete(self) -> bool:
        return self.phase is Phase.AFTER and not self.depth

    def _byte(self, text: bytes | bytearray, at: int, byte: int) -> Iterator[Member]:
        if self.in_text:
            yield from self._in_text(text, at, byte)
        elif byte == _QUOTE:
            self.in_text = True
            self._begins(at)
        elif byte in _OPEN:
            self._begins(at)
            self._opens(byte)
        elif byte in _CLOSE or byte == _COMMA:
            yield from self._ends(at, byte)
        elif byte == _COLON:
            self.phase = Phase.VALUE if not self.listed else self.phase
        elif byte in _SPACE:
            yield from self._plain_ends(at)
        elif not self.plain and not self.listed:
            self._begins(at)
            self.plain = True

    def _in_text(self, text: bytes | bytearray, at: int, byte: int) -> Iterator[Member]:
        if self.escaped:
            self.escaped = False
        elif byte == _BACKSLASH:
            self.escaped = True
        elif byte == _QUOTE:
            self.in_text = False
            if not self.listed:
                yield from self._text_ends(text, at)

    def _text_ends(self, text: bytes | bytearray, at: int) -> Iterator[Member]:
        if self.phase is Phase.KEY:
            self.path = (*self.path, loaded(text[self.starts[-1] : at + 1]))
            self.starts = self.starts[:-1]
            self.phase = Phase.COLON
        else:
            yield self._complete(at + 1)

    def _begins(self, at: int) -> None:
        if not self.listed and self.phase is not Phase.COLON:
            self.starts = (*self.starts, at)

    def _opens(self, byte: int) -> None:
        self.depth += 1
        if self.listed:
            return
        if byte == _OPEN[0] and self.depth <= self.levels:
            self.phase = Phase.KEY
        else:
            self.listed = self.depth

    def _ends(self, at: int, byte: int) -> Iterator[Member]:
        if byte == _COMMA:
            yield from self._plain_ends(at)
            self.phase = Phase.KEY if not self.listed else self.phase
            return
        if not self.listed:
            yield from self._plain_ends(at)
        self.depth -= 1
        if not self.listed or self.depth < self.listed:
            self.listed = 0
            yield self._complete(at + 1)

    def _plain_ends(self, at: int) -> Iterator[Member]:
        if self.plain and not self.listed:
            self.plain = False
            yield self._complete(at)

    def _complete(self, end: int) -> Member:
        """A value is complete: it is forgotten where it began, and which key led to it."""
        member = Member(self.path, self.starts[-1], end)
        self.path, self.starts, self.phase = self.path[:-1], self.starts[:-1], Phase.AFTER
        return member


def loaded(text: bytes | bytearray) -> Any:
    """The value of a piece of JSON.

    Raises:
        Unreadable: it has none, a key comes twice, or it is nested too deep.
    """
    try:
        return strict_json.loads(text)
    except ValueError as error:
        raise Unreadable(str(error)) from None
