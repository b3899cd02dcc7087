"""Runs of words: a sentence of a labelled text is found although a word was added to it.

Words of four letters and more that are not customary (`customary_words.txt`) are read four by four. Of a long text, the
runs are winnowed (Schleimer, Wilkerson and Aiken, 2003), so that one is kept of each few.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import compress
from pathlib import Path
from typing import TypeVar
from zlib import crc32

T = TypeVar("T")
SIZE = 4  # words of a run
SHORTEST = 4 * SIZE  # characters of a text with a run, at least
GAP = 3  # words that no recorded run has, and that end one
_MARK = "~ "  # begins the keys of runs and of their words
ALL, WINDOW = 300, 4  # runs that are all kept; of more, one of each window
_WORD, _ASCII_WORD = re.compile(r"[^\W\d_]{4,}"), re.compile("[a-z]{4,}")
_CUSTOMARY = frozenset(Path(__file__).with_name("customary_words.txt").read_text(encoding="utf-8").split())


def runs(text: str) -> set[str]:
    """The keys of the runs of a text that is recorded, and of their words."""
    words = _words(text)
    places = _neighbours(words, range(SIZE))
    if len(words) - SIZE >= ALL:
        number = {word: crc32(word.encode("utf-8", "replace")) for word in set(words)}
        order = list(
            map(hash, _neighbours([number[word] for word in words], range(SIZE)))
        )  # of numbers: always the same
        least = set(map(min, _neighbours(order, range(WINDOW))))
        places = compress(places, map(least.__contains__, order))
    runs = {_MARK + " ".join(run) for run in places}
    return {*runs, *(_MARK + word for word in words)} if runs else set()


def sought_runs(text: str, is_known: Callable[[str], bool]) -> Iterator[str]:
    """The keys that a lookup seeks: without a few words that no recorded run has, and with one word left out.

    Args:
        text: the text.
        is_known: whether a key of a word is recorded.
    """
    words = _words(text)
    known = {word for word in set(words) if is_known(_MARK + word)}
    if len(known) < SIZE:
        return
    kept: list[str] = []
    gap = 0
    for word in words:
        gap = 0 if word in known else gap + 1
        if not gap or gap == GAP:
            kept.append("" if gap else word)
    for left_out in range(1, SIZE + 1):
        places = [at for at in range(SIZE + 1) if at != left_out]
        yield from (_MARK + " ".join(run) for run in _neighbours(kept, places))


def _words(text: str) -> list[str]:
    pattern = _ASCII_WORD if text.isascii() else _WORD
    return [word for word in pattern.findall(text.lower()) if word not in _CUSTOMARY]


def _neighbours(items: list[T], distances: Sequence[int]) -> Iterable[tuple[T, ...]]:
    """For each place in a list, the items at these distances from it."""
    return zip(*(items[distance:] for distance in distances), strict=False)
