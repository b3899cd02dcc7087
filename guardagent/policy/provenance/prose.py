"""Runs of words: a sentence of a labelled text is found although a word was added to it.

Words of four letters and more that are not customary (`customary_words.txt`) are read four by four. Of a long text, the
runs are winnowed (Schleimer, Wilkerson and Aiken, 2003), so that one is kept of each few.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from zlib import crc32

SIZE = 4  # words of a run
SHORTEST = 4 * SIZE  # characters of a text with a run, at least
GAP = 3  # words that no recorded run has, and that end one
_MARK = "~ "  # begins the keys of runs and of their words
ALL, WINDOW = 300, 4  # runs that are all kept; of more, one of each window
_WORD = re.compile(r"[^\W\d_]{4,}")
_CUSTOMARY = frozenset(Path(__file__).with_name("customary_words.txt").read_text(encoding="utf-8").split())


def runs(text: str) -> set[str]:
    """The keys of the runs of a text that is recorded, and of their words."""
    words = _words(text)
    runs = _joined(words, range(SIZE))
    if len(runs) > ALL:
        numbers = [crc32(run.encode("utf-8", "replace")) for run in runs]
        places = {min(range(at, at + WINDOW), key=numbers.__getitem__) for at in range(len(numbers) - WINDOW + 1)}
        runs = [runs[at] for at in places]
        words = " ".join(runs).split()
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
    yield from _joined(kept, range(SIZE))
    for left_out in range(1, SIZE):
        yield from _joined(kept, [at for at in range(SIZE + 1) if at != left_out])


def _words(text: str) -> list[str]:
    return [word for word in _WORD.findall(text.lower()) if word not in _CUSTOMARY]


def _joined(words: list[str], places: range | list[int]) -> list[str]:
    return [_MARK + " ".join(run) for run in zip(*(words[at:] for at in places), strict=False)]
