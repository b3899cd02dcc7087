"""Strings of a YAML file that map each character to its line in the file, however they are quoted or folded."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

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
