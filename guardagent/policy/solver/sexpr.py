"""Parses SMT-LIB text into s-expressions and comments, with their positions."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

from guardagent.policy.solver.smt_error import SmtError

MAX_TEXT = 5_000_000  # characters
MAX_DEPTH = 400  # nesting of parentheses
_NO_CHARACTER = re.compile("[\ud800-\udfff\U00030000-\U0010ffff]")
_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n]+) | (?P<comment>;[^\n]*) | (?P<open>\() | (?P<close>\))
      | (?P<string>"[^"]*+(?:""[^"]*+)*+") | (?P<quoted>\|[^|\\\0]*\|) | (?P<word>[A-Za-z0-9~!@$%^&*_+=<>.?/:\#-]+)""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class SExpr:
    """An atom, a string or a list, with its start and end offsets."""

    kind: str
    start: int
    end: int


@dataclass(slots=True)
class TopLevelForm:
    """A list at the top level, and its elements."""

    start: int
    end: int = 0
    parts: list[SExpr] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment, without its semicolons."""

    start: int
    end: int
    text: str
    own_line: bool


class LineIndex:
    """Converts offsets in a text to lines and columns, both counted from 1."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def line(self, offset: int) -> int:
        return bisect_right(self._starts, offset)

    def position(self, offset: int) -> tuple[int, int]:
        line = self.line(offset)
        return line, offset - self._starts[line - 1] + 1

    def offset(self, line: int, column: int) -> int:
        return self._starts[min(max(line, 1), len(self._starts)) - 1] + max(column, 1) - 1


class SExprReader:
    """Reads a whole text.

    Attributes:
        forms: the lists at the top level.
        stray: atoms at the top level.
        comments: the comments of the text.
    """

    def __init__(self, text: str) -> None:
        if len(text) > MAX_TEXT:
            raise SmtError(f"the text has more than {MAX_TEXT:,} characters; expected at most that many")
        self.text = text
        odd = _NO_CHARACTER.search(text)
        self.line_index = LineIndex(text)
        if odd:
            problem = f"U+{ord(odd[0]):X} is not an SMT-LIB character; expected characters up to U+2FFFF"
            raise self.error(problem, odd.start())
        self.forms: list[TopLevelForm] = []
        self.stray: list[SExpr] = []
        self.comments: list[Comment] = []
        self._open: list[int] = []
        for kind, start, end in self._tokens():
            self._take(kind, start, end)
        if self._open:
            raise self.error("a parenthesis is not closed; expected ')'", self._open[-1])

    def error(self, problem: str, offset: int) -> SmtError:
        return SmtError(problem, *self.line_index.position(offset))

    def _tokens(self) -> Iterator[tuple[str, int, int]]:
        position = 0
        while position < len(self.text):
            match = _TOKEN.match(self.text, position)
            if match is None:
                raise self.error(_unreadable(self.text[position]), position)
            kind = match.lastgroup
            assert kind is not None
            if kind != "space":
                yield kind, position, match.end()
            position = match.end()

    def _take(self, kind: str, start: int, end: int) -> None:
        if kind == "comment":
            self._comment(start, end)
        elif kind == "open":
            self._open_list(start)
        elif kind == "close":
            self._close_list(start)
        elif len(self._open) == 1:
            self.forms[-1].parts.append(SExpr(kind, start, end))
        elif not self._open:
            self.stray.append(SExpr(kind, start, end))

    def _comment(self, start: int, end: int) -> None:
        before = self.text[self.text.rfind("\n", 0, start) + 1 : start]
        words = self.text[start:end].lstrip(";").strip()
        self.comments.append(Comment(start, end, words, own_line=not before.strip()))

    def _open_list(self, start: int) -> None:
        if not self._open:
            self.forms.append(TopLevelForm(start))
        self._open.append(start)
        if len(self._open) > MAX_DEPTH:
            raise self.error(f"more than {MAX_DEPTH} nested parentheses; move inner terms into definitions", start)

    def _close_list(self, start: int) -> None:
        if not self._open:
            raise self.error("')' has no matching '('", start)
        opened = self._open.pop()
        if len(self._open) == 1:
            self.forms[-1].parts.append(SExpr("list", opened, start + 1))
        elif not self._open:
            self.forms[-1].end = start + 1


def _unreadable(character: str) -> str:
    if character == '"':
        return "a string is not terminated; expected a closing double quote"
    if character == "|":
        return "a quoted symbol is not terminated, or contains a backslash or a NUL; expected a closing '|'"
    return f"unexpected character {character!r}; expected it only inside a string or a quoted symbol '|…|'"


def parts_of(text: str) -> list[SExpr]:
    """Returns the elements of a list, given its text."""
    return SExprReader(text).forms[0].parts


def symbol(text: str) -> str:
    """Returns the name of a symbol: `a b` for `|a b|`."""
    return text[1:-1] if text.startswith("|") else text
