"""The tree of values of a policy file. Each node keeps its line, or its path of keys in a mapping.

Strings map each character to its line in the file, however they are quoted or folded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from guardagent.errors import ContentError

# A character in double quotes, or its escape; the fourth group matches escapes of white space.
_CHARACTER = re.compile(r"\\(?:x(\w{2})|u(\w{4})|U(\w{8}))|(\\[\stnvfrNLP_])|\\?.", re.DOTALL)
_BREAKS = "\n\r\x85\u2028\u2029"  # line breaks in YAML


@dataclass(frozen=True, slots=True)
class SourceText:
    """A string and its place in a policy file.

    Attributes:
        path: the file, or the path of keys in a mapping.
        line: the line of the file where the string begins; 0 in a mapping.
        source: the string as written, with its quotes or its `|`.
        hint: a likely misreading by YAML, to show with errors.
    """

    text: str
    path: Path
    line: int
    source: str = ""
    hint: str = ""

    def line_of(self, line: int, column: int = 1) -> int:
        """The line of the file for a line and column of the string, from 1; in a mapping, the line of the string."""
        if not self.line:
            return line if "\n" in self.text else 0
        lines = self.text.split("\n")
        until = "".join(lines[: line - 1]) + "".join(lines[line - 1 : line])[: max(column, 1)]
        return self.line + self._line_of_visible(len(_visible(until)))

    def error(self, problem: str, line: int = 1, column: int = 1) -> ContentError:
        """An error at a place in the string. Further lines of `problem` may show the place."""
        first, *shown = problem.split("\n")
        hint = f"; {self.hint}" if self.hint else ""
        return ContentError("\n".join([first + hint, *shown]), self.path, self.line_of(line, column))

    def _line_of_visible(self, number: int) -> int:
        """YAML only adds and drops white space: the n-th visible character of the string is the n-th in the file."""
        lines = _lines_of_visible(self.source) if any(sign in self.source for sign in _BREAKS) else []
        if not lines or len(lines) != len(_visible(self.text)):
            return 0
        return lines[min(max(number, 1), len(lines)) - 1]


def _visible(text: str) -> str:
    return "".join(text.split())


def _lines_of_visible(source: str) -> list[int]:
    """The line of each visible character of a scalar, from 0."""
    lines, line = [], 0
    for shown, written in _characters(source.replace("\r\n", "\n")):
        if shown:
            lines.append(line)
        line += sum(written.count(sign) for sign in _BREAKS)
    return lines


def _characters(source: str) -> list[tuple[bool, str]]:
    """(is visible, source) for each character of a scalar."""
    if source.startswith('"'):
        return [(_is_visible(match), match[0]) for match in _CHARACTER.finditer(source[1:-1])]
    if source.startswith("'"):
        source = source[1:-1].replace("''", "'")
    elif source.startswith(("|", ">")):
        head, end, rest = source.partition("\n")
        return [(False, head + end), *((not sign.isspace(), sign) for sign in rest)]
    return [(not sign.isspace(), sign) for sign in source]


def _is_visible(match: re.Match[str]) -> bool:
    code = match[1] or match[2] or match[3]
    if code:
        return not chr(int(code, 16)).isspace()
    return not match[4] and not match[0].isspace()


@dataclass(frozen=True, slots=True)
class SourceScalar:
    """A scalar that is not a string: a boolean, a number, a date or null."""

    value: Any
    kind: str
    source: str


@dataclass(frozen=True, slots=True)
class SourceNode:
    """A value of a policy file or mapping.

    Attributes:
        path: the file, or the path of keys in a mapping.
        line: the first line of the value; 0 in a mapping.
        key_line: the line of its key; without a key, as `line`.
        folder: the base of relative paths; None allows absolute paths only.
    """

    value: dict[str, SourceNode] | list[SourceNode] | SourceText | SourceScalar
    path: Path
    line: int
    key_line: int
    folder: Path | None

    def error(self, message: str) -> ContentError:
        """An error at the key of this value."""
        return ContentError(message, self.path, self.key_line)

    @property
    def location(self) -> str:
        """Its file and first line, or its path of keys."""
        return f"{self.path}:{self.line}" if self.line else str(self.path)

    @property
    def key_location(self) -> str:
        """Its file and the line of its key, or its path of keys."""
        return f"{self.path}:{self.key_line}" if self.key_line else str(self.path)

    @property
    def fields(self) -> dict[str, SourceNode]:
        """The entries of a mapping; empty for other values."""
        return self.value if isinstance(self.value, dict) else {}

    @property
    def items(self) -> list[SourceNode]:
        """The items of a list; empty for other values."""
        return self.value if isinstance(self.value, list) else []

    @property
    def plain(self) -> Any:
        """The value without source positions."""
        match self.value:
            case dict() as values:
                return {key: node.plain for key, node in values.items()}
            case list() as items:
                return [node.plain for node in items]
            case SourceText(text=value) | SourceScalar(value=value):
                return value

    @property
    def description(self) -> str:
        """The value in an error message: "'version' is …; expected …"."""
        match self.value:
            case dict():
                return "a mapping"
            case list():
                return "a list" if self.value else "an empty list"
            case SourceText(text=text):
                return f"the string {shortened(text)!r}" if text.strip() else "an empty string"
            case SourceScalar(source=""):
                return "empty"
            case SourceScalar(kind=kind, source=source):
                article = kind if kind == "null" else f"a {kind}"
                return f"{shortened(source)!r}, which {'YAML reads as' if self.line else 'is'} {article}"


def shortened(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


def start_of(node: SourceNode) -> SourceText:
    """An empty string at the start of a mapping, to locate its errors."""
    return SourceText("", node.path, node.key_line or node.line)
