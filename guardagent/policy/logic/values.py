"""Symbolic values: guarded cases of one kind each, of which at most one holds.

    Value     (guard, leaf), ...; if no guard holds, the value is unknown
    a leaf    ScalarValue | Concrete | ListValue | MappingValue | SymbolicList | SymbolicMapping | SymbolicSet | ...

A truth value is a value as well: its guard holds if it is known, and its payload is true or false. Each symbol has a
key, and equal keys mean the same value.

Some functions of the language have an exact translation; the logic knows the others only on concrete values. A range of
numbers gives what is certain for each number within its bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Final, Literal

from guardagent.policy.logic import expressions as ex
from guardagent.policy.logic.expressions import (
    Expression,
    ExpressionNode,
    Sort,
    conj,
    disj,
    less,
    neg,
    variable,
    whole_variable,
)

NO_ORIGIN: Final = object()
Kind = Literal["truth", "number", "text", "list", "mapping", "set", "opaque", "range"]


@dataclass(frozen=True, slots=True)
class ScalarValue:
    """A truth value, a number or a string; `origin` is the concrete value before conversion to an exact number."""

    kind: Sort
    payload: Expression
    origin: Any = field(default=NO_ORIGIN, compare=False)


@dataclass(frozen=True, slots=True, eq=False)
class Concrete:
    """A concrete list, mapping or set."""

    kind: Literal["list", "mapping", "set"]
    content: Any


@dataclass(frozen=True, slots=True)
class ListValue:
    """A list with a known number of items."""

    items: tuple[Value, ...]
    kind: Kind = "list"


@dataclass(frozen=True, slots=True)
class MappingValue:
    """A mapping with exactly these keys."""

    items: tuple[tuple[str, Value], ...]
    kind: Kind = "mapping"


@dataclass(frozen=True, slots=True)
class SymbolicList:
    """A list about which nothing is known; equal keys mean the same list."""

    key: Hashable
    kind: Kind = "list"


@dataclass(frozen=True, slots=True)
class SymbolicMapping:
    """A mapping with some known keys; `names` are the only possible keys, or None for any."""

    key: Hashable
    items: tuple[tuple[str, Value], ...] = ()
    names: frozenset[str] | None = None
    kind: Kind = "mapping"


@dataclass(frozen=True, slots=True)
class SymbolicSet:
    """A set about which nothing is known; equal keys mean the same set."""

    key: Hashable
    kind: Kind = "set"


@dataclass(frozen=True, slots=True, eq=False)
class Opaque:
    """A value that cannot be compared or computed with: an object of the host, or NaN."""

    content: Any
    kind: Kind = "opaque"


@dataclass(frozen=True, slots=True)
class Range:
    """An unknown number with bounds, such as a count of calls of which some may not count. It is not a known value."""

    least: Expression
    most: Expression
    kind: Kind = "range"


@dataclass(frozen=True, slots=True)
class PartialSet:
    """An unknown set: the items that it has, and those that it can have."""

    least: frozenset[str]
    most: frozenset[str]
    kind: Kind = "set"


Leaf = (
    ScalarValue
    | Concrete
    | ListValue
    | MappingValue
    | SymbolicList
    | SymbolicMapping
    | SymbolicSet
    | PartialSet
    | Opaque
    | Range
)


@dataclass(frozen=True, slots=True)
class Value:
    """Guarded cases, of which at most one holds."""

    cases: tuple[tuple[Expression, Leaf], ...] = ()

    @property
    def known(self) -> Expression:
        return disj(
            *(guard for guard, leaf in self.cases if not isinstance(leaf, Range) if not isinstance(leaf, PartialSet))
        )


UNKNOWN: Final = Value()


def of_leaf(leaf: Leaf) -> Value:
    return Value(((True, leaf),))


def joined(cases: Iterable[tuple[Expression, Value]]) -> Value:
    """Flattens guarded values into one value."""
    expressions: dict[Leaf, Expression] = {}
    for guard, value in cases:
        for inner, leaf in value.cases:
            both = conj(guard, inner)
            if both is not False:
                expressions[leaf] = disj(expressions.get(leaf, False), both)
    return Value(tuple((guard, leaf) for leaf, guard in expressions.items()))


def only_if(guard: Expression, value: Value) -> Value:
    return value if guard is True else joined([(guard, value)])


# --- truth values


def known_truth(truth: Expression) -> Value:
    """Returns a known truth value."""
    return Value(((True, ScalarValue("truth", truth)),))


TRUE: Final = known_truth(truth=True)
FALSE: Final = known_truth(truth=False)


def truth(yes: Expression, no: Expression) -> Value:
    """Returns a truth value from the conditions under which it is true and false."""
    known = disj(yes, no)
    return UNKNOWN if known is False else Value(((known, ScalarValue("truth", yes)),))


def when_true(value: Value) -> Expression:
    return disj(*(conj(guard, leaf.payload) for guard, leaf in _truths(value)))


def when_false(value: Value) -> Expression:
    return disj(*(conj(guard, neg(leaf.payload)) for guard, leaf in _truths(value)))


def _truths(value: Value) -> list[tuple[Expression, ScalarValue]]:
    return [(guard, leaf) for guard, leaf in value.cases if isinstance(leaf, ScalarValue) and leaf.kind == "truth"]


def conjunction(values: Iterable[Value]) -> Value:
    """Kleene's *and*; stops at the first false value."""
    yes, no = [], []
    for value in values:
        yes.append(when_true(value))
        no.append(when_false(value))
        if no[-1] is True:
            return FALSE
    return truth(conj(*yes), disj(*no))


