"""Parses temporal rules by the grammar in `language.lark`. Syntax errors show a caret and the likely correction.

The tables of the LALR parser, in `language.json`, are generated from Lark's: building them takes Lark longer than the
rest of a check. The parser gives the same trees as Lark's; text that it rejects goes to Lark for the error message.

A common mistake is a regular expression over the line, in which ⟨ marks the place of the error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from guardagent.errors import InputError, name_hint

if TYPE_CHECKING:
    from lark import Lark


# --- the parser

_TABLES = Path(__file__).with_name("language.json")


class Token(str):
    """A token with its type, and its place in a text."""

    __slots__ = ("at", "text", "type")
    type: str
    text: str
    at: int

    @classmethod
    def of(cls, kind: str, value: str, text: str, at: int) -> Token:
        token = cls(value)
        token.type, token.text, token.at = kind, text, at
        return token

    @property
    def line(self) -> int:
        return self.text.count("\n", 0, self.at) + 1

    @property
    def column(self) -> int:
        return self.at - self.text.rfind("\n", 0, self.at)

    @property
    def outer(self) -> Token:
        return self


@dataclass(slots=True)
class Tree:
    """A node of the parse tree.

    Attributes:
        first: the first token of the node.
        outer: the first token of the surrounding text that was reduced to this node, such as its parenthesis.
    """

    data: str
    children: list[Any]
    first: Token | None = field(default=None, repr=False, compare=False)
    outer: Token | None = field(default=None, repr=False, compare=False)

    @property
    def line(self) -> int:
        return 1 if self.first is None else self.first.line

    @property
    def column(self) -> int:
        return 1 if self.first is None else self.first.column

    def find_pred(self, holds: Callable[[Tree], bool]) -> Iterator[Tree]:
        """Yields this tree and its descendants that satisfy a predicate."""
        if holds(self):
            yield self
        for child in self.children:
            if isinstance(child, Tree):
                yield from child.find_pred(holds)


class NotParsedError(Exception):
    """The text is not in the language."""


class Parser:
    """Parses text of one language from its tables."""

    def __init__(self, path: Path = _TABLES) -> None:
        tables = json.loads(path.read_text(encoding="utf-8"))
        self._states, self._lexers, self._rules = tables["states"], tables["lexers"], tables["rules"]
        self._starts, self._ignored = tables["starts"], frozenset(tables["ignored"])
        self._terminals: dict[str, list[str]] = tables["terminals"]
        self._candidates: dict[tuple[int, str], list[tuple[str, str, Any]]] = {}
        self._matcher = cache(lambda pattern: re.compile(pattern).match)

    def parse(self, text: str, start: str) -> Any:
        """Parses a text from a start symbol.

        Raises:
            NotParsedError: the text is not in the language.
        """
        first, last = self._starts[start]
        states, at, table, rules = [first], 0, self._states, self._rules
        values: list[Any] = []
        while True:
            lexer, actions = table[states[-1]]
            token, at = self._next(text, at, lexer)
            while (action := actions.get(token.type)) is not None and action < 0:
                origin, size, data, kept, single = rules[-action - 1]
                if kept is None:  # the node is that of its only part
                    states[-1] = table[states[-2]][1][origin]
                else:
                    parts = values[len(values) - size :]
                    del states[len(states) - size :], values[len(values) - size :]
                    states.append(table[states[-1]][1][origin])
                    values.append(_reduce(parts, data, kept, single))
                if token.type == "$END" and states[-1] == last:
                    return values[-1]
                actions = table[states[-1]][1]
            if action is None:
                raise NotParsedError
            states.append(action)
            values.append(token)

    def _next(self, text: str, at: int, lexer: int) -> tuple[Token, int]:
        while at < len(text):
            signs = text[at : at + 2]
            for kind, literal, matches in self._candidates.get((lexer, signs)) or self._beginning(lexer, signs):
                if literal or (match := matches(text, at)):
                    terminal, value = kind, literal or match[0]
                    break
            else:
                raise NotParsedError
            if terminal not in self._ignored:
                terminal = self._lexers[lexer][1].get(terminal, {}).get(value, terminal)
                return Token.of(terminal, value, text, at), at + len(value)
            at += len(value)
        return Token.of("$END", "", text, at), at

    def _beginning(self, lexer: int, signs: str) -> list[tuple[str, str, Any]]:
        """The terminals that can begin with two characters, in order of priority: (name, literal, pattern)."""
        candidates: list[tuple[str, str, Any]] = []
        for name in self._lexers[lexer][0]:
            begin, first, pattern = self._terminals[name]
            if signs.startswith(begin) and pattern == re.escape(begin):
                candidates.append((name, begin, None))
            elif begin.startswith(signs) or (signs.startswith(begin) and (signs[0] in first or not signs[0].isascii())):
                candidates.append((name, "", self._matcher(pattern)))
        if signs.isascii():
            self._candidates[lexer, signs] = candidates
        return candidates


def _reduce(parts: list[Any], data: str, kept: list[Any], single: bool) -> Any:  # noqa: FBT001 - a table's
    """Reduces parts to a node of a grammar rule.

    Args:
        parts: the tokens and trees.
        data: the name of the node.
        kept: for each child: the index of its part, a list of that index for the children of the part, or None for an
            absent part.
        single: whether a single child replaces the node.
    """
    children: list[Any] = []
    for place in kept:
        if type(place) is int:
            children.append(parts[place])
        elif place is None:
            children.append(None)
        else:
            children += parts[place[0]].children
    node = children[0] if single and len(children) == 1 else Tree(data, children)
    for part in parts:
        if part is not None and (begin := part.outer) is not None:
            if type(node) is Tree:
                node.first, node.outer = node.first or begin, begin
            break
    return node


# --- common mistakes

FORMS = ("before", "after", "seq", "forall", "exists", "flow")
FUNCTIONS = (
    "output",
    "args",
    "failed",
    "state",
    "fact",
    "known",
    "len",
    "first",
    "last",
    "some",
    "count",
    "sum",
    "all",
    "any",
)

_Hint = str | Callable[[re.Match[str]], str]


def _function(match: re.Match[str]) -> str:
    """Suggests a correction for an unknown name before a parenthesis."""
    name = match[1]
    if name in FORMS + FUNCTIONS:
        return ""
    close = name_hint(name, FORMS + FUNCTIONS)
    near = re.search(r"did you mean '\w+'\?", close)
    ours = f"write a toolbox function as 'state({name}(...))'"
    return f"{near[0]} or {ours}" if near else ours


# For any rule.
_MISTAKES: tuple[tuple[str, _Hint], ...] = (
    (r"\bnot\s+⟨in\b|⟨not\s+in\b", "write '!(x in [...])'"),
    (r"⟨(and|or|not)\b|\b(not)\s+⟨", lambda match: f"did you mean '{(match[1] or match[2]).upper()}'?"),
    (
        r"\blet\s+(\w+)\s*=(?!=)(?:.*⟨in\b|(?:(?!\bin\b).)*(?:⟨(?:!|matches\b|->)|[=!<>]=?(?:(?!\bin\b).)*\bin\s+⟨))",
        lambda match: f"put the value in parentheses: 'let {match[1]} = (...) in ...'",
    ),
    (r"⟨(?:→|⇒|⟶)", "did you mean '->'?"),
    (r"\bmatches\s*⟨[\"']", "write a regular expression between slashes: '/a.*/'"),
    (r"\bin\s*\([^()]*⟨,", "write a list in brackets: '[a, b]'"),
    (r"\b(?:before|after|seq|forall|exists)\(tool:([\w.-]+)⟨", lambda match: f"write a call as '{match[1]}(...)'"),
    (r"(\w+)\s+⟨(starts_with|ends_with)\b", lambda match: f"write '{match[2]}({match[1]}, ...)'"),
    (r"(\w+)\s+⟨is\s+(not\b)?", lambda match: f"write '{'' if match[2] else '!'}known({match[1]})'"),
    (r"(\w+)\s+⟨contains\b", lambda match: f"write '... in {match[1]}'"),
    (r"(\w+)\s+⟨between\b", lambda match: f"write '{match[1]} >= ... && {match[1]} <= ...'"),
    (r"(\w+)\s+⟨like\b", lambda match: f"write '{match[1]} matches /.../'"),
    (r"\bif\s+⟨|⟨\?", "write 'A -> B', and '(A -> B) && (!A -> C)' with an alternative"),
    (r"\bfact\(⟨'([\w.]+)'", lambda match: f"write 'fact({match[1]})'"),
    (r"\bstate\((\w+)⟨\)", lambda match: f"a field of the state is 'state.{match[1]}'"),
    (r"\(.*,.*\bexists\((?:\w+⟨:|[\w.-]+\(\w+⟨=)", "in a condition, write an earlier call as 'some(f:NAME(...), ...)'"),
    (r"\b(?:some|count)\([^,]*,.*,\s*⟨", "join conditions with '&&'"),
    (r"\b(first|last)\(\w+⟨[:|]", lambda match: f"to read a call, write 'output({match[1]}(...))'"),
    (r"(?:^|[\s(!])([a-z]+)⟨:", lambda match: f"did you mean '{_prefix(match[1])}:'?"),
    (r"(?:\btool:|G\s*!\s*)[\w.-]+⟨\(", "write a call in a rule over data, such as 'forall(NAME(), false)'"),
    (r"\bseq\((?:[^()]|\([^()]*\))*⟨\)", "seq(...) needs at least two calls"),
    (r"\bsince\([^!]*\)⟨\)", "write the calls that end it after a comma: 'since(a(), !b())'"),
    (r"\bdistinct\([^,]*\)⟨\)", "write the value to count after a comma: 'distinct(f:a(), args(f).x)'"),
    (r"\bdistinct\(\w+⟨\)", "it counts values of earlier calls: 'distinct(f:a(), args(f).x)'"),
    (r"\b(?:forall|after|before)\(.*\)⟨\)", "a condition is missing; write 'true' for no condition"),
    (
        r"\b(?:before|after)\([^()]*\([^()]*\),\s*[\w.-]+⟨\(",
        "a condition is missing between the two calls; write 'true' for no condition",
    ),
    (r"==⟨=", "did you mean '=='?"),
    (r"=⟨=|\w⟨==", "did you mean '='?"),
    (r"<⟨>", "did you mean '!='?"),
    (r"⟨=<|=⟨<", "did you mean '<='?"),
    (r"[<>]=?\s*[\w.]+\s*⟨=>", "did you mean '->'?"),
    (r"[\])\w\"'] ⟨=>(?=\s*[\w\"'.-]+\s*[),&|])|=⟨>", "did you mean '>='?"),
    (r"\d⟨[kKM]\b", "write all digits of a number, such as 50000"),
    (
        r"\b(before|after|seq)\(\s*[\w.-]+\s*⟨[,)]",
        lambda match: f"write calls with parentheses, and a condition after each: {match[1]}(a(), true, b(), true)",
    ),
    (r"⟨=[^=>]", "did you mean '=='?"),
    (r"\bstate\(⟨\)", "name a function of the toolbox, such as 'state(fn(x))'"),
)
# For a rule without a form over data.
_PROPOSITIONAL: tuple[tuple[str, _Hint], ...] = (
    (r"(?:^|[\s(!])([gfxohy])\s+⟨", lambda match: f"did you mean '{match[1].upper()}'?"),
    (r"⟨=>|\b(?:implies|then|eventually)\b", "did you mean a rule such as 'tool:A -> F tool:B'?"),
    (r"\b(?:always|globally|never)\b", "did you mean a rule such as 'G !tool:NAME'?"),
    (r"\buntil\b", "did you mean a rule such as 'tool:A U tool:B'?"),
    (r"<=|\bwithin\b", "did you mean a rule such as 'tool:A -> F[<=3] tool:B'?"),
)
_LAST: tuple[tuple[str, _Hint], ...] = ((r"(\w+)\s*⟨\(", _function),)


def _prefix(name: str) -> str:
    close = re.search(r"did you mean '(\w+)'", name_hint(name, ("tool", "action", "decision")))
    return close[1] if close else "tool"


def hint(before: str, rest: str, *, propositional: bool) -> str:
    """A suggestion for a line with a syntax error, or an empty string.

    Args:
        before: the line before the error.
        rest: the line from the error on.
        propositional: whether the rule has no form over data; only then propositional forms are suggested.
    """
    line = f"{before[-200:]}⟨{rest[:200]}"
    for pattern, form in (*_MISTAKES, *(_PROPOSITIONAL if propositional else ()), *_LAST):
        if match := re.search(pattern, line):
            suggestion = form if isinstance(form, str) else form(match)
            return f"; {suggestion}" if suggestion else ""
    return ""


# --- rules

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
    "_NOT": "'!'",
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


_CALL_IN_CALL = re.compile(r"([\w.-]+)\([\w\s.@|\"-]*$")  # of a form that does not exist


def _raise_syntax_error(error: Any, text: str) -> NoReturn:
    from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedToken

    lines = text.splitlines() or [""]
    ended = isinstance(error, UnexpectedEOF) or getattr(getattr(error, "token", None), "type", "") == "$END"
    line, column = (len(lines), len(lines[-1]) + 1) if ended else (error.line, error.column)
    wanted = error.allowed if isinstance(error, UnexpectedCharacters) else getattr(error, "expected", ())
    if isinstance(error, UnexpectedToken):
        wanted = error.accepts or error.expected
    rest = "" if ended else lines[line - 1][column - 1 :]
    problem = "unexpected end" if ended else f"unexpected {rest[:20]!r}"
    propositional = not any(f"{form}(" in text for form in FORMS)
    if (
        propositional
        and rest[:1] in ("(", ":")
        and (form := _CALL_IN_CALL.search(lines[line - 1][: column - 1])) is not None
    ):
        column, wanted = form.end(1) + 1, ("_IMPLIES", "_AND", "_OR", "BINARY", "$END")
        rest = lines[line - 1][column - 1 :]
        problem = f"unexpected {rest[:20]!r}"
    meant = hint(lines[line - 1][: column - 1], rest, propositional=propositional)
    raise TemporalError(f"{problem}; expected {_listed(wanted or ())}{meant}", text, line, column) from None


def _listed(terminals: Any) -> str:
    names = {str(name) for name in terminals}
    if "UNARY" in names:  # any start of a rule
        return "a rule, such as tool:NAME, !tool:NAME, F tool:NAME, before(...) or one in parentheses"
    if "_KNOWN" in names:  # any start of a term
        return "a condition or a value, such as x == 1, output(f), fact(NAME) or state(fn(x))"
    if "BINARY" in names:  # after a step
        names -= {"LPAR", "VBAR"}
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
