"""Translates expressions to Z3 terms, and solves them.

Each translator has its own Z3 context, so that threads do not interfere, and each check its own frame.

An RE2 expression with an exact translation is parsed to a tree: ("text", t) | ("set", ((from, to), ...)) |
("and then", parts) | ("or", parts) | ("repeat", part, least, most or None). Other expressions are rejected, and their
matches stay symbolic.
"""

from __future__ import annotations

import ctypes
import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal

from guardagent.policy.logic.expressions import Expression, ExpressionNode, neg, normalized
from guardagent.policy.logic.values import (
    NO_ORIGIN,
    Concrete,
    Leaf,
    ListValue,
    MappingValue,
    Opaque,
    Range,
    ScalarValue,
    SymbolicList,
    SymbolicMapping,
    Symbols,
    Value,
)
from guardagent.types import thaw

# --- regular expressions

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
        alternatives = self._alternatives()
        if self._at < len(self._text):
            raise NotTranslatable
        return alternatives

    def _next(self, count: int = 1) -> str:
        return self._text[self._at : self._at + count]

    def _advance(self) -> str:
        if self._at >= len(self._text):
            raise NotTranslatable
        self._at += 1
        return self._text[self._at - 1]

    def _accept(self, wanted: str) -> bool:
        accept = self._text.startswith(wanted, self._at)
        self._at += len(wanted) if accept else 0
        return accept

    def _alternatives(self) -> Any:
        alternatives = [self._sequence()]
        while self._accept("|"):
            alternatives.append(self._sequence())
        return alternatives[0] if len(alternatives) == 1 else ("or", tuple(alternatives))

    def _sequence(self) -> Any:
        parts = []
        while self._at < len(self._text) and self._next() not in "|)":
            if self._next() == "$" and self._at == len(self._text) - 1 and "|" not in self._text:
                self._at += 1
                break
            parts.append(self._repeated(self._atom()))
        return ("and then", tuple(parts))

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

    def _lazy(self, node: Any) -> Any:
        """Skips a lazy modifier, which does not affect a match of the whole string."""
        self._accept("?")
        if self._next() and self._next() in "*+?{":
            raise NotTranslatable
        return node

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
        alternatives = self._alternatives()
        if not self._accept(")"):
            raise NotTranslatable
        return alternatives

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
        ranges: list[tuple[int, int]] = []
        first = True
        while first or self._next() != "]":
            first = False
            ranges += self._class_item()
        self._at += 1
        return _complement(tuple(ranges)) if inverted else tuple(ranges)

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
    complement, start = [], 0
    for low, high in sorted(ranges):
        if low > start:
            complement.append((start, low - 1))
        start = max(start, high + 1)
    return (*complement, (start, LAST)) if start <= LAST else tuple(complement)


# --- terms

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
            missing = [part for part in node.parts if isinstance(part, ExpressionNode) and part not in self._done]
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
                return self._concat([self._regex(part) for part in parts])
            case ("or", parts):
                return self._z3.Union(*[self._regex(part) for part in parts])
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
        intervals = [self._z3.Range(self._text(chr(low)), self._text(chr(high))) for low, high in ranges]
        return intervals[0] if len(intervals) == 1 else self._z3.Union(*intervals)

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


# --- the solver

MISSING = object()  # the value is unknown in the model
SECONDS = 1.0
NO_LIMIT = 0
MAX_ITEMS = 8  # items of a list in an example

_HERE = threading.local()

Answer = Literal["sat", "unsat", "unknown"]


def thread_solver(seconds: float = SECONDS, work: int = NO_LIMIT) -> ExpressionSolver:
    """Returns this thread's solver, which caches translated terms. For the limits, see `ExpressionSolver.limited`."""
    if not hasattr(_HERE, "solver"):
        _HERE.solver = ExpressionSolver()
    return _HERE.solver.limited(seconds, work)  # type: ignore[no-any-return]


