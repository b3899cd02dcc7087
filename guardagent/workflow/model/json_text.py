"""Reads a JSON text piece by piece: an object member by member, a list item by item.

The values of a large file are never in memory at once, and a file with other content is rejected where it differs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from guardagent._support import json_values

_CHUNK = 200_000  # characters that are read at once
_BETWEEN = re.compile(r"\}(?=[ \t\n\r]*,[ \t\n\r]*\{)")  # between objects of a list, but also within a string
_SPACE = re.compile(r"[ \t\n\r]*")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")  # half of a surrogate pair: invalid without the other half
Scan = Callable[[str, int], tuple[Any, int]]
_KINDS = {"{": "an object", "[": "a list", '"': "a string", "t": "true", "f": "false", "n": "null", "": "nothing"}
_KINDS |= dict.fromkeys("-0123456789", "a number")


class JsonError(Exception):
    """The file is not valid JSON; has the line and the problem."""

    def __init__(self, problem: str, line: int) -> None:
        super().__init__(problem)
        self.line = line


class JsonText:
    """A JSON text with a position.

    All methods raise `JsonError`. Read each value completely before the next one.

    Args:
        data: the bytes of a file.
    """

    def __init__(self, data: bytes) -> None:
        self._text, self._at = "", 0
        try:
            self._text = data.decode(json.detect_encoding(data))
        except UnicodeDecodeError as error:
            raise JsonError(f"is not text: {error.reason}", data.count(b"\n", 0, error.start) + 1) from None
        self._no_chunk_before = 0
        self._scan = _scanner(self._text, json_values.unique_keys)
        self._scan_quickly = _scanner(self._text, None)  # of a duplicate key, it takes the last value
        self._skip()

    def kind(self) -> str:
        """Names the kind of the value at this position."""
        return _KINDS.get(self._text[self._at : self._at + 1], "not a JSON value")

    def value(self) -> Any:
        """Reads the value at this position."""
        try:
            value, self._at = self._scan(self._text, self._at)
        except json.JSONDecodeError as error:
            self._fail(error.msg, error.pos)
        except StopIteration as stop:
            self._fail("expected a value", stop.value)
        except RecursionError:
            self._fail("is nested too deeply", self._at)
        except ValueError as error:
            self._fail(str(error), self._at)
        self._skip()
        return value

    def members(self) -> Iterator[str]:
        """Yields the keys of the object at this position; read the value after each key."""
        seen: set[str] = set()
        for _ in self._separated("}"):
            if self.kind() != "a string":
                self._fail(f"is {self.kind()}; expected a key", self._at)
            key = self.value()
            if key in seen:
                self._fail(json_values.duplicate_key_message(key), self._at)
            seen.add(key)
            self._expect(":")
            yield key

    def items(self) -> Iterator[Any]:
        """Yields the items of the list at this position."""
        for _ in self._separated("]"):
            yield from self._chunk() or [self.value()]

    def _chunk(self) -> list[Any]:
        """Reads many items at once if they are valid objects; else returns an empty list."""
        if self._at < self._no_chunk_before:
            return []
        between = _BETWEEN.search(self._text, self._at + _CHUNK)
        self._no_chunk_before = between.end() if between else len(self._text)
        if between is None:
            return []
        text = f"[{self._text[self._at : between.end()]}]"
        try:
            items, end = self._scan_quickly(text, 0)
            if text.count(":") != sum(map(dict.__len__, items)):  # a duplicate key, or keys or colons in values
                items, end = self._scan(text, 0)
        except (ValueError, StopIteration, RecursionError, TypeError):
            return []  # the chunk ends within an item, or has an error: reading item by item finds which
        if end < len(text):
            return []  # the list ends earlier
        self._at = between.end()
        self._skip()
        return items  # type: ignore[no-any-return]

    def end(self) -> None:
        """Checks that the text ends here."""
        if self._at < len(self._text):
            self._fail("expected the end of the file", self._at)

    def _separated(self, closing: str) -> Iterator[None]:
        """Yields before each member or item, for the caller to read it."""
        self._at += 1
        self._skip()
        if self._text.startswith(closing, self._at):
            self._expect(closing)
            return
        yield
        while self._text.startswith(",", self._at):
            self._expect(",")
            yield
        self._expect(closing)

    def _expect(self, sign: str) -> None:
        if not self._text.startswith(sign, self._at):
            self._fail(f"expected {sign!r}", self._at)
        self._at += 1
        self._skip()

    def _skip(self) -> None:
        self._at = _SPACE.match(self._text, self._at).end()  # type: ignore[union-attr]  # it also matches an empty string

    def _fail(self, problem: str, at: int) -> NoReturn:
        raise JsonError(problem, self._text.count("\n", 0, at) + 1) from None


def _scanner(text: str, hook: Callable[[list[tuple[str, Any]]], Any] | None) -> Scan:
    """Returns a function that reads one value and returns it with its end."""
    scan: Scan = json_values.decoder(object_pairs_hook=hook).scan_once  # type: ignore[attr-defined]
    if not _SURROGATE.search(text):
        return scan

    def scan_whole(text: str, at: int) -> tuple[Any, int]:
        value, end = scan(text, at)
        json.dumps(value, ensure_ascii=False).encode()  # fails on a lone surrogate
        return value, end

    return scan_whole
