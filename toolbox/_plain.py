"""What the functions on texts share: plain text and its words."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
TOKEN = re.compile(rf"{WORD.pattern}|[.,;:!?]")

# Curly apostrophes and typographic hyphens are what people type for ' and -; invisible characters inside
# a word would hide it from every lexicon, so they go.
_SAME_SIGN = str.maketrans(
    dict.fromkeys("\u2018\u2019\u02bc\u2032", "'")
    | dict.fromkeys("\u2010\u2011\u2012\u2013\u2212", "-")
    | dict.fromkeys("\u00ad\u200b\u200c\u200d\u2060\ufeff\u180e\u034f", None)
)


def text_of(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{what} must be a text, not {type(value).__name__}")  # noqa: TRY004 - the contract
    return value


def plain(text: str) -> str:
    """Full-width and other look-alike characters as what they look like, invisible ones left out."""
    return text if text.isascii() else unicodedata.normalize("NFKC", text).translate(_SAME_SIGN)


def words_of(text: str) -> list[str]:
    return WORD.findall(plain(text).casefold())


@lru_cache
def word_set(words: str) -> frozenset[str]:
    return frozenset(words.split())