class Z3Model:
    """A model: values of all variables."""

    def __init__(self, model: Any, lowering: Lowering, symbols: Symbols) -> None:
        self._model, self._lowering, self._symbols = model, lowering, symbols

    def of(self, expression: Expression) -> Any:
        """Returns the value of an expression, or None if Z3 has none."""
        if not isinstance(expression, ExpressionNode):
            return expression
        return value_of(self._model.eval(self._lowering.term(expression), model_completion=True))

    def value(self, value: Value) -> Any:
        """Returns the JSON value, or MISSING if it is unknown."""
        for guard, leaf in value.cases:
            if self.of(guard) is True:
                return MISSING if isinstance(leaf, Range) else self._leaf(leaf)
        return MISSING

    def _leaf(self, leaf: Leaf) -> Any:
        match leaf:
            case ScalarValue():
                return as_json(self.of(leaf.payload)) if leaf.origin is NO_ORIGIN else leaf.origin
            case Concrete(content=content) | Opaque(content=content):
                return thaw(content)
            case ListValue(items):
                return [_null(self.value(item)) for item in items]
            case MappingValue(items):
                return {name: _null(self.value(item)) for name, item in items}
            case SymbolicMapping(key, items):
                inside = {**dict(items), **self._symbols.contents.get(key, {})}
                values = {name: self.value(item) for name, item in inside.items() if isinstance(name, str)}
                return {name: value for name, value in values.items() if value is not MISSING}
        assert isinstance(leaf, SymbolicList)
        return self._list(leaf)

    def _list(self, leaf: SymbolicList) -> list[Any]:
        inside = self._symbols.contents.get(leaf.key, {})
        count = min(int(self.of(self._symbols.size(leaf.key)) or 0), MAX_ITEMS)
        items: list[Any] = [None] * count
        for at, value in inside.items():
            if isinstance(at, int) and -count <= at < count:
                items[at] = _null(self.value(value))
        return items


class ExpressionSolver:
    """Checks whether expressions are satisfiable together."""

    def __init__(self) -> None:
        import z3

        self._lowering = Lowering()
        self._solver = z3.Solver(ctx=self._lowering.context)
        self.model: Z3Model | None = None

    def limited(self, seconds: float, work: int = NO_LIMIT) -> ExpressionSolver:
        """Sets the limits of each check, and returns the solver.

        Args:
            seconds: the time limit.
            work: a limit of Z3's count of its work, on which the load of the machine has no influence.
        """
        self._solver.set(timeout=max(1, int(seconds * 1000)), rlimit=work)
        return self

    def check(self, expressions: Iterable[Expression], symbols: Symbols | None = None) -> Answer:
        """Checks the expressions with the symbols' axioms, and stores the model if they are satisfiable."""
        import z3

        self.model = None
        self._lowering.forget()
        self._solver.push()
        try:
            every = [*expressions, *(symbols.axioms if symbols else ())]
            self._solver.add(*[self._lowering.term(expression) for expression in every])
            answer: Answer = str(self._solver.check())  # type: ignore[assignment]
            if answer == "sat":
                self.model = Z3Model(self._solver.model(), self._lowering, symbols or Symbols())
        except (NotTranslatable, z3.Z3Exception):
            return "unknown"
        finally:
            self._solver.pop()
        return answer

    def holds(self, expression: Expression, symbols: Symbols | None = None) -> bool:
        """Whether an expression is proved valid."""
        return self.check([neg(expression)], symbols) == "unsat"

    def evaluate(self, expression: ExpressionNode) -> Any:
        """Returns the value of an expression without variables, or None if Z3 has none."""
        import z3

        try:
            return value_of(z3.simplify(self._lowering.term(expression)))
        except (NotTranslatable, z3.Z3Exception):
            return None


def value_of(term: Any) -> Any:
    """Returns the value of a constant term, else None."""
    import z3

    if z3.is_true(term) or z3.is_false(term):
        return z3.is_true(term)
    if z3.is_int_value(term):
        return term.as_long()
    if z3.is_rational_value(term):
        return normalized(Fraction(term.numerator_as_long(), term.denominator_as_long()))
    return _text(term) if z3.is_string_value(term) else None


def _text(term: Any) -> str:
    """Returns the characters of a string term; Z3's printed form is ambiguous about escapes."""
    import z3

    count = z3.Z3_get_string_length(term.ctx_ref(), term.as_ast())
    codes = (ctypes.c_uint * count)()
    z3.Z3_get_string_contents(term.ctx_ref(), term.as_ast(), count, codes)
    return "".join(map(chr, codes))


def as_json(value: Any) -> Any:
    """Converts a fraction to a float if that is exact."""
    if not isinstance(value, Fraction):
        return value
    decimal = float(value)
    return decimal if Fraction(repr(decimal)) == value else value


def _null(value: Any) -> Any:
    return None if value is MISSING else value
