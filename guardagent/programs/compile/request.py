"""The guard request as text: the outline of its Markdown, its clauses (sentences), and the code marked with them.

The outline is paragraphs, list items and table rows, with the headings above each. Code is marked with `# clause 3` or
`# clauses 1, 2`. A comment on its own line marks the lines below it, up to the next empty line, clause comment, or end
of the block. A comment after code marks the whole statement that begins there.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass

from guardagent._support import syntax

SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[^a-z\s])")

_ITEM = re.compile(r"(\s*)(?:[-*+•]|(\(?(?:\d+(?:\.\d+)*|[a-zA-Z])\)|\d+(?:\.\d+)*\.))\s+(?=\S)")
_HEADING = re.compile(r"\s*(?:(#{1,6})\s+(.*?)[\s#]*|\*\*([^*]+)\*\*:?\s*)")
_UNDERLINE = re.compile(r"\s*(?:={3,}|-{3,})\s*")
_SKIPPED = re.compile(r"\s*(?:[=-]{3,}|```.*|#{1,6})\s*")
_RULE_OF_TABLE = re.compile(r"\s*\|?(?:\s*:?-{2,}:?\s*\|)+\s*:?-*:?\s*")
_ENDED = re.compile(r"[.!?][\"')\]*_]*$")
_BOLD = 7  # the level of a line in bold, below all headings


@dataclass(frozen=True, slots=True)
class TextBlock:
    """A text that sentences do not cross, with the headings, list numbers and lead-ins above it."""

    path: tuple[str, ...]
    text: str


@dataclass(slots=True)
class _ListItem:
    """An open list item. `lead`: its own text, if it only introduces the nested items."""

    indent: int
    number: str
    lead: str = ""


def blocks_of(text: str) -> Iterator[TextBlock]:
    """Yields the blocks of a text, in order."""
    return _OutlineReader(text.split("\n")).blocks()


class _OutlineReader:
    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._headings: list[tuple[int, str]] = []
        self._items: list[_ListItem] = []
        self._lead = ""  # the lead-in of the next list or table
        self._waiting: list[str] = []  # the lines of the open block
        self._columns: list[str] = []  # of the open table
        self._listed = False  # whether a list or table followed the last heading

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
        """Returns the heading level of a line; 0 if it is not a heading."""
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
        """Adds a line to the open paragraph or list item."""
        if match := _ITEM.match(line):
            indent = len(match[1].expandtabs())
            self._items = [item for item in self._items if item.indent < indent]
            self._items.append(_ListItem(indent, match[2] or ""))
            self._listed = True
            line = line[match.end() :]
        elif not self._waiting and self._leaves_list(line) and self._listed:
            # A line in bold is the title of the list or table below it only.
            self._headings = [(level, title) for level, title in self._headings if level < _BOLD]
            self._listed = False
        self._waiting.append(line.strip())

    def _leaves_list(self, line: str) -> bool:
        """Closes the open list at a line without indent, and returns whether no list is open."""
        if self._items and len(line) - len(line.lstrip()) <= self._items[0].indent:
            self._items = []
        return not self._items

    def _flush(self, at: int) -> Iterator[TextBlock]:
        """Yields the open block; a mere lead-in goes to the path of the following blocks instead."""
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
        """Whether a row, or an item nested in the open one, comes next."""
        line = next((line for line in self._lines[at:] if line.strip()), "")
        item = _ITEM.match(line)
        if item is not None:
            return not self._items or len(item[1].expandtabs()) > self._items[-1].indent
        return _is_row(line) and not self._items

    def _row(self, at: int) -> Iterator[TextBlock]:
        """Yields a table row, with the column names if the table has a header."""
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


def _label(item: _ListItem) -> str:
    return f"{item.number} {item.lead}".strip()


def _is_row(line: str) -> bool:
    return line.lstrip().startswith("|")


# --- clauses

_COMMENT = re.compile(r"#\s*clauses?\s+(\d+(?:\s*(?:,|and|&)\s*\d+)*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Clause:
    """One sentence of the request, prefixed in brackets with the headings and list numbers above it."""

    number: int
    text: str


def clauses_of(request: str) -> tuple[Clause, ...]:
    """Returns the sentences, list items and table rows of a request, in order."""
    texts = [
        f"[{' > '.join(block.path)}] {sentence.strip()}" if block.path else sentence.strip()
        for block in blocks_of(request)
        for sentence in SENTENCE_END.split(block.text)
        if re.search(r"\w", sentence)
    ]
    return tuple(Clause(number, text) for number, text in enumerate(texts, start=1))


def marked_lines(program: str) -> dict[int, set[int]]:
    """Returns clause number -> the lines of a program marked with it."""
    lines, marked_lines = program.split("\n"), dict[int, set[int]]()
    ends = _statement_ends(program)
    for row, column, text in _comments(program):
        match = _COMMENT.search(text)
        if match is None:
            continue
        alone = not lines[row - 1][:column].strip()
        covered = _below(lines, row) if alone else set(range(row, ends.get(row, row) + 1))
        for number in re.findall(r"\d+", match[1]):
            marked_lines.setdefault(int(number), set()).update(covered)
    return marked_lines


def _comments(program: str) -> Iterator[tuple[int, int, str]]:
    try:
        for token in tokenize.generate_tokens(io.StringIO(program).readline):
            if token.type == tokenize.COMMENT:
                yield (*token.start, token.string)
    except (tokenize.TokenError, SyntaxError):
        return


def _below(lines: list[str], row: int) -> set[int]:
    """Returns the lines of the block below a comment. Adjacent clause comments mark the same block."""
    indent, names, code = _indent(lines[row - 1]), set[int](), False
    for number in range(row + 1, len(lines) + 1):
        line = lines[number - 1]
        marks = bool(_COMMENT.search(line)) and line.lstrip().startswith("#")
        if not line.strip() or _indent(line) < indent or (marks and code and _indent(line) == indent):
            break
        if not line.lstrip().startswith("#"):
            code = True
            names.add(number)
    return names


def _statement_ends(program: str) -> dict[int, int]:
    """Returns first line -> last line of the outermost statement that begins there."""
    ends: dict[int, int] = {}
    for node in ast.walk(syntax.parse(program)):
        if isinstance(node, ast.stmt):
            ends[node.lineno] = max(ends.get(node.lineno, 0), node.end_lineno or node.lineno)
    return ends


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