def disjunction(values: Iterable[Value]) -> Value:
    """Kleene's *or*; stops at the first true value."""
    yes, no = [], []
    for value in values:
        yes.append(when_true(value))
        no.append(when_false(value))
        if yes[-1] is True:
            return TRUE
    return truth(disj(*yes), conj(*no))


def negation(value: Value) -> Value:
    return truth(when_false(value), when_true(value))


def all_known(values: Sequence[Value]) -> Expression:
    return conj(*(value.known for value in values))


# --- functions of the language

Translation = Callable[[Sequence[Expression]], Value]


def _number(fold: Callable[..., Expression]) -> Translation:
    return lambda payloads: of_leaf(ScalarValue("number", reduce(fold, payloads)))


def _absolute(payloads: Sequence[Expression]) -> Value:
    negative = ex.arithmetic(0, "-", payloads[0])
    return of_leaf(ScalarValue("number", ex.greatest(payloads[0], negative)))


TRANSLATIONS: Mapping[str, tuple[str, Translation]] = {
    "starts_with": ("text", lambda payloads: known_truth(ex.starts_with(*payloads))),
    "ends_with": ("text", lambda payloads: known_truth(ex.ends_with(*payloads))),
    "min": ("number", _number(ex.least)),
    "max": ("number", _number(ex.greatest)),
    "abs": ("number", _absolute),
}
"""A function -> the kind of its arguments, and the translation of their payloads."""


# --- ranges


def ends_of(leaf: Leaf) -> tuple[Expression, Expression] | None:
    """Returns the bounds of a number, or None for other values."""
    if isinstance(leaf, Range):
        return leaf.least, leaf.most
    return (leaf.payload, leaf.payload) if isinstance(leaf, ScalarValue) and leaf.kind == "number" else None


def is_ranged(left: Leaf, right: Leaf) -> bool:
    return isinstance(left, Range) or isinstance(right, Range)


def range_is_less(left: Leaf, right: Leaf) -> Value:
    first, second = ends_of(left), ends_of(right)
    if first is None or second is None:
        return UNKNOWN
    return truth(ex.less(first[1], second[0]), neg(ex.less(first[0], second[1])))


def computed_range(left: Leaf, sign: str, right: Leaf) -> Value:
    first, second = ends_of(left), ends_of(right)
    if first is None or second is None or sign in "/%":
        return UNKNOWN
    corners = [ex.arithmetic(end, sign, other) for end in first for other in second]
    return of_leaf(Range(reduce(ex.least, corners), reduce(ex.greatest, corners)))


# --- symbols

KINDS: Final = ("number", "text", "truth", "list", "mapping")


