"""The outline of a text: its paragraphs, list items and table rows, each with the headings and numbers above it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[^a-z\s])")

_ITEM = re.compile(r"(\s*)(?:[-*+•]|(\(?(?:\d+(?:\.\d+)*|[a-zA-Z])\)|\d+(?:\.\d+)*\.))\s+(?=\S)")
_HEADING = re.compile(r"\s*(?:(#{1,6})\s+(.*?)[\s#]*|\*\*([^*]+)\*\*:?\s*)")
_UNDERLINE = re.compile(r"\s*(?:={3,}|-{3,})\s*")
_SKIPPED = re.compile(r"\s*(?:[=-]{3,}|```.*|#{1,6})\s*")
_RULE_OF_TABLE = re.compile(r"\s*\|?(?:\s*:?-{2,}:?\s*\|)+\s*:?-*:?\s*")
_ENDED = re.compile(r"[.!?][\"')\]*_]*$")
_BOLD = 7  # the level of a heading that is a line in bold: below all others


@dataclass(frozen=True, slots=True)
class TextBlock:
    """A text that no sentence goes beyond, and the headings, list numbers and introductions above it."""

    path: tuple[str, ...]
    text: str


@dataclass(slots=True)
class _Item:
    """An open list item. `lead`: its own text, where that only introduces the items below it."""

    indent: int
    number: str
    lead: str = ""


def blocks_of(text: str) -> Iterator[TextBlock]:
    """The blocks of a text, in their order."""
    return _OutlineReader(text.split("\n")).blocks()


class _OutlineReader:
    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._headings: list[tuple[int, str]] = []
        self._items: list[_Item] = []
        self._lead = ""  # what introduces the list or table that comes
        self._waiting: list[str] = []  # lines of the block that is open
        self._columns: list[str] = []  # of the table that is open
        self._listed = False  # whether a list or a table came below the last heading

    def blocks(self) -> Iterator[TextBlock]:
        for at, line in enumerate(self._lines):
            if self._begins(at):
                yield from self._flush(at)
            if not line.strip() or _SKIPPED.fullmatch(line) or _RULE_OF_TABLE.fullmatch(line):
                continue
            if _is_row(line):
                yield from self._row(at)
            elif self._level(at):
                self._open(at)
            else:
                self._take(line)
        yield from self._flush(len(self._lines))

    def _begins(self, at: int) -> bool:
        """Whether the open block ends before a line."""
        line = self._lines[at]
        return (
            not line.strip() or _is_row(line) or bool(_ITEM.match(line) or _SKIPPED.fullmatch(line) or self._level(at))
        )

    def _level(self, at: int) -> int:
        """The level of the heading that a line is; 0 where it is none."""
        line = self._lines[at]
        if match := _HEADING.fullmatch(line):
            return len(match[1]) if match[1] else _BOLD
        below = self._lines[at + 1] if at + 1 < len(self._lines) else ""
        alone = line.strip() and not self._waiting and not _is_row(line) and not _ITEM.match(line)
        return (1 if "=" in below else 2) if alone and _UNDERLINE.fullmatch(below) else 0

    def _open(self, at: int) -> None:
        level, match = self._level(at), _HEADING.fullmatch(self._lines[at])
        title = (match[2] or match[3]) if match else self._lines[at]
        self._headings = [(other, name) for other, name in self._headings if other < level]
        self._headings.append((level, title.strip().rstrip(":")))
        self._items, self._lead, self._listed = [], "", False

    def _take(self, line: str) -> None:
        """A line of a paragraph or of an item."""
        if match := _ITEM.match(line):
            indent = len(match[1].expandtabs())
            self._items = [item for item in self._items if item.indent < indent]
            self._items.append(_Item(indent, match[2] or ""))
            self._listed = True
            line = line[match.end() :]
        elif not self._waiting and self._leaves_list(line) and self._listed:
            # A line in bold is the title of the list or table below it, and not of what follows that.
            self._headings = [(level, title) for level, title in self._headings if level < _BOLD]
            self._listed = False
        self._waiting.append(line.strip())

    def _leaves_list(self, line: str) -> bool:
        """Ends the open list where a line is not indented; whether none is open now."""
        if self._items and len(line) - len(line.lstrip()) <= self._items[0].indent:
            self._items = []
        return not self._items

    def _flush(self, at: int) -> Iterator[TextBlock]:
        """The open block; where it only introduces what comes, it is said with each of that instead."""
        if not self._waiting:
            return
        sentences, self._waiting = SENTENCE_END.split(" ".join(self._waiting)), []
        path = self._path(with_lead=bool(self._items))
        if not self._items:
            self._lead = ""
        if not _ENDED.search(sentences[-1]) and self._introduces(at):
            lead = sentences.pop().rstrip(": ")
            if self._items:
                self._items[-1].lead = lead
            else:
                self._lead = lead
        if sentences:
            yield TextBlock(path, " ".join(sentences))

    def _introduces(self, at: int) -> bool:
        """Whether a row or an item comes next, below the item that is open."""
        line = next((line for line in self._lines[at:] if line.strip()), "")
        item = _ITEM.match(line)
        if item is not None:
            return not self._items or len(item[1].expandtabs()) > self._items[-1].indent
        return _is_row(line) and not self._items

    def _row(self, at: int) -> Iterator[TextBlock]:
        """A row of a table; with the names of its columns where the table has a head."""
        self._leaves_list(self._lines[at])
        self._listed = True
        cells = [cell.strip() for cell in self._lines[at].strip().strip("|").split("|")]
        if at + 1 < len(self._lines) and _RULE_OF_TABLE.fullmatch(self._lines[at + 1]):
            self._columns = cells
            return
        if not (at and (_is_row(self._lines[at - 1]) or _RULE_OF_TABLE.fullmatch(self._lines[at - 1]))):
            self._columns = []
        names = [*self._columns, *[""] * len(cells)]
        shown = [f"{name}: {cell}" if name else cell for name, cell in zip(names, cells, strict=False) if cell]
        yield TextBlock(self._path(with_lead=True), " | ".join(shown))

    def _path(self, *, with_lead: bool) -> tuple[str, ...]:
        above = [title for _, title in self._headings] + ([self._lead] if with_lead else [])
        return tuple(part for part in (*above, *(_label(item) for item in self._items)) if part)


def _label(item: _Item) -> str:
    return f"{item.number} {item.lead}".strip()


def _is_row(line: str) -> bool:
    return line.lstrip().startswith("|")
