"""Symbolic values: guarded cases of one kind each, of which at most one holds.

    Value     (guard, leaf), ...; if no guard holds, the value is unknown
    a leaf    Scalar | Given | Listed | Mapped | SomeList | SomeMapping | Odd

A truth value is a value as well: its guard holds if it is known, and its payload is true or false.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from guardagent.policy.logic.expressions import Expression, Sort, conj, disj, neg

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
    found: dict[Leaf, Expression] = {}
    for guard, value in cases:
        for inner, leaf in value.cases:
            both = conj(guard, inner)
            if both is not False:
                found[leaf] = disj(found.get(leaf, False), both)
    return Value(tuple((guard, leaf) for leaf, guard in found.items()))


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
