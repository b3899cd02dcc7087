"""Translates expressions to Z3 terms.

Each translator has its own Z3 context, so that threads do not interfere.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

from guardagent.policy.logic.expressions import Expression, ExpressionNode
from guardagent.policy.logic.regexes import LAST, NotTranslatable, Ranges, read_regex

KEPT = 50_000  # cached terms


class Lowering:
    """Translates expressions and caches the terms.

    Attributes:
        context: the Z3 context of its terms.
    """

    def __init__(self) -> None:
        import z3

        self._z3 = z3
        self.context = z3.Context()
        z3.Z3_enable_concurrent_dec_ref(self.context.ref())  # any thread may release a term
        self._done: dict[ExpressionNode, Any] = {}

    def forget(self) -> None:
        """Clears the cache if it is too large; call it between two questions only."""
        if len(self._done) > KEPT:
            self._done.clear()

    def term(self, expression: Expression) -> Any:
        """Translates an expression to a Z3 term.

        Raises:
            NotTranslatable: a string has characters that Z3 lacks.
        """
        if not isinstance(expression, ExpressionNode):
            return self._constant(expression)
        waiting = [] if expression in self._done else [expression]  # not recursive: sums over a long history are deep
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
        """Returns a string term, with backslashes escaped."""
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
            case "within" | "starts" | "ends" | "joined":
                return self._of_strings(name, first, last)
        return self._computed(name, first, last)

    def _of_strings(self, name: str, first: Any, last: Any) -> Any:
        z3 = self._z3
        if name == "within":
            return z3.Contains(last, first)
        return {"starts": z3.PrefixOf, "ends": z3.SuffixOf, "joined": z3.Concat}[name](first, last)

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
        """Translates a match; one without an exact translation becomes a variable."""
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
        """Returns the language of strings that equal a folded one without case and surrounding space."""
        spaces, folds = _folded_from()
        after = [self._empty()]  # the languages of the suffixes, the longest first
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
    """Returns the space characters, and the characters of each case folding."""
    spaces, folds = [], defaultdict(list)
    for code in range(LAST + 1):
        char = chr(code)
        if char.isspace():
            spaces.append((code, code))
        if (folded := char.casefold()) != char:
            folds[folded].append(code)
    return tuple(spaces), dict(folds)


def _from(folded: str, folds: Mapping[str, list[int]]) -> Ranges:
    """Returns the characters whose case folding is a string."""
    itself = [ord(folded)] if len(folded) == 1 else []  # a folded character folds to itself
    return tuple((code, code) for code in (*itself, *folds.get(folded, ())))
