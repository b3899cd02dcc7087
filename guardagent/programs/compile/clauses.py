"""The clauses (sentences) of a request, and the code marked with them: `# clause 3` or `# clauses 1, 2`.

A comment on its own line marks the lines below it, up to the next empty line, clause comment, or end of the block. A
comment after code marks the whole statement that begins there.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass

from guardagent._support import syntax
from guardagent.programs.compile.request import SENTENCE_END, blocks_of

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
    lines, found = program.split("\n"), dict[int, set[int]]()
    ends = _statement_ends(program)
    for row, column, text in _comments(program):
        match = _COMMENT.search(text)
        if match is None:
            continue
        alone = not lines[row - 1][:column].strip()
        covered = _below(lines, row) if alone else set(range(row, ends.get(row, row) + 1))
        for number in re.findall(r"\d+", match[1]):
            found.setdefault(int(number), set()).update(covered)
    return found


def _comments(program: str) -> Iterator[tuple[int, int, str]]:
    try:
        for token in tokenize.generate_tokens(io.StringIO(program).readline):
            if token.type == tokenize.COMMENT:
                yield (*token.start, token.string)
    except (tokenize.TokenError, SyntaxError):
        return


def _below(lines: list[str], row: int) -> set[int]:
    """Returns the lines of the block below a comment. Adjacent clause comments mark the same block."""
    indent, found, code = _indent(lines[row - 1]), set[int](), False
    for number in range(row + 1, len(lines) + 1):
        line = lines[number - 1]
        marks = bool(_COMMENT.search(line)) and line.lstrip().startswith("#")
        if not line.strip() or _indent(line) < indent or (marks and code and _indent(line) == indent):
            break
        if not line.lstrip().startswith("#"):
            code = True
            found.add(number)
    return found


def _statement_ends(program: str) -> dict[int, int]:
    """Returns first line -> last line of the outermost statement that begins there."""
    ends: dict[int, int] = {}
    for node in ast.walk(syntax.parse(program)):
        if isinstance(node, ast.stmt):
            ends[node.lineno] = max(ends.get(node.lineno, 0), node.end_lineno or node.lineno)
    return ends


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
