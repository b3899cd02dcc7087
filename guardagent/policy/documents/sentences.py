"""Sentences of documents: how running text splits into them, their types and identity, quotes, and comparison.

In doubt a text is not split: a sentence that is too long is harmless; half a sentence is not. A text is one paragraph
with single spaces, and a line feed where its author broke the line.

Two versions of a document are compared, so that only changed sentences need a new translation.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

# --- splitting

RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹"
"""Digits of footnote marks and powers."""

_STOP = re.compile(
    rf"""(?:(?<![.!?…؟।])[.!?…؟।]++[)\]}}"'”’»*_{RAISED}]*(?:[,;–-][{RAISED}]+|\[\d+\])*(?=\s|$))"""  # noqa: RUF001 - typographic
    r"""|[。！？]+[」』”）]*|\n\s*+"""  # noqa: RUF001 - typographic
)
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
    match = _LAST_WORD.search(text[max(0, stop.start() - 30) : stop.start()])
    word = match[0].strip("-_").lower() if match else ""
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
    spans = [span for pair in _PAIRS for span in _nested(text, *pair)] + _straight_quotes(text)
    merged: list[tuple[int, int]] = []
    for start, end in sorted(span for span in spans if span[1] - span[0] <= _LONGEST_ASIDE):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _nested(text: str, opening: str, closing: str) -> list[tuple[int, int]]:
    opened: list[int] = []
    spans = []
    for sign in re.finditer(f"[{re.escape(opening + closing)}]", text):
        if sign[0] == opening:
            opened.append(sign.start())
        elif opened:
            spans.append((opened.pop(), sign.end()))
    return spans


def _straight_quotes(text: str) -> list[tuple[int, int]]:
    """Quotations between straight marks; the sign for inches opens none."""
    straight_quotes, opened = [], -1
    for sign in re.finditer(r'(?:(?<=[\s(\[])|^)"(?=\S)|(?<=\S)"', text):
        is_opening = sign.start() == 0 or text[sign.start() - 1] in " \t\n(["
        if is_opening:
            opened = sign.start()
        elif opened >= 0:
            straight_quotes.append((opened, sign.end()))
            opened = -1
    return straight_quotes


# --- types

Kind = Literal["heading", "sentence", "item", "header", "row", "code", "quote", "footnote"]
"""`header` is the first row of a table, `row` another one; code and quotes are not split."""

_TYPOGRAPHIC = str.maketrans("“”„‘’‚", "\"\"\"'''")  # noqa: RUF001


@dataclass(frozen=True, slots=True)
class Sentence:
    """One statement of a document.

    Attributes:
        number: its position, from 1.
        path: the headings above it, the outermost first.
        context: the text that it needs to be understood: the sentence that introduces its list (for nested lists, of
            each), the header of its table, the label of its paragraph, the sentence with its footnote mark, the
            sentence before one that refers back ('Otherwise …').
        place: a line or page of the file.
        hash: its identity: text, path and context, without the title of the document and the numbers of items.
    """

    number: int
    text: str
    kind: Kind
    path: tuple[str, ...]
    context: tuple[str, ...]
    place: str
    hash: str


@dataclass(frozen=True, slots=True)
class DocumentFinding:
    """Something that a reader of the document would not see, or that was not read.

    Attributes:
        kind: `hidden` (text that is not shown), `characters` (invisible ones), `struck` (text that is shown as
            deleted), `reference` (another document), `unread` (content that is not text), `repeated` (the same line on
            many pages), `long` (a sentence that is probably several).
        text: the text concerned, if there is any.
    """

    kind: Literal["hidden", "characters", "struck", "reference", "unread", "repeated", "long"]
    message: str
    place: str
    text: str = ""


@dataclass(frozen=True)
class PolicyDocument:
    """The sentences of a document, in order, and the findings."""

    sentences: tuple[Sentence, ...]
    findings: tuple[DocumentFinding, ...] = ()

    @cached_property
    def first_numbers(self) -> Mapping[str, int]:
        """The number of the first sentence with each hash."""
        return {sentence.hash: sentence.number for sentence in reversed(self.sentences)}


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a document with one layout: a paragraph, a list item, a row.

    Attributes:
        text: with single spaces, and a line feed where the author broke the line; code as it stands.
        depth: the nesting of lists around it; code, quotes and rows are one deeper than the text around them.
        level: of a heading, from 1.
        context: the header of a row, or the mark of a footnote.
    """

    text: str
    kind: Kind
    place: str
    depth: int = 0
    level: int = 0
    context: tuple[str, ...] = ()


@dataclass(slots=True)
class Blocks:
    """The result of a format's reader."""

    blocks: list[Block] = field(default_factory=list)
    findings: list[DocumentFinding] = field(default_factory=list)


