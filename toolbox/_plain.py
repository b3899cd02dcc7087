"""Shared helpers for text: normalization and words."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
TOKEN = re.compile(rf"{WORD.pattern}|[.,;:!?]")

_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1b\x7f]")
# People type curly apostrophes and typographic hyphens for ' and -.
_SAME_SIGN = str.maketrans(
    dict.fromkeys("\u2018\u2019\u02bc\u2032", "'") | dict.fromkeys("\u2010\u2011\u2012\u2013\u2212", "-")
)
# Letters that are displayed as blank: like zero-width characters, they would hide a word from every lexicon.
_FILLERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0")


def text_of(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{what} must be a string, not {type(value).__name__}")  # noqa: TRY004 - the contract
    return value


def plain(text: str) -> str:
    """Normalizes full-width and other look-alike characters, and removes invisible ones."""
    if text.isascii() and not _CONTROL.search(text):
        return text
    same = unicodedata.normalize("NFKC", text).translate(_SAME_SIGN)
    return "".join(char for char in same if not _invisible(char))


@lru_cache(maxsize=4096)
def _invisible(char: str) -> bool:
    if char.isspace():
        return False
    variation = "\ufe00" <= char <= "\ufe0f" or "\U000e0100" <= char <= "\U000e01ef"
    return variation or char in _FILLERS or unicodedata.category(char) in ("Cc", "Cf")


def words_of(text: str) -> list[str]:
    return WORD.findall(plain(text).casefold())


@lru_cache
def word_set(words: str) -> frozenset[str]:
    return frozenset(words.split())
