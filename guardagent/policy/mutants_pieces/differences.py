"""The changed words of two sentences."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile

_WORD = re.compile(r"`+[^`]*`+[,.;]?|\"(?:[^\"\\]|\\.)*\"[,.;]?|[^\s`\"]+")
_AROUND = 3  # unchanged words that are shown on both sides


def difference(before: str, after: str) -> str:
    """The changed part of a sentence, with some words around it: `«is at most 5.» becomes «is at most 6.»`."""
    old, new = list(_WORD.finditer(before)), list(_WORD.finditer(after))
    same = _common(old, new)
    rest = min(_common(old[::-1], new[::-1]), min(len(old), len(new)) - same)
    return f"«{_shown(before, old, same, rest)}» becomes «{_shown(after, new, same, rest)}»"


def _common(one: Sequence[re.Match[str]], other: Sequence[re.Match[str]]) -> int:
    return sum(1 for _ in takewhile(lambda both: both[0][0] == both[1][0], zip(one, other, strict=False)))


def _shown(text: str, words: Sequence[re.Match[str]], same: int, rest: int) -> str:
    start, end = max(0, same - _AROUND), len(words) - max(0, rest - _AROUND)
    found = text[words[start].start() : words[end - 1].end()] if start < end else ""
    return f"{'… ' if start else ''}{found}{' …' if end < len(words) else ''}"