class Symbols:
    """Creates symbolic values.

    Attributes:
        axioms: constraints that always hold.
        descriptions: the values that examples show, by description.
        contents: the accessed contents of symbolic lists and mappings, by key.
    """

    def __init__(self) -> None:
        self.axioms: list[Expression] = []
        self.descriptions: dict[str, Value] = {}
        self.contents: dict[Hashable, dict[Any, Value]] = {}
        self._known: dict[Any, Any] = {}
        self._fresh = 0

    def once(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Returns the object created for a key, creating it on first use."""
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]

    def name(self, letter: str) -> str:
        self._fresh += 1
        return f"{letter}{self._fresh}"

    def truth(self, key: Hashable) -> ExpressionNode:
        """Returns a truth value that is known."""
        return self.once(("truth", key), lambda: variable("truth", self.name("b")))  # type: ignore[no-any-return]

    def any_truth(self, key: Hashable) -> Value:
        """Returns a truth value that may be unknown."""
        return truth(conj(known := self.truth((key, "known")), it := self.truth(key)), conj(known, neg(it)))

    def size(self, key: Hashable) -> ExpressionNode:
        """Returns a non-negative whole number."""

        def result() -> ExpressionNode:
            self.axioms.append(neg(less(symbol := whole_variable(self.name("n")), 0)))
            return symbol

        return self.once(("size", key), result)  # type: ignore[no-any-return]

    def any_count(self, key: Hashable) -> Value:
        """Returns a non-negative whole number, or unknown with such bounds, which differ: something may not count."""
        known, least, most = self.truth((key, "known")), self.size((key, "least")), self.size((key, "most"))
        self.axioms.append(less(least, most))
        cases = (known, ScalarValue("number", self.size(key))), (neg(known), Range(least, most))
        return Value(cases)

    def amount(self, key: Hashable, least: Any = 0, most: Any = None) -> ExpressionNode:
        """Returns a number within bounds."""

        def result() -> ExpressionNode:
            symbol = variable("number", self.name("v"))
            self.axioms.append(neg(less(symbol, least)))
            if most is not None:
                self.axioms.append(neg(less(most, symbol)))
            return symbol

        return self.once(("amount", key), result)  # type: ignore[no-any-return]

    def any_value(
        self, key: Hashable, description: str = "", kinds: Sequence[str] = KINDS, *, known: bool = False
    ) -> Value:
        """Returns a value of one of these kinds, or unknown unless `known`."""
        value: Value = self.once(("value", key), lambda: self._made(key, kinds, known=known))
        if description:
            self.descriptions[description] = value
        return value

    def content(self, key: Hashable, at: Hashable) -> Value:
        """Returns an item of a symbolic list or mapping."""
        value = self.any_value((key, at))
        self.contents.setdefault(key, {})[at] = value
        return value

    def _made(self, key: Hashable, kinds: Sequence[str], *, known: bool) -> Value:
        return self.one_of([self._leaf(kind, key) for kind in kinds], known=known)

    def one_of(self, leaves: Iterable[Leaf], *, known: bool) -> Value:
        """Returns a value that is one of the leaves, or unknown unless `known`."""
        left = list(leaves)
        cases: list[tuple[Expression, Leaf]] = []
        before: list[Expression] = []
        for at, leaf in enumerate(left):
            last = known and at == len(left) - 1
            here = True if last else variable("truth", self.name("k"))
            cases.append((conj(*map(neg, before), here), leaf))
            before.append(here)
        return Value(tuple(cases))

    def _leaf(self, kind: str, key: Hashable) -> Leaf:
        if kind == "list":
            return SymbolicList(key)
        if kind == "mapping":
            return SymbolicMapping(key)
        if kind == "set":
            return SymbolicSet(key)
        assert kind in ("number", "text", "truth")
        return ScalarValue(kind, variable(kind, self.name("v")))  # type: ignore[arg-type]

    def simplicity_constraints(self) -> list[Expression]:
        """Returns constraints for readable examples: only accessed values are lists or mappings."""
        expressions: list[Expression] = []
        for key, value in self._known.items():
            if isinstance(value, Value) and key[0] == "value":
                nested = key[1] in self.contents
                wanted = [
                    guard
                    for guard, leaf in value.cases
                    if isinstance(leaf, SymbolicMapping | SymbolicList) is not nested
                ]
                expressions += map(neg, wanted)
        return expressions

    def has_index(self, key: Hashable, index: Expression) -> Expression:
        """Whether a list has an item at this index."""
        below = 0 if isinstance(index, ExpressionNode) else index if index >= 0 else -1 - index
        return less(below, self.size(key))
