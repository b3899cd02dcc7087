"""Parses SMT-LIB text with Z3, and maps Z3's errors to positions in the author's text."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from guardagent.errors import InputError, name_hint
from guardagent.policy.solver.sexpr import LineIndex, SExprReader
from guardagent.policy.solver.smt_error import SmtError
from guardagent.policy.solver.sorts import BOOL, INT, REAL, STRING, Enumeration, Sort

_STRANGE = re.compile(r"[^\t\n\r -~]")
_ODD_TOKEN = re.compile(r'"[^"]*+(?:""[^"]*+)*+"|;[^\n]*|\|[^|]*\|')
_PLACE = re.compile(r'\(error "line (\d+) column (\d+): (.*)"\)', re.DOTALL)
_UNKNOWN = re.compile(r"unknown (?:constant|function/constant|sort|function) '?([^\s']+)'?")


@dataclass(frozen=True, slots=True)
class Edit:
    """A replacement of a range of a text."""

    start: int
    end: int
    text: str


def solver_module() -> Any:
    """Returns Z3's Python module.

    Raises:
        InputError: Z3 is not installed.
    """
    try:
        import z3
    except ImportError:
        raise InputError("solver rules need Z3; install 'guardagent[solver]'") from None
    return z3


def new_context() -> Any:
    """Returns a Z3 context for use by one thread at a time. Any thread may release its terms."""
    z3 = solver_module()
    context = z3.Context()
    z3.Z3_enable_concurrent_dec_ref(context.ref())
    return context


def character_edits(text: str) -> list[Edit]:
    """Escapes non-ASCII characters in strings and blanks them in comments, since Z3 reads bytes up to a NUL."""
    if not _STRANGE.search(text):
        return []
    found = []
    for token in _ODD_TOKEN.finditer(text):
        if not token[0].startswith("|"):
            replace = _escaped if token[0].startswith('"') else _blank
            at = token.start()
            found += [Edit(at + one.start(), at + one.end(), replace(one[0])) for one in _STRANGE.finditer(token[0])]
    return found


def _escaped(sign: str) -> str:
    return f"\\u{{{ord(sign):x}}}" if ord(sign) <= 0x2FFFF else sign


def _blank(_: str) -> str:
    return " "


def blanked(text: str, start: int, end: int) -> Edit:
    """Replaces a range with spaces and keeps its line breaks."""
    return Edit(start, end, "".join(sign if sign == "\n" else " " for sign in text[start:end]))


class Z3Text:
    """A text in the form that Z3 gets.

    Args:
        text: the author's text.
        edits: replacements in it, which do not overlap.
    """

    def __init__(self, text: str, edits: Iterable[Edit]) -> None:
        pieces, length, position = [], 0, 0
        self._z3_offsets, self._author_offsets = [0], [0]
        for edit in sorted(edits, key=lambda one: (one.start, one.end)):
            pieces += [text[position : edit.start], edit.text]
            length += edit.start - position + len(edit.text)
            position = edit.end
            self._z3_offsets.append(length)
            self._author_offsets.append(position)
        self.text = "".join([*pieces, text[position:]])
        self._author_lines, self._z3_lines = LineIndex(text), LineIndex(self.text)
        self._end = len(text)

    def origin(self, line: int, column: int) -> tuple[int, int]:
        """Returns the author's line and column of a position in Z3's text."""
        offset = self._z3_lines.offset(line, column)
        at = bisect_right(self._z3_offsets, offset) - 1
        until = self._author_offsets[at + 1] if at + 1 < len(self._author_offsets) else self._end
        return self._author_lines.position(min(self._author_offsets[at] + offset - self._z3_offsets[at], until))

    def lines(self) -> int:
        return self.text.count("\n") + 1


def parsed(written: Z3Text, context: Any, known: Iterable[str] = (), permit: Z3Text | None = None) -> list[Any]:
    """Returns the assertions as Z3 terms; the last is the permit, if there is one.

    Raises:
        SmtError: Z3 rejects the text.
    """
    z3 = solver_module()
    text = written.text if permit is None else f"{written.text}\n(assert\n{permit.text}\n)"
    try:
        return list(z3.parse_smt2_string(text, ctx=context))
    except z3.Z3Exception as error:
        raise _located(_message(error), written, known, permit) from None


def _message(error: Exception) -> str:
    value = getattr(error, "value", None) or str(error)
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _located(message: str, written: Z3Text, known: Iterable[str], permit: Z3Text | None) -> SmtError:
    first = next(iter(message.split("\n(error ")), message).strip()
    match = _PLACE.search(first)
    if match is None:
        return SmtError(f"Z3 rejects the text: {first}")
    line, column, problem = int(match[1]), int(match[2]), _problem_text(match[3].strip(), known)
    column += line > 1  # Z3 counts the columns of the first line from 1, those of the others from 0
    own = written.lines() + 1  # the line of `(assert`, just before the permit's first line
    if permit is None or line < own:
        return SmtError(problem, *written.origin(line, column))
    return SmtError(problem, *permit.origin(line - own, column), of_permit=True)


def _problem_text(problem: str, known: Iterable[str]) -> str:
    problem = " ".join(problem.split())
    unknown = _UNKNOWN.match(problem)
    if unknown:
        return f"{problem}{name_hint(unknown[1], known)}"
    if "term is not Boolean" in problem:
        return f"{problem}; expected a term of sort Bool"
    return problem


def check_term(text: str) -> None:
    """Checks that a permit is exactly one term.

    Raises:
        SmtError: the text has no term, or more than one.
    """
    try:
        reader = SExprReader(text)
    except SmtError as error:
        raise SmtError(error.problem, error.line, error.column, of_permit=True) from None
    starts = sorted([one.start for one in reader.forms] + [one.start for one in reader.stray])
    if len(starts) != 1:
        line, column = reader.line_index.position(starts[1] if starts else 0)
        count = "more than one term" if starts else "no term"
        problem = f"the permit has {count}; expected one predicate such as '(and a b)'"
        raise SmtError(problem, line, column, of_permit=True)


def sort_of(z3_sort: Any) -> Sort:
    """Converts a Z3 sort; a sort without Python values keeps only its name."""
    z3 = solver_module()
    kind = z3_sort.kind()
    plain = {z3.Z3_BOOL_SORT: BOOL, z3.Z3_INT_SORT: INT, z3.Z3_REAL_SORT: REAL}.get(kind)
    if plain is not None:
        return plain
    if kind == z3.Z3_SEQ_SORT and z3_sort.is_string():
        return STRING
    if kind == z3.Z3_DATATYPE_SORT:
        constructors = [z3_sort.constructor(number) for number in range(z3_sort.num_constructors())]
        if all(one.arity() == 0 for one in constructors):
            return Enumeration(z3_sort.name(), tuple(one.name() for one in constructors))
    return Sort(z3_sort.sexpr())
