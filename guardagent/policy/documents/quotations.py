"""Finds quoted words in a text."""

from __future__ import annotations

import re
import unicodedata

_WORD = re.compile(
    r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"  # scripts without spaces: each sign
    r"|(?:(?![\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af])[\w\u0300-\u036f])+(?:[.,]\d+)*|[%$€£<>=+/#@]"
)
_GAP = re.compile(r"…|\.{3,}|\[\s*…\s*\]")


def find_quote(text: str, quote: str) -> list[tuple[int, int]]:
    """Finds the words of a quote in a text, without regard to case, layout and punctuation.

    Returns:
        The places of the parts of the quote, which an ellipsis separates, in order. Empty if the text lacks a part.
    """
    matches = list(_WORD.finditer(text))
    line, at, found = _line(text), 0, []
    for part in filter(None, (_line(one).strip() for one in _GAP.split(quote))):
        at = line.find(f" {part} ", at)
        if at < 0:
            return []
        first = line.count(" ", 0, at)
        found.append((matches[first].start(), matches[first + part.count(" ")].end()))
        at += len(part) + 1
    return found


def word_count(text: str) -> int:
    """Returns the number of words by which quotes are compared."""
    return len(_WORD.findall(text))


def _line(text: str) -> str:
    words = (unicodedata.normalize("NFC", one).casefold() for one in _WORD.findall(text))
    return f" {' '.join(words)} "
