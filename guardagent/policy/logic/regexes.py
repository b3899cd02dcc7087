"""Parses the RE2 expressions that have an exact translation to Z3.

The result is a tree: ("text", t) | ("set", ((from, to), ...)) | ("and then", parts) | ("or", parts) |
("repeat", part, least, most or None). Other expressions are rejected, and their matches stay symbolic.
"""

from __future__ import annotations

from typing import Any

LAST = 0x2FFFF  # the last character of SMT-LIB
Ranges = tuple[tuple[int, int], ...]
_DIGITS: Ranges = ((48, 57),)
_WORDS: Ranges = ((48, 57), (65, 90), (95, 95), (97, 122))
_SPACES: Ranges = ((9, 10), (12, 13), (32, 32))
_CLASSES = {"d": _DIGITS, "w": _WORDS, "s": _SPACES}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
_MAX_REPEAT = 1000


class NotTranslatable(Exception):  # noqa: N818 - not an error: the match stays symbolic
    """An expression has no exact translation to Z3."""


def read_regex(regex: str) -> Any:
    """Parses an expression that the whole string has to match.

    Raises:
        NotTranslatable: the expression has no exact translation.
    """
    return _RegexParser(regex.removeprefix("^")).all()


class _RegexParser:
    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        if any(ord(char) > LAST for char in text):
            raise NotTranslatable

    def all(self) -> Any:
        found = self._alternatives()
        if self._at < len(self._text):
            raise NotTranslatable
        return found

    def _next(self, count: int = 1) -> str:
        return self._text[self._at : self._at + count]

    def _advance(self) -> str:
        if self._at >= len(self._text):
            raise NotTranslatable
        self._at += 1
        return self._text[self._at - 1]

    def _accept(self, wanted: str) -> bool:
        found = self._text.startswith(wanted, self._at)
        self._at += len(wanted) if found else 0
        return found

    def _alternatives(self) -> Any:
        found = [self._sequence()]
        while self._accept("|"):
            found.append(self._sequence())
        return found[0] if len(found) == 1 else ("or", tuple(found))

    def _sequence(self) -> Any:
        found = []
        while self._at < len(self._text) and self._next() not in "|)":
            if self._next() == "$" and self._at == len(self._text) - 1 and "|" not in self._text:
                self._at += 1
                break
            found.append(self._repeated(self._atom()))
        return ("and then", tuple(found))

    def _repeated(self, part: Any) -> Any:
        least: int
        most: int | None
        match self._next():
            case "*":
                least, most = 0, None
            case "+":
                least, most = 1, None
            case "?":
                least, most = 0, 1
            case "{":
                return self._counted(part)
            case _:
                return part
        self._at += 1
        return self._lazy(("repeat", part, least, most))

    def _counted(self, part: Any) -> Any:
        inside, closed, _ = self._text[self._at + 1 :].partition("}")
        low, comma, high = inside.partition(",")
        if not closed or not low.isascii() or not low.isdigit() or (high and not (high.isascii() and high.isdigit())):
            raise NotTranslatable
        self._at += len(inside) + 2
        most = int(high) if high else None if comma else int(low)
        if int(low) > _MAX_REPEAT or (most or 0) > _MAX_REPEAT:
            raise NotTranslatable
        return self._lazy(("repeat", part, int(low), most))

    def _lazy(self, found: Any) -> Any:
        """Skips a lazy modifier, which does not affect a match of the whole string."""
        self._accept("?")
        if self._next() and self._next() in "*+?{":
            raise NotTranslatable
        return found

    def _atom(self) -> Any:
        char = self._advance()
        match char:
            case "(":
                return self._group()
            case "[":
                return ("set", self._class())
            case ".":
                return ("set", _complement(((10, 10),)))
            case "\\":
                return self._escape()
            case _ if char in "^$*+?{}":
                raise NotTranslatable
        return ("text", char)

    def _group(self) -> Any:
        if self._accept("?") and not self._accept(":"):
            raise NotTranslatable  # flags and names
        found = self._alternatives()
        if not self._accept(")"):
            raise NotTranslatable
        return found

    def _escape(self) -> Any:
        char = self._advance()
        if char.lower() in _CLASSES:
            ranges = _CLASSES[char.lower()]
            return ("set", ranges if char.islower() else _complement(ranges))
        return ("text", self._escaped(char))

    @staticmethod
    def _escaped(char: str) -> str:
        if char in _ESCAPES:
            return _ESCAPES[char]
        if char.isalnum() or not char.isascii():
            raise NotTranslatable
        return char

    def _class(self) -> Ranges:
        inverted = self._accept("^")
        found: list[tuple[int, int]] = []
        first = True
        while first or self._next() != "]":
            first = False
            found += self._class_item()
        self._at += 1
        return _complement(tuple(found)) if inverted else tuple(found)

    def _class_item(self) -> Ranges:
        char = self._advance()
        if char == "[" and self._next() == ":":
            raise NotTranslatable
        if char == "\\":
            escape = self._advance()
            if escape.lower() in _CLASSES:
                return _CLASSES[escape] if escape.islower() else _complement(_CLASSES[escape.lower()])
            char = self._escaped(escape)
        if self._next() == "-" and self._next(2) != "-]" and len(self._next(2)) > 1:
            self._at += 1
            last = self._advance()
            return ((ord(char), ord(self._escaped(self._advance()) if last == "\\" else last)),)
        return ((ord(char), ord(char)),)


def _complement(ranges: Ranges) -> Ranges:
    """Returns all other characters."""
    found, start = [], 0
    for low, high in sorted(ranges):
        if low > start:
            found.append((start, low - 1))
        start = max(start, high + 1)
    return (*found, (start, LAST)) if start <= LAST else tuple(found)
