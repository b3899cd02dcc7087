"""Splits a file into its JSON documents: lines, or the elements of an array."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TextIO

_CHUNK = 1 << 20
_SPACE = re.compile(r"[\s,]*+")
MAX_CHARACTERS = 64 << 20


def documents(file: TextIO, limit: int = MAX_CHARACTERS) -> Iterator[str]:
    """Yields the JSON values of a file: one for each line, for each element of an array, or the only one.

    At most one value is in memory. What follows a syntax error in an array is one more value, and invalid.

    Args:
        file: the text.
        limit: the most characters of a value. A longer one is cut, and so invalid.
    """
    start = next((line for line in iter(lambda: file.readline(_CHUNK), "") if line.strip("\ufeff \t\r\n")), "")
    start = start.lstrip("\ufeff \t\r\n")
    if start[:1] == "[":
        yield from _elements(start[1:], file, limit)
    elif _is_line(start):
        yield from _lines(start, file, limit)
    else:
        yield start + file.read(limit)


def _is_line(start: str) -> bool:
    """Whether the file has a value in each line: the first line is one, or is too long to tell, or invalid."""
    try:
        json.loads(start)
    except (ValueError, RecursionError):
        return start.rstrip()[-1:] not in ("{", "[", ",")
    return True


def _lines(start: str, file: TextIO, limit: int) -> Iterator[str]:
    line = start if start.endswith("\n") else start + file.readline(limit)
    while line:
        if line.strip():
            yield line
        while line and not line.endswith("\n"):  # the rest of a line that is too long
            line = file.readline(_CHUNK)
        line = file.readline(limit)


def _elements(text: str, file: TextIO, limit: int) -> Iterator[str]:
    decode, size, at = json.JSONDecoder().raw_decode, _CHUNK, 0
    while not text.startswith("]", at := _value_at(text, at)):
        try:
            end = decode(text, at)[1]
        except (ValueError, RecursionError):
            text, at = text[at:], 0
            more = file.read(size) if len(text) <= limit else ""
            if not more:
                if text:
                    yield text
                return
            text, size = text + more, 2 * size  # a long value is not scanned often
        else:
            yield text[at:end]
            at, size = end, _CHUNK


def _value_at(text: str, at: int) -> int:
    """Returns the position after white space and commas."""
    space = _SPACE.match(text, at)
    return space.end() if space else at
