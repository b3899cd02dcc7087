"""Reads an SMT-LIB script: its declarations, assertions and comments.

The text is first parsed into s-expressions and comments, with their positions.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from guardagent.errors import InputError, name_hint

__all__ = ["Assertion", "ConstantDeclaration", "Script", "SmtError"]


class SmtError(InputError):
    """SMT-LIB text is invalid.

    Attributes:
        problem: the problem, what was expected and what to do.
        line: its line, counted from 1; a line of the permit's text if `of_permit`.
        column: its column in that line, counted from 1.
    """

    def __init__(self, problem: str, line: int = 1, column: int = 1, *, of_permit: bool = False) -> None:
        super().__init__(f"{'permit: ' * of_permit}line {line}, column {column}: {problem}")
        self.problem, self.line, self.column, self.of_permit = problem, line, column, of_permit


class UnsupportedError(Exception):
    """Only the solver can evaluate a term."""


# --- s-expressions

MAX_TEXT = 5_000_000  # characters
MAX_DEPTH = 400  # nesting of parentheses
_NO_CHARACTER = re.compile("[\ud800-\udfff\U00030000-\U0010ffff]")
_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n]+) | (?P<comment>;[^\n]*) | (?P<open>\() | (?P<close>\))
      | (?P<string>"[^"]*+(?:""[^"]*+)*+") | (?P<quoted>\|[^|\\\0]*\|) | (?P<word>[A-Za-z0-9~!@$%^&*_+=<>.?/:\#-]+)""",
    re.VERBOSE,
)
_FLOATS = re.compile(r"Float(?:16|32|64|128)|FloatingPoint|RoundingMode|fp(?:\..*)?|to_fp(?:_.*)?")
_PARTIAL = re.compile(
    r"/|div|mod|rem|\^|select|seq\.nth|bv[us](?:div|rem|mod)|str\.(?:at|substr|indexof|to_int|from_int|to_code|from_code)"
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
            if kind in ("word", "quoted") and _FLOATS.fullmatch(symbol(match[0])):
                problem = f"{match[0]!r} is floating-point arithmetic, which rounds; expected numbers of sort 'Real'"
                raise self.error(problem, position)
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


# --- scripts

_ARITIES = {  # the allowed numbers of arguments of each command
    "assert": (1,),
    "declare-const": (2,),
    "declare-datatype": (2,),
    "declare-datatypes": (2,),
    "declare-fun": (3,),
    "declare-sort": (1, 2),
    "define-const": (3,),
    "define-fun": (4,),
    "define-fun-rec": (4,),
    "define-funs-rec": (2,),
    "define-sort": (3,),
    "set-info": (1, 2),
    "set-logic": (1,),
    "set-option": (2,),
}
_SOLVER_COMMAND = "the guard runs the solver itself for each call; remove the command"
_REFUSED = {
    **dict.fromkeys(("check-sat", "check-sat-assuming", "exit"), _SOLVER_COMMAND),
    **dict.fromkeys(("push", "pop", "reset", "reset-assertions"), "every assertion always holds; remove the command"),
    **dict.fromkeys(("echo", "eval", "simplify", "display", "apply"), "its output is not shown; remove the command"),
    "include": "a policy is one text; insert the content of that file here",
}
_LOGICS = frozenset(
    "ALL HORN QF_AX QF_DT QF_S QF_SLIA QF_UF UF AUFLIA AUFLIRA AUFNIRA LIA LRA NIA NRA LIRA NIRA QF_ALIA QF_AUFLIA "
    "QF_IDL QF_LIA QF_LRA QF_LIRA QF_NIA QF_NRA QF_NIRA QF_RDL QF_UFIDL QF_UFLIA QF_UFLRA QF_UFNIA QF_UFNRA QF_UFDT "
    "QF_BV QF_ABV QF_AUFBV QF_UFBV BV UFBV UFDT UFLIA UFLRA UFNIA UFIDL".split()
)
_ATTRIBUTED = re.compile(r"\(\s*!\s")
_OPTIONS = (":produce-", ":random-seed", ":print-success", ":verbosity", ":global-declarations", ":smt.", ":auto")


@dataclass(frozen=True, slots=True)
class Assertion:
    """One assertion.

    Attributes:
        name: its name from `(! … :named n)`.
        text: the text of its term.
        line: its first line.
        comment: the comment directly before it or at its end, which explanations show.
    """

    name: str | None
    text: str
    line: int
    comment: str | None


@dataclass(frozen=True, slots=True)
class ConstantDeclaration:
    """A declaration: its name, the name as written, and the offset of the command."""

    name: str
    written: str
    start: int


class Script:
    """A parsed script.

    Attributes:
        constants: the declared constants, by name.
        enumerations: datatypes whose constructors have no arguments, with these constructors.
        sorts: the end offset of the command that defines a sort, by the sort's name.
        ignored: commands that are not passed to the solver.
        logic_end: the end offset of the last `set-logic`.
        recursive: whether it defines a recursive function.
        sort_declarations: the commands that define sorts.
        meanings: what one Z3 context has a single definition of, by name: the values or the text of sorts, and under
            "" all recursive functions; None for a definition that no other text shares.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.reader = SExprReader(text)
        self.assertions: list[Assertion] = []
        self.constants: dict[str, ConstantDeclaration] = {}
        self.enumerations: dict[str, tuple[str, ...]] = {}
        self.sorts: dict[str, int] = {}
        self.sort_declarations: list[str] = []
        self.meanings: dict[str, Hashable] = {}
        self.symbols: set[str] = set()
        self.comments: dict[str, str] = {}
        self.ignored: list[TopLevelForm] = []
        self.logic_end = 0
        self.recursive = False
        self._comments = _Comments(self.reader)
        for part in self.reader.stray:
            raise self.reader.error(f"{_short(self._text(part))!r} is outside a command; expected '('", part.start)
        for form in self.reader.forms:
            self._command(form)

    def _text(self, part: SExpr | TopLevelForm) -> str:
        return self.text[part.start : part.end]

    def _command(self, form: TopLevelForm) -> None:
        head = self._text(form.parts[0]) if form.parts else ""
        self._check(form, head)
        parts = form.parts[1:]
        if head.endswith("-rec"):
            self.recursive, self.meanings[""] = True, None
        for token in _TOKEN.finditer(self.text, form.start, form.end) if head.endswith("-rec") else ():
            if _PARTIAL.fullmatch(symbol(token[0])):  # where the recursion applies it is not known
                problem = f"{token[0]!r} is not defined everywhere; expected it outside of recursive functions"
                raise self.reader.error(problem, token.start())
        if head == "assert":
            self._assert(form, parts[0])
        elif head in ("set-info", "set-option", "set-logic"):
            self._setting(form, head, parts)
        elif head.startswith("declare-datatype"):
            self._datatypes(form, head, parts)
        elif head in ("declare-sort", "define-sort"):
            self._add_sort(self._symbol(parts[0]), form, self._text(form) if head == "define-sort" else None)
        elif head != "define-funs-rec":
            self._declare(form, head, parts)

        if head.startswith("declare-datatype") or head.endswith("-sort"):
            self.sort_declarations.append(self._text(form))

    def _check(self, form: TopLevelForm, head: str) -> None:
        if head in _REFUSED or head.startswith("get-"):
            problem = f"command '{head}' is not allowed in a policy: {_REFUSED.get(head, _SOLVER_COMMAND)}"
            raise self.reader.error(problem, form.start)
        if head not in _ARITIES:
            raise self.reader.error(f"unknown command {_short(head)!r}{name_hint(head[:80], _ARITIES)}", form.start)
        count, wanted = len(form.parts) - 1, _ARITIES[head]
        if count not in wanted:
            problem = f"'{head}' has {count} arguments; expected {' or '.join(map(str, wanted))}"
            raise self.reader.error(problem, form.start)

    def _symbol(self, part: SExpr) -> str:
        written = self._text(part)
        if part.kind not in ("word", "quoted") or written[0].isdigit() or written[0] in "#:":
            raise self.reader.error(f"{_short(written)!r} is not a name; expected a symbol", part.start)
        return symbol(written)

    def _assert(self, form: TopLevelForm, term: SExpr) -> None:
        text = self._text(term)
        comment = self._comments.of(form)
        self.assertions.append(Assertion(_name_of(text), text, self.reader.line_index.line(form.start), comment))

    def _setting(self, form: TopLevelForm, head: str, parts: list[SExpr]) -> None:
        value = self._text(parts[0])
        if head == "set-logic":
            if value not in _LOGICS:
                raise self.reader.error(f"unknown logic {_short(value)!r}{name_hint(value[:80], _LOGICS)}", form.start)
            self.logic_end = form.end
            return
        if head == "set-option" and not value.startswith(_OPTIONS):
            raise self.reader.error(f"option {_short(value)!r} is not allowed in a policy; remove it", form.start)
        self.ignored.append(form)

    def _declare(self, form: TopLevelForm, head: str, parts: list[SExpr]) -> None:
        name = self._symbol(parts[0])
        if name in self.symbols:
            raise self.reader.error(f"{_short(name)!r} is declared twice; expected one declaration", form.start)
        self.symbols.add(name)
        comment = self._comments.of(form)
        if comment:
            self.comments[name] = comment
        if head == "declare-const" or (head == "declare-fun" and not self._items(parts[1])):
            self.constants[name] = ConstantDeclaration(name, self._text(parts[0]), form.start)

    def _items(self, part: SExpr) -> list[str]:
        """Returns the texts of a list's elements."""
        if part.kind != "list":
            raise self.reader.error(f"{_short(self._text(part))!r} is not a list; expected '('", part.start)
        text = self._text(part)
        return [text[part.start : part.end] for part in parts_of(text)]

    def _add_sort(self, name: str, form: TopLevelForm, meaning: Hashable) -> None:
        self.sorts[name], self.meanings[name] = form.end, meaning

    def _datatypes(self, form: TopLevelForm, head: str, parts: list[SExpr]) -> None:
        for name, constructors in self._declared_types(head, parts):
            self._add_sort(name, form, self._text(form))
            datatypes = [_constructor(constructor) for constructor in constructors]
            self.symbols.update(datatype for datatype in datatypes if datatype)
            if datatypes and all(datatypes):
                self.enumerations[name] = self.meanings[name] = tuple(filter(None, datatypes))

    def _declared_types(self, head: str, parts: list[SExpr]) -> Iterator[tuple[str, list[str]]]:
        if head == "declare-datatype":
            yield self._symbol(parts[0]), self._items(parts[1])
            return
        names, bodies = self._items(parts[0]), self._items(parts[1])
        for number, body in enumerate(bodies):
            if not body.startswith("("):
                raise self.reader.error(f"{_short(body)!r} is not a list; expected '('", parts[1].start)
            inner = [body[part.start : part.end] for part in parts_of(body)]
            if names:
                if number < len(names):
                    yield symbol(_first(names[number])), inner
            elif inner:  # the syntax before SMT-LIB 2.6: each body begins with the name
                yield symbol(inner[0]), inner[1:]


def _first(text: str) -> str:
    """Returns the first element of a list, or the atom itself."""
    if not text.startswith("("):
        return text
    parts = parts_of(text)
    return text[parts[0].start : parts[0].end] if parts else ""


def _constructor(text: str) -> str | None:
    """Returns the name of a constructor without arguments, else None."""
    if not text.startswith("("):
        return symbol(text)
    parts = parts_of(text)
    return symbol(text[parts[0].start : parts[0].end]) if len(parts) == 1 else None


def _name_of(term: str) -> str | None:
    """Returns the name of a term from `(! … :named n)`."""
    if not _ATTRIBUTED.match(term):
        return None
    words = [term[part.start : part.end] for part in parts_of(term)]
    return next((symbol(name) for key, name in pairwise(words) if key == ":named"), None)


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:60]}…"


class _Comments:
    """Finds the comment of a command."""

    def __init__(self, reader: SExprReader) -> None:
        self._line = reader.line_index.line
        self._own = {self._line(comment.start): comment.text for comment in reader.comments if comment.own_line}
        self._beside = {self._line(comment.start): comment.text for comment in reader.comments if not comment.own_line}

    def of(self, form: TopLevelForm) -> str | None:
        """Returns the comment lines before it, else the comment at the end of its last line, else of its first."""
        first, last = self._line(form.start), self._line(form.end - 1)
        lines: list[str] = []
        line = first - 1
        while line in self._own:
            lines.insert(0, self._own[line])
            line -= 1
        before = " ".join(line for line in lines if line)
        return before or self._beside.get(last) or self._beside.get(first) or None
