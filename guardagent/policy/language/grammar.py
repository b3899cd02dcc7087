"""Parses temporal rules by the grammar in language.lark. Syntax errors show a caret under the place."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from guardagent.errors import InputError
from guardagent.policy.language.lalr import NotParsedError, Parser, Tree
from guardagent.policy.language.mistakes import FORMS, hint

if TYPE_CHECKING:
    from lark import Lark

Node = Tree  # its children are trees, tokens, and None for an absent optional part

MAX_CHARACTERS = 20_000
SHOWN = 100  # characters before and after a mistake
_EXPECTED = {
    "NAME": "a name",
    "IDENTIFIER": "a variable",
    "QUOTED": "a string in quotes",
    "SINGLE": "",
    "NUMBER": "a number",
    "BINARY": "'U', 'W', 'R' or 'S'",
    "INT": "a whole number",
    "REGEX": "a regular expression between slashes",
    "COMPARED": "a comparison",
    "_ANY": "'.*'",
    "_IMPLIES": "'->'",
    "_OR": "'OR'",
    "_AND": "'AND'",
    "_MATCHES": "'matches'",
    "_IN": "'in'",
    "LPAR": "'('",
    "RPAR": "')'",
    "LSQB": "'['",
    "RSQB": "']'",
    "EQUAL": "'='",
    "COMMA": "','",
    "COLON": "':'",
    "VBAR": "'|'",
    "AMPERSAND": "'&'",
    "DURATION": "a duration",
    "LBRACE": "'{'",
    "RBRACE": "'}'",
    "_WITHIN_TIME": "'within'",
    "DOT": "'.'",
    "$END": "the end",
    "AT": "'@'",
    "_TRUE": "'true'",
    "_FALSE": "'false'",
}
_OPERATORS = {"PLUS", "MINUS", "TIMES", "SLASH", "PERCENT", "DOT", "LSQB", "COMPARED", "_MATCHES", "VBAR", "AMPERSAND"}


class TemporalError(InputError):
    """A syntax error in a temporal rule: the problem, and a caret under the place.

    Attributes:
        line, column: the place in the rule, from 1.
    """

    def __init__(self, problem: str, text: str, line: int, column: int) -> None:
        self.problem, self.line, self.column = problem, line, column
        shown = (text.splitlines() or [""])[line - 1]
        left = max(0, column - SHOWN)
        super().__init__(f"{problem}\n  {shown[left : column + SHOWN]}\n  {' ' * (column - 1 - left)}^")


def tree_of(text: str, start: str = "start") -> Node:
    """Parses a rule, or another start symbol of the grammar. Callers share the tree, and do not change it.

    Raises:
        TemporalError: the text does not parse; with the place and the expected tokens.
    """
    if len(text) > MAX_CHARACTERS:
        problem = f"the rule has {len(text):,} characters; expected at most {MAX_CHARACTERS:,}"
        raise TemporalError(problem, text[:80], 1, 1)
    if half := re.search("[\ud800-\udfff]", text):
        line = text.count("\n", 0, half.start()) + 1
        raise TemporalError("half of a surrogate pair; expected complete characters", "", line, 1)
    try:
        tree = _parsed(text, start)
    except NotParsedError:
        _explain(text, start)
    return tree


@lru_cache(64)  # a rule that is loaded is soon printed, compared, or loaded again
def _parsed(text: str, start: str) -> Node:
    tree: Node = _parser().parse(text, start)
    return tree


@cache
def _parser() -> Parser:
    return Parser()


@cache
def lark_parser() -> Lark:
    """Lark's own parser: it reports errors, and its tables drive the fast parser."""
    from lark import Lark

    grammar = Path(__file__).with_name("language.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", start=["start", "condition"], propagate_positions=True, maybe_placeholders=True)


def _explain(text: str, start: str) -> NoReturn:
    from lark.exceptions import UnexpectedInput

    try:
        lark_parser().parse(text, start=start)
    except UnexpectedInput as error:
        _raise_syntax_error(error, text)
    raise AssertionError("the tables do not match the grammar; run: python -m guardagent.policy.language.lalr_tables")


def _raise_syntax_error(error: Any, text: str) -> NoReturn:
    from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedToken

    lines = text.splitlines() or [""]
    ended = isinstance(error, UnexpectedEOF) or getattr(getattr(error, "token", None), "type", "") == "$END"
    line, column = (len(lines), len(lines[-1]) + 1) if ended else (error.line, error.column)
    wanted = error.allowed if isinstance(error, UnexpectedCharacters) else getattr(error, "expected", ())
    if isinstance(error, UnexpectedToken):
        wanted = error.accepts or error.expected
    rest = "" if ended else lines[line - 1][column - 1 :]
    found = "unexpected end" if ended else f"unexpected {rest[:20]!r}"
    propositional = not any(f"{form}(" in text for form in FORMS)
    meant = hint(lines[line - 1][: column - 1], rest, propositional=propositional)
    raise TemporalError(f"{found}; expected {_listed(wanted or ())}{meant}", text, line, column) from None


def _listed(terminals: Any) -> str:
    names = {str(name) for name in terminals}
    if "UNARY" in names:  # any start of a rule
        return "a rule, such as tool:NAME, !tool:NAME, F tool:NAME, before(...) or one in parentheses"
    if "_KNOWN" in names:  # any start of a term
        return "a condition or a value, such as x == 1, output(f), fact(NAME) or state(fn(x))"
    if "FIRST" in names:
        return "a call: a label, first(...) or last(...)"
    if names & _OPERATORS:
        names = (names - _OPERATORS) | {"an operator"}
    return " or ".join(sorted({_EXPECTED.get(name, name.lower()) for name in names} - {""})) or "nothing more"


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "'": "'", "/": "/"}


def unquoted(token: Any, text: str) -> str:
    """The string value of a quoted token.

    Raises:
        TemporalError: the token contains an unknown escape.
    """

    def plain(match: re.Match[str]) -> str:
        if match[1] in _ESCAPES:
            return _ESCAPES[match[1]]
        if len(match[1]) > 1 and not 0xD800 <= int(match[1][1:], 16) <= 0xDFFF:
            return chr(int(match[1][1:], 16))
        problem = f"unknown escape '{match[0]}' in a string; for a backslash, write two"
        raise TemporalError(problem, text, token.line, token.column)

    return re.sub(r"\\(u[0-9a-fA-F]{4}|.)", plain, token[1:-1])
