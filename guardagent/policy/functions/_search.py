"""Searches a string with RE2, in linear time and with a bounded result."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from guardagent._support.patterns import compile_pattern
from guardagent.policy.language.values import Unknown

MAX_SEARCHED = 1_000_000  # characters
MAX_FOUND = 1_000  # matches, counting empty ones


def matches_in(text: str, regex: str) -> list[list[str | None]] | Unknown:
    """The groups of each match that is not empty, with the whole match as the first one."""
    if len(text) > MAX_SEARCHED:
        return Unknown(f"a string has more than {MAX_SEARCHED:,} characters")
    found: list[list[str | None]] = []
    try:
        for number, match in enumerate(compiled(regex).finditer(text.encode())):
            if number >= MAX_FOUND:
                return Unknown(f"a string has more than {MAX_FOUND:,} matches")
            if match[0]:
                found.append([None if group is None else group.decode() for group in (match[0], *match.groups())])
    except UnicodeError:
        return Unknown("a string cannot be searched: it is not valid Unicode")
    return found


def has_match(text: str, regex: str) -> bool | Unknown:
    """Whether a regular expression matches somewhere."""
    try:
        return compiled(regex).search(text.encode()) is not None
    except UnicodeError:
        return Unknown("a string cannot be searched: it is not valid Unicode")


def escaped(text: str) -> str:
    """The regular expression that matches exactly this string."""
    import re2

    return str(re2.escape(text))


@lru_cache(256)
def compiled(regex: str) -> Any:
    """A compiled regular expression; the latest ones are kept."""
    return compile_pattern(regex)