def identity(text: str, kind: Kind, path: tuple[str, ...], context: tuple[str, ...]) -> str:
    """Returns the hash of a sentence."""
    own = without_marker(text) if kind in ("heading", "item") else text
    parts = [
        normalized(own),
        [normalized(without_marker(context_part)) for context_part in path],
        [normalized(context_part) for context_part in context],
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def normalized(text: str) -> str:
    """Returns a text without differences of layout: space, composed characters, typographic quotation marks."""
    return " ".join(unicodedata.normalize("NFC", text).translate(_TYPOGRAPHIC).split())


def without_marker(text: str) -> str:
    """Returns the text of an item or heading without its number or letter."""
    marker = MARKER.match(text)
    return text[marker.end() :] if marker and marker[0][-1:].isspace() else text


def collapsed(text: str) -> str:
    """Returns a text with single spaces and line feeds."""
    return re.sub(r"[^\S\n]*\n\s*", "\n", re.sub(r"[^\S\n]+", " ", text)).strip()


# --- quotes

_WORD = re.compile(
    r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"  # scripts without spaces: each sign
    rf"|(?:(?![\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af{RAISED}])[\w\u0300-\u036f])+(?:[.,]\d+)*"
    r"|[%$€£<>=+/#@]"
)
_GAP = re.compile(r"…|\.{3,}|\[\s*…\s*\]")


def find_quote(text: str, quote: str) -> list[tuple[int, int]]:
    """Finds the words of a quote in a text, without regard to case, layout and punctuation.

    Returns:
        The places of the parts of the quote, which an ellipsis separates, in order. Empty if the text lacks a part.
        Each line is a quote of its own.
    """
    per_line = [_places(text, line) for line in quote.splitlines()]
    return sorted(place for places in per_line for place in places) if all(per_line) else []


def _places(text: str, quote: str) -> list[tuple[int, int]]:
    matches = list(_WORD.finditer(text))
    line, at, places = _line(text), 0, []
    for part in filter(None, (_line(part).strip() for part in _GAP.split(quote))):
        at = line.find(f" {part} ", at)
        if at < 0:
            return []
        first = line.count(" ", 0, at)
        places.append((matches[first].start(), matches[first + part.count(" ")].end()))
        at += len(part) + 1
    return places


def word_count(text: str) -> int:
    """Returns the number of words by which quotes are compared."""
    return len(_WORD.findall(text))


def _line(text: str) -> str:
    words = (unicodedata.normalize("NFC", match).casefold() for match in _WORD.findall(text))
    return f" {' '.join(words)} "


# --- comparison

_CELLS = 4_000_000  # pairs of sentences scored at a time


@dataclass(frozen=True, slots=True)
class SentenceChange:
    """A sentence whose text or context changed. `similarity` is that of the texts, from 0 to 1."""

    old: Sentence
    new: Sentence
    similarity: float


@dataclass(frozen=True, slots=True)
class DocumentComparison:
    """Each sentence of both versions, once. A sentence that only moved is unchanged."""

    unchanged: tuple[tuple[Sentence, Sentence], ...]
    changed: tuple[SentenceChange, ...]
    added: tuple[Sentence, ...]
    removed: tuple[Sentence, ...]


def compare(old: Sequence[Sentence], new: Sequence[Sentence], similarity: float = 0.6) -> DocumentComparison:
    """Compares two versions.

    Args:
        old: the sentences of the earlier version.
        new: those of the later one.
        similarity: sentences of less similar texts are not the same sentence.
    """
    unchanged, left, there = _same(old, new, lambda sentence: sentence.hash)
    texts, left, there = _same(left, there, lambda sentence: f"{sentence.kind} {normalized(sentence.text)}")
    changed = [SentenceChange(before, after, 1.0) for before, after in texts]
    changed += _similar(left, there, similarity)
    gone = {change.old.number for change in changed}
    come = {change.new.number for change in changed}
    return DocumentComparison(
        tuple(unchanged),
        tuple(sorted(changed, key=lambda change: change.new.number)),
        tuple(sentence for sentence in there if sentence.number not in come),
        tuple(sentence for sentence in left if sentence.number not in gone),
    )


_Pairs = list[tuple[Sentence, Sentence]]


def _same(
    old: Sequence[Sentence], new: Sequence[Sentence], key: Callable[[Sentence], str]
) -> tuple[_Pairs, list[Sentence], list[Sentence]]:
    """Returns the pairs with the same key, in order, and the other sentences of both versions."""
    waiting: defaultdict[str, deque[Sentence]] = defaultdict(deque)
    for sentence in old:
        waiting[key(sentence)].append(sentence)
    pairs, added = [], []
    for sentence in new:
        if same := waiting[key(sentence)]:
            pairs.append((same.popleft(), sentence))
        else:
            added.append(sentence)
    paired = {pair.number for pair, _ in pairs}
    return pairs, [old_sentence for old_sentence in old if old_sentence.number not in paired], added


def _similar(old: Sequence[Sentence], new: Sequence[Sentence], least: float) -> list[SentenceChange]:
    """Pairs the most similar sentences first."""
    scored = sorted(_scores(old, new, least), key=lambda score: (-score[0], score[1], score[2]))
    gone: set[int] = set()
    come: set[int] = set()
    sentence_changes = []
    for score, before, after in scored:
        if before not in gone and after not in come:
            gone.add(before)
            come.add(after)
            sentence_changes.append(SentenceChange(old[before], new[after], round(score, 3)))
    return sentence_changes


def _scores(old: Sequence[Sentence], new: Sequence[Sentence], least: float) -> Iterator[tuple[float, int, int]]:
    """Yields (similarity, place in old, place in new) of sentences that are similar enough."""
    if not old or not new:
        return
    import numpy as np
    from rapidfuzz import fuzz
    from rapidfuzz.process import cdist

    texts = [normalized(sentence.text) for sentence in new]
    step = max(1, _CELLS // len(texts))
    for start in range(0, len(old), step):
        rows = [normalized(sentence.text) for sentence in old[start : start + step]]
        scores = cdist(rows, texts, scorer=fuzz.ratio, score_cutoff=max(least * 100, 1e-9), dtype=np.float32)
        for before, after in np.argwhere(scores > 0):
            yield float(scores[before, after]) / 100, start + int(before), int(after)
