"""Reads plain text: paragraphs between blank lines, list items by their bullets, headings by their form."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from guardagent.policy.documents.sentences import Block, Blocks, collapsed

_SIGNS = "-*+•‣◦▪●○·–—"  # noqa: RUF001 - bullets
_BULLET = re.compile(
    rf"(\s*)(?:[{_SIGNS}]\s+(?=\S)|(?=[(\[]?(?:\d{{1,3}}(?:\.\d{{1,3}})*|[A-Za-z]|[ivx]{{1,5}})[.)\]]+\s+\S))"
)
_UNDERLINE = re.compile(r"\s*([=\-~^])\1{2,}\s*")
_NUMBERED = re.compile(r"\s*(\d{1,3}(?:\.\d{1,3})*)\.?\s+\S")
_LONGEST_HEADING = 80
_NARROW = 60  # characters: the width of a text of short lines
_SMALL_WORDS = frozenset("a an and as at by for from in into of on or the to vs with".split())


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a document; `level` is that of a heading that the format marks, else 0."""

    text: str
    place: str
    level: int = 0


def read_plain_text(text: str) -> Blocks:
    """Reads a text."""
    lines = [Line(line, f"line {number}") for number, line in enumerate(text.split("\n"), start=1)]
    return Blocks(list(blocks_of(lines)))


def blocks_of(lines: Iterable[Line]) -> Iterator[Block]:
    """Yields the blocks of lines."""
    reader = _LineReading()
    for part in _parts(lines):
        yield from reader.read(part)


def _parts(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """Yields lines without a blank one in between; a line that the format marks as a heading stands alone."""
    part: list[Line] = []
    for line in lines:
        apart = line.level or (part and part[-1].level)
        if part and (apart or not line.text.strip()):
            yield part
            part = []
        if line.text.strip():
            part.append(line)
    if part:
        yield part


class _LineReading:
    """Holds the indentations of the list that goes on."""

    def __init__(self) -> None:
        self._indents: list[int] = []

    def read(self, part: list[Line]) -> Iterator[Block]:
        underlined = _UNDERLINE.fullmatch(part[1].text) if len(part) > 1 else None
        if underlined:
            self._indents = []
            yield _heading(part[0], 1 if underlined[1] == "=" else 2)
            part = part[2:]
        elif len(part) == 1 and (level := part[0].level or _heading_level(part[0].text)):
            self._indents = []
            yield _heading(part[0], level)
            return
        for group in _groups(part):
            yield self._block(group)

    def _block(self, lines: list[Line]) -> Block:
        bullet = _BULLET.match(lines[0].text)
        indent = len(lines[0].text) - len(lines[0].text.lstrip())
        if bullet:
            self._indents = [*(one for one in self._indents if one < indent), indent]
        else:
            self._indents = [one for one in self._indents if one < indent]
        texts = [line.text.strip() for line in lines]
        texts[0] = lines[0].text[bullet.end() :].strip() if bullet else texts[0]
        depth = len(self._indents)
        return Block(collapsed(_joined(texts)), "item" if depth else "sentence", lines[0].place, depth)


def _groups(part: list[Line]) -> Iterator[list[Line]]:
    """Yields the items and paragraphs of lines; a line without a bullet goes on with the one before."""
    group: list[Line] = []
    for line in part:
        starts_item = _BULLET.match(line.text) and not (group and _goes_on(group[-1].text, line.text))
        if group and (starts_item or _leaves_list(group[0].text, line.text)):
            yield group
            group = []
        group.append(line)
    if group:
        yield group


def _goes_on(before: str, line: str) -> bool:
    """Whether a line only seems to begin with a number: 'within' and, on the next line, '24. It'."""
    begins_with_bullet = line.lstrip()[:1] in _SIGNS
    return not begins_with_bullet and not _BULLET.match(before) and before.rstrip()[-1:] not in ".:;,!?"


def _leaves_list(item: str, line: str) -> bool:
    """Whether a line begins a new sentence to the left of the text of an item."""
    bullet = _BULLET.match(item)
    text = line.lstrip()
    return bullet is not None and len(line) - len(text) <= len(bullet[1]) and text[:1].isupper()


def _joined(texts: list[str]) -> str:
    """Joins lines: after one that is shorter than the others, the author broke the line."""
    width = max(_NARROW, *map(len, texts))
    parts = [text + ("\n" if len(text) < 0.6 * width else " ") for text in texts]
    return "".join(parts)


def _heading(line: Line, level: int) -> Block:
    return Block(collapsed(line.text), "heading", line.place, level=level)


def _heading_level(text: str) -> int:
    """The level of a line that stands alone, if it looks like a heading, else 0."""
    text = text.strip()
    words = re.findall(r"[^\W\d_][\w-]*", text)
    if len(text) > _LONGEST_HEADING or text[-1:] in ".!?:;," or not words or re.match(r"[-*+•(]", text):
        return 0
    if text.isupper():
        return 1
    if not all(word[0].isupper() or word.lower() in _SMALL_WORDS for word in words):
        return 0
    numbered = _NUMBERED.match(text)
    return 1 + len(numbered[1].split(".")) if numbered else 2
