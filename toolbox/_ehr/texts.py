"""Texts that are in part unknown: what stands for data in them, and groups of pieces that repeat.

A text that a loop puts together is a text with a group, `OPEN piece EITHER piece CLOSE`: any number of its pieces, in
any order. `"in [" + "'1', " + "'2', "` is `in [` and a group of the one piece `'DATA', `.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator

from .values import CLOSE, DATA, EITHER, LONGEST, MARKS, MURKY, NONE, OPEN, UNKNOWN, Env, Value

GROUP = re.compile(f"{OPEN}([^{OPEN}{CLOSE}]*){CLOSE}")
GROUP_FIRST, GROUP_LAST = re.compile(f"^{GROUP.pattern}"), re.compile(f"{GROUP.pattern}$")
HARMLESS = re.compile(r"(?i)[\s\d,.:;/()-]*|nan|none|null|n/?a|unknown")  # puts nothing into data that a text may hide
PIECES = 8  # as many a group may have


class Datum(str):
    """A text that is in part data: how it is formatted does not matter, unless that cuts it."""

    __slots__ = ()

    def __format__(self, spec: str, /) -> str:
        if "." in spec and self != DATA:
            raise ValueError(spec)
        return str(self)


def tidy(text: str) -> str:
    return MURKY if MURKY in text or len(text) > LONGEST else re.sub(f"{DATA}+", DATA, text)


def is_marked(text: str) -> bool:
    """Tell whether a text is in part unknown."""
    return not MARKS.isdisjoint(text)


def group(pieces: Iterable[str]) -> str:
    """Return the text of any number of pieces; the pieces of groups within them count as pieces."""
    flat: set[str] = set()
    for piece in pieces:
        apart = GROUP.split(piece)
        flat.update(filter(None, [*apart[::2], *EITHER.join(apart[1::2]).split(EITHER)]))
    return MURKY if MURKY in flat or len(flat) > PIECES else OPEN + EITHER.join(sorted(flat)) + CLOSE if flat else ""


def widened(texts: set[str]) -> str:
    """Return a text that covers these and all that go on as they do, each with something put to one end of another."""
    shortest = min(texts, key=lambda text: (len(text), text))
    first, last = GROUP_LAST.sub("", shortest), GROUP_FIRST.sub("", shortest)
    if MURKY in shortest or len(texts) > PIECES * PIECES:
        return MURKY
    if all(text.startswith(first) for text in texts):
        return tidy(first + group(text[_known(text, {first, *texts}, str.startswith) :] for text in texts - {first}))
    if all(text.endswith(last) for text in texts):
        ends = {text: len(text) - _known(text, {last, *texts}, str.endswith) for text in texts - {last}}
        return tidy(group(text[:end] for text, end in ends.items()) + last)
    return MURKY


def _known(text: str, others: set[str], ends: Callable[[str, str], bool]) -> int:
    """Return how much of a text another one is that it starts, or ends, with."""
    return max(len(one) for one in others - {text} if ends(text, one))


def settled(old: Env, new: Env) -> Env:
    """Take the texts of a loop that still grow for texts that go on growing in the same way."""
    return {name: value if value == old.get(name) else _wide(old.get(name, NONE), value) for name, value in new.items()}


def _wide(old: Value, new: Value) -> Value:
    grown = frozenset(atom for atom in new - old if isinstance(atom, str))
    texts = {atom for atom in new if isinstance(atom, str)} - {DATA}
    if not grown:
        return new
    wide = widened(texts) if texts else MURKY
    return (new - grown) | UNKNOWN if wide == MURKY else (new - texts) | {wide}


def spelled(text: str, length: int) -> Iterator[str]:
    """Yield what a text may be, with up to so many pieces in place of each group."""
    apart = GROUP.split(text)
    words = [[one] for one in apart]
    for place in range(1, len(apart), 2):
        pieces = apart[place].split(EITHER)
        words[place] = ["".join(word) for n in range(length + 1) for word in itertools.product(pieces, repeat=n)]
    return map(tidy, map("".join, itertools.product(*words)))


def pieces_of(text: str) -> list[str]:
    return [piece for inner in GROUP.findall(text) for piece in inner.split(EITHER)]


def unrolled(text: str) -> Iterator[str]:
    """Yield texts that together are the same text, and whose ends are no groups."""
    if first := GROUP_FIRST.match(text):
        rest = text[first.end() :]
        yield from unrolled(rest)
        for piece in first[1].split(EITHER):
            yield from _unrolled_last(piece + first[0] + rest)
    else:
        yield from _unrolled_last(text)


def _unrolled_last(text: str) -> Iterator[str]:
    if last := GROUP_LAST.search(text):
        yield from _unrolled_last(text[: last.start()])
        yield from (text + piece for piece in last[1].split(EITHER))
    else:
        yield text


def cut(text: str, place: slice) -> Value:
    """Slice a text that is in part unknown: exact where only its known ends are cut off."""
    out: set[str] = set()
    for one in unrolled(text):
        marks = [at for at, char in enumerate(one) if char in MARKS]
        head, tail = (marks[0], len(one) - 1 - marks[-1]) if marks else (0, 0)
        start, stop = place.start or 0, place.stop
        exact = place.step in (None, 1) and (stop is None or (stop <= head if stop >= 0 else -stop <= tail))
        if marks and not (exact and 0 <= start <= head):
            return UNKNOWN
        out.add(one[start:stop])
    return frozenset(out)
