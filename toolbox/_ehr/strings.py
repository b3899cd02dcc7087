"""Partially unknown strings: marks for data, and groups of repeating pieces.

A string built by a loop has a group, `OPEN piece EITHER piece CLOSE`: any number of its pieces, in
any order. `"in [" + "'1', " + "'2', "` is `in [` and a group of the one piece `'DATA', `.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator

from .values import CLOSE, DATA, EITHER, LONGEST, MARKS, MURKY, NONE, OPEN, UNKNOWN, Env, Value

GROUP = re.compile(f"{OPEN}([^{OPEN}{CLOSE}]*){CLOSE}")
GROUP_FIRST, GROUP_LAST = re.compile(f"^{GROUP.pattern}"), re.compile(f"{GROUP.pattern}$")
HARMLESS = re.compile(
    r"(?i)[\s\d,.:;/()-]*|nan|none|null|n/?a|unknown"
)  # adds nothing to data in which a name could hide
PIECES = 8  # the most pieces of a group


class Datum(str):
    """A partially unknown string. Formatting does not matter, unless it truncates the string."""

    __slots__ = ()

    def __format__(self, spec: str, /) -> str:
        if "." in spec and self != DATA:
            raise ValueError(spec)
        return str(self)


def tidy(text: str) -> str:
    return MURKY if MURKY in text or len(text) > LONGEST else re.sub(f"{DATA}+", DATA, text)


def is_marked(text: str) -> bool:
    """Tell whether a string is partially unknown."""
    return not MARKS.isdisjoint(text)


def group(pieces: Iterable[str]) -> str:
    """Return the text of any number of pieces; the pieces of groups within them count as pieces."""
    flat: set[str] = set()
    for piece in pieces:
        apart = GROUP.split(piece)
        flat.update(filter(None, [*apart[::2], *EITHER.join(apart[1::2]).split(EITHER)]))
    return MURKY if MURKY in flat or len(flat) > PIECES else OPEN + EITHER.join(sorted(flat)) + CLOSE if flat else ""


def widened(texts: set[str]) -> str:
    """Widen strings that grow at one end to a string with a group that covers all further growth."""
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
    """Return the length of the longest other string that a string starts, or ends, with."""
    return max(len(one) for one in others - {text} if ends(text, one))


def settled(old: Env, new: Env) -> Env:
    """Widen the strings that still grow in a loop."""
    return {name: value if value == old.get(name) else _wide(old.get(name, NONE), value) for name, value in new.items()}


def _wide(old: Value, new: Value) -> Value:
    grown = frozenset(atom for atom in new - old if isinstance(atom, str))
    texts = {atom for atom in new if isinstance(atom, str)} - {DATA}
    if not grown:
        return new
    wide = widened(texts) if texts else MURKY
    return (new - grown) | UNKNOWN if wide == MURKY else (new - texts) | {wide}


def spelled(text: str, length: int) -> Iterator[str]:
    """Yield the strings that a string may be, with up to `length` pieces in each group."""
    apart = GROUP.split(text)
    words = [[one] for one in apart]
    for place in range(1, len(apart), 2):
        pieces = apart[place].split(EITHER)
        words[place] = ["".join(word) for n in range(length + 1) for word in itertools.product(pieces, repeat=n)]
    return map(tidy, map("".join, itertools.product(*words)))


def pieces_of(text: str) -> list[str]:
    return [piece for inner in GROUP.findall(text) for piece in inner.split(EITHER)]


def unrolled(text: str) -> Iterator[str]:
    """Yield strings that together cover a string, and that neither begin nor end with a group."""
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
    """Slice a partially unknown string: exact if only its known ends are cut off."""
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
