"""Splits running text into sentences. In doubt it does not split: a long sentence loses nothing, half of one does.

A text is one paragraph with single spaces, and a line feed where its author broke the line.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

_STOP = re.compile(r"""(?:(?<![.!?…؟।])[.!?…؟।]++[)\]}"'”’»*_]*(?:\[\d+\])*(?=\s|$))|[。！？]+[」』”）]*|\n\s*+""")  # noqa: RUF001 - typographic
"""The end of a sentence, perhaps; a line feed stands for a line break that the author wrote."""

_NEXT = re.compile(r"""\s*[("'“‘«\[{*_¿¡]*([\w$€£¥#§])""")  # noqa: RUF001 - typographic
_LAST_WORD = re.compile(r"[\w.&-]*$")
MARKER = re.compile(r"\s*[(\[]?(?:\d{1,3}(?:\.\d{1,3})*|[A-Za-z]|[ivxIVX]{1,5})[.)\]]+\s*")
"""The marker of a list item, such as 1., (a) or iv)."""

_ALWAYS = frozenset(
    "mr mrs ms mx dr prof rev hon gen col capt lt sgt st mt e.g eg i.e ie cf vs v viz al approx ca resp incl excl "
    "hrs hr min max est dept tel ext fn".split()
)
"""Abbreviations that never end a sentence."""

_BEFORE_NUMBERS = frozenset(
    "no nos nr art arts sec secs sect fig figs p pp para paras pt ch chap vol ed eq ref cl reg app ann "
    "jan feb mar apr jun jul aug sep sept oct nov dec".split()
)
"""Abbreviations if a number follows."""

_SOMETIMES = frozenset(
    "a.m p.m am pm u.s u.k u.n e.u u.s.a d.c ph.d m.d b.a m.a inc ltd co corp llc plc gmbh bros jr sr etc "
    "jan feb mar apr jun jul aug sep sept oct nov dec mon tue tues wed thu thurs fri sat sun a.k.a".split()
)
"""Abbreviations that end a sentence only if a word follows that begins one."""

_BEGINNINGS = frozenset(
    "a after agents all also always an and any anyone as ask at before both but by cancel check customers deny do does "
    "each either every everyone except few for from he her his how however i if in instead it its many may most must "
    "my neither never no none nor not note nothing on once one only or other others otherwise our people please "
    "refunds she should since so some such that the their then there therefore these they this those thus to under "
    "unless until upon users we what when where whether which while who whoever whose why with within without you "
    "yours".split()
)
_PAIRS = (("(", ")"), ("[", "]"), ("“", "”"), ("«", "»"))
_LONGEST_ASIDE = 2000  # characters: a parenthesis that is longer protects nothing


def split(text: str) -> list[str]:
    """Returns the sentences of a paragraph, in order. Together they have all of its characters but space."""
    sentences, start = [], 0
    for end in _ends(text):
        if sentence := text[start:end].strip():
            sentences.append(sentence)
        start = end
    return sentences


def _ends(text: str) -> Iterator[int]:
    asides = _asides(text)
    starts = [start for start, _ in asides]
    begin = 0
    for stop in _STOP.finditer(text):
        at = bisect_right(starts, stop.start()) - 1
        if at >= 0 and stop.end() < asides[at][1]:
            continue
        if stop.end() < len(text) and _is_end(text, begin, stop):
            begin = stop.end()
            yield begin
    yield len(text)


def _is_end(text: str, begin: int, stop: re.Match[str]) -> bool:
    following = _NEXT.match(text, stop.end())
    if stop[0][0] in "。！？":  # noqa: RUF001 - of other scripts
        return True
    if following is None:  # symbols alone
        return False
    if stop[0][0] == "\n":
        return text[stop.start() - 1 : stop.start()] in ".!?:;…" or not (
            following[1].islower() or following[1].isdigit()
        )
    if following[1].islower() or MARKER.fullmatch(text, begin, stop.end()):
        return False
    return stop[0][0] != "." or stop[0].startswith("..") or not _is_abbreviation(text, stop, following)


def _is_abbreviation(text: str, stop: re.Match[str], following: re.Match[str]) -> bool:
    found = _LAST_WORD.search(text[max(0, stop.start() - 30) : stop.start()])
    word = found[0].strip("-_").lower() if found else ""
    if word in _ALWAYS:
        return True
    if word in _BEFORE_NUMBERS and following[1].isdigit():
        return True
    is_initial = len(word) == 1 and word.isalpha() and word != "i"
    if word not in _SOMETIMES and not is_initial:
        return False
    next_word = re.compile(r"\w*").match(text, following.start(1))
    return next_word is None or next_word[0].lower() not in _BEGINNINGS


def _asides(text: str) -> list[tuple[int, int]]:
    """The outermost parentheses and quotations, in order: sentences within them are part of the one around."""
    found = [span for pair in _PAIRS for span in _nested(text, *pair)] + _straight_quotes(text)
    merged: list[tuple[int, int]] = []
    for start, end in sorted(span for span in found if span[1] - span[0] <= _LONGEST_ASIDE):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _nested(text: str, opening: str, closing: str) -> list[tuple[int, int]]:
    opened: list[int] = []
    found = []
    for sign in re.finditer(f"[{re.escape(opening + closing)}]", text):
        if sign[0] == opening:
            opened.append(sign.start())
        elif opened:
            found.append((opened.pop(), sign.end()))
    return found


def _straight_quotes(text: str) -> list[tuple[int, int]]:
    """Quotations between straight marks; the sign for inches opens none."""
    found, opened = [], -1
    for sign in re.finditer(r'(?:(?<=[\s(\[])|^)"(?=\S)|(?<=\S)"', text):
        is_opening = sign.start() == 0 or text[sign.start() - 1] in " \t\n(["
        if is_opening:
            opened = sign.start()
        elif opened >= 0:
            found.append((opened, sign.end()))
            opened = -1
    return found
