"""An LALR parser for rules. Its tables in `language.json` are generated from Lark's.

Building the tables takes Lark longer than the rest of a check. This parser gives the same trees as Lark's; text that it
rejects goes to Lark for the error message.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_TABLES = Path(__file__).with_name("language.json")


class Token(str):
    """A token with its type, line and column."""

    __slots__ = ("column", "line", "type")
    type: str
    line: int
    column: int

    @property
    def outer(self) -> Token:
        return self


@dataclass(slots=True)
class Tree:
    """A node of the parse tree.

    Attributes:
        line, column: the start of the node.
        outer: the start of the surrounding text that was reduced to this node, such as its parenthesis.
    """

    data: str
    children: list[Any]
    line: int = 1
    column: int = 1
    outer: Any = field(default=None, repr=False, compare=False)

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
        self._compiled: dict[str, Callable[[str, int], Any]] = {}

    def parse(self, text: str, start: str) -> Any:
        """Parses a text from a start symbol.

        Raises:
            NotParsedError: the text is not in the language.
        """
        first, last = self._starts[start]
        states, values, at = [first], [], 0
        while True:
            token, at = self._next(text, at, self._lexers[self._states[states[-1]][0]])
            while True:
                action = self._states[states[-1]][1].get(token.type)
                if action is None:
                    raise NotParsedError
                if action >= 0:
                    states.append(action)
                    values.append(token)
                    break
                origin, size, *shape = self._rules[-action - 1]
                parts = values[len(values) - size :]
                del states[len(states) - size :], values[len(values) - size :]
                states.append(self._states[states[-1]][1][origin])
                values.append(_reduce(parts, *shape))
                if token.type == "$END" and states[-1] == last:
                    return values[-1]

    def _next(self, text: str, at: int, lexer: Any) -> tuple[Token, int]:
        names, words = lexer
        while at < len(text):
            for name in names:
                begin, pattern = self._terminals[name]
                if text.startswith(begin, at) and (found := self._matcher(name, pattern)(text, at)):
                    break
            else:
                raise NotParsedError
            if name not in self._ignored:
                return _token(words.get(name, {}).get(found[0], name), found[0], text, at), found.end()
            at = found.end()
        return _token("$END", "", text, at), at

    def _matcher(self, name: str, pattern: str) -> Callable[[str, int], Any]:
        if name not in self._compiled:
            self._compiled[name] = re.compile(pattern).match
        return self._compiled[name]


def _token(kind: str, value: str, text: str, at: int) -> Token:
    token = Token(value)
    token.type, token.line, token.column = kind, text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    return token


def _reduce(parts: list[Any], data: str, kept: list[list[Any]], last: int, single: bool) -> Any:  # noqa: FBT001 - a table's
    """Reduces parts to a node of a grammar rule.

    Args:
        parts: the tokens and trees.
        data: the name of the node.
        kept: for each kept part: its index, whether to splice its children, and the number of absent parts before it.
        last: the number of absent parts at the end.
        single: whether a single child replaces the node.
    """
    children: list[Any] = []
    for place, several, absent in kept:
        children += [None] * absent
        children += parts[place].children if several else [parts[place]]
    children += [None] * last
    alone = single and len(children) == 1
    node = children[0] if alone else Tree(data, children)
    begin = next((part.outer for part in parts if part is not None and part.outer is not None), None)
    if isinstance(node, Tree) and begin is not None:
        if node.outer is None:
            node.line, node.column = begin.line, begin.column
        node.outer = begin
    return node
