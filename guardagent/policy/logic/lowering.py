"""Expressions as terms of Z3.

Each translation has a context of its own: what one thread asks does not meet what another one does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

from guardagent.policy.logic.expressions import Expression, ExpressionNode
from guardagent.policy.logic.regexes import LAST, NotTranslatable, Ranges, read_regex

KEPT = 50_000  # terms that are kept for the questions to come


class Lowering:
    """Translates expressions, each once.

    Attributes:
        context: what its terms belong to.
    """

    def __init__(self) -> None:
        import z3

        self._z3 = z3
        self.context = z3.Context()
        z3.Z3_enable_concurrent_dec_ref(self.context.ref())  # whichever thread lets go of a term
        self._done: dict[ExpressionNode, Any] = {}

    def forget(self) -> None:
        """Lets go of what was kept, where it has become much; between two questions."""
        if len(self._done) > KEPT:
            self._done.clear()

    def term(self, expression: Expression) -> Any:
        """A term of Z3.

        Raises:
            NotTranslatable: a text has characters that Z3 does not know.
        """
        if not isinstance(expression, ExpressionNode):
            return self._constant(expression)
        waiting = [] if expression in self._done else [expression]  # not recursive: totals over a long history are deep
        while waiting:
            node = waiting[-1]
            missing = [one for one in node.parts if isinstance(one, ExpressionNode) and one not in self._done]
            waiting += missing
            if not missing:
                self._done[waiting.pop()] = self._made(node)
        return self._done[expression]

    def _made(self, node: ExpressionNode) -> Any:
        match node.name, node.parts:
            case "variable", (name,):
                return self._variable(node.sort, name)
            case "whole variable", (name,):
                return self._z3.ToReal(self._z3.Int(name, self.context))
            case "fixed", (value,):
                return self._constant(value)
            case "matches", (text, regex):
                return self._matches(node, self.term(text), regex)
            case "alike", (text, folded):
                return self._z3.InRe(self.term(text), self._alike(folded))
        return self._operation(node.name, [self.term(part) for part in node.parts])

    def _variable(self, sort: str, name: str) -> Any:
        makers = {"truth": self._z3.Bool, "number": self._z3.Real, "text": self._z3.String}
        return makers[sort](name, self.context)

    def _constant(self, value: Any) -> Any:
        match value:
            case bool():
                return self._z3.BoolVal(value, self.context)
            case str():
                return self._text(value)
        return self._z3.RealVal(str(Fraction(value)), self.context)

    def _text(self, text: str) -> Any:
        """A text, in which nothing is read as an escape."""
        if any(ord(char) > LAST for char in text):
            raise NotTranslatable
        escaped = (char if " " <= char <= "~" and char != "\\" else f"\\u{{{ord(char):x}}}" for char in text)
        return self._z3.StringVal("".join(escaped), self.context)

    def _operation(self, name: str, parts: Sequence[Any]) -> Any:
        z3, first, last = self._z3, parts[0], parts[-1]
        match name:
            case "and" | "or":
                return (z3.And if name == "and" else z3.Or)(*parts)
            case "not":
                return z3.Not(first)
            case "if":
                return z3.If(*parts)
            case "=":
                return first == last
            case "<":
                return first < last
            case "whole":
                return z3.IsInt(first)
            case "size":
                return z3.ToReal(z3.Length(first))
            case "within":
                return z3.Contains(last, first)
        return self._computed(name, first, last)

    def _computed(self, sign: str, left: Any, right: Any) -> Any:
        match sign:
            case "+":
                return left + right
            case "-":
                return left - right
            case "*":
                return left * right
            case "/":
                return left / right
        assert sign == "%"
        return left - right * self._z3.ToReal(self._z3.ToInt(left / right))

    # --- regular expressions

    def _matches(self, node: ExpressionNode, text: Any, regex: str) -> Any:
        """A match that Z3 cannot say exactly is open."""
        try:
            return self._z3.InRe(text, self._regex(read_regex(regex)))
        except NotTranslatable:
            return self._z3.Bool(f"matches {node!r}", self.context)

    def _regex(self, tree: Any) -> Any:
        match tree:
            case ("text", text):
                return self._z3.Re(self._text(text))
            case ("set", ranges):
                return self._one_of(ranges)
            case ("and then", parts):
                return self._concat([self._regex(one) for one in parts])
            case ("or", parts):
                return self._z3.Union(*[self._regex(one) for one in parts])
            case ("repeat", _, _, 0):
                return self._empty()
            case ("repeat", part, least, most) if most is None or least <= most:
                return self._repeated(self._regex(part), least, most)
        raise NotTranslatable

    def _repeated(self, part: Any, least: int, most: int | None) -> Any:
        if most is not None:
            return self._z3.Loop(part, least, most)
        star = self._z3.Star(part)
        return star if least == 0 else self._concat([self._z3.Loop(part, least, least), star])

    def _empty(self) -> Any:
        return self._z3.Re(self._text(""))

    def _concat(self, parts: Sequence[Any]) -> Any:
        return self._empty() if not parts else parts[0] if len(parts) == 1 else self._z3.Concat(*parts)

    def _one_of(self, ranges: Ranges) -> Any:
        if not ranges:
            raise NotTranslatable
        found = [self._z3.Range(self._text(chr(low)), self._text(chr(high))) for low, high in ranges]
        return found[0] if len(found) == 1 else self._z3.Union(*found)

    # --- case and space

    def _alike(self, folded: str) -> Any:
        """The texts that are a given one without case, and without space around it."""
        spaces, folds = _folded_from()
        after = [self._empty()]  # of what is left from each place on, the last one first
        for start in range(len(folded) - 1, -1, -1):
            ways = [
                self._concat([self._one_of(codes), after[end - start - 1]])
                for end in range(start + 1, min(start + 3, len(folded)) + 1)
                if (codes := _from(folded[start:end], folds))
            ]
            after.insert(0, ways[0] if len(ways) == 1 else self._z3.Union(*ways))
        around = self._z3.Star(self._one_of(spaces))
        return self._concat([around, after[0], around])


@lru_cache(1)
def _folded_from() -> tuple[Ranges, Mapping[str, list[int]]]:
    """(the characters that are space, what is folded -> the characters from which it comes)."""
    spaces, folds = [], defaultdict(list)
    for code in range(LAST + 1):
        char = chr(code)
        if char.isspace():
            spaces.append((code, code))
        if (folded := char.casefold()) != char:
            folds[folded].append(code)
    return tuple(spaces), dict(folds)


def _from(folded: str, folds: Mapping[str, list[int]]) -> Ranges:
    """The characters that are folded to a text."""
    itself = [ord(folded)] if len(folded) == 1 else []  # it is folded, so that it stays
    return tuple((code, code) for code in (*itself, *folds.get(folded, ())))
