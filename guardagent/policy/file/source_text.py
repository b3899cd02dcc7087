"""A text in a YAML file that knows where each of its signs stands there, however it is quoted or folded."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from guardagent.errors import ContentError

# A sign in double quotes, or what is written for one; the second group makes a space of some kind.
_CHARACTER = re.compile(r"\\(?:x(\w{2})|u(\w{4})|U(\w{8}))|(\\[\stnvfrNLP_])|\\?.", re.DOTALL)
_BREAKS = "\n\r\x85\u2028\u2029"  # what YAML takes for the end of a line


@dataclass(frozen=True, slots=True)
class SourceText:
    """A text of a file.

    Attributes:
        path: the file, or the keys that lead to it in a mapping.
        line: the file's line in which it begins; 0 in a mapping.
        source: how it stands there, with its quotes or its `|`.
        hint: what YAML may have made of it that its author did not mean.
    """

    text: str
    path: Path
    line: int
    source: str = ""
    hint: str = ""

    def line_of(self, line: int, column: int = 1) -> int:
        """The file's line of a place in the text, whose lines and columns count from 1; in a mapping, its own line."""
        if not self.line:
            return line if "\n" in self.text else 0
        lines = self.text.split("\n")
        until = "".join(lines[: line - 1]) + "".join(lines[line - 1 : line])[: max(column, 1)]
        return self.line + self._line_of_visible(len(_visible(until)))

    def error(self, problem: str, line: int = 1, column: int = 1) -> ContentError:
        """An error at a place in the text; further lines of the message may show it."""
        first, *shown = problem.split("\n")
        hint = f"; {self.hint}" if self.hint else ""
        return ContentError("\n".join([first + hint, *shown]), self.path, self.line_of(line, column))

    def _line_of_visible(self, number: int) -> int:
        """YAML adds and drops spaces and line breaks, nothing else: the n-th visible sign is the n-th in the file."""
        lines = _lines_of_visible(self.source) if any(sign in self.source for sign in _BREAKS) else []
        if not lines or len(lines) != len(_visible(self.text)):
            return 0
        return lines[min(max(number, 1), len(lines)) - 1]


def _visible(text: str) -> str:
    return "".join(text.split())


def _lines_of_visible(source: str) -> list[int]:
    """The line, counted from 0, of each visible sign of a scalar."""
    lines, line = [], 0
    for shown, written in _characters(source.replace("\r\n", "\n")):
        if shown:
            lines.append(line)
        line += sum(written.count(sign) for sign in _BREAKS)
    return lines


def _characters(source: str) -> list[tuple[bool, str]]:
    """(whether it is visible, as it is written) of each sign of a scalar."""
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
