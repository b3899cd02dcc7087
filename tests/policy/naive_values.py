"""A second implementation of the values of data rules, written straight from their definitions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from itertools import combinations
from operator import lt
from typing import Any, Self


class Unknown(Enum):
    UNKNOWN = "unknown"


UNKNOWN = Unknown.UNKNOWN
Truth = bool | Unknown


@dataclass(frozen=True)
class Between:
    """An unknown number with bounds: a count or a sum of calls of which some may not count."""

    least: Any
    most: Any


class SetRange(tuple[frozenset[str], frozenset[str]]):
    """An unknown set: the items that it has, and those that it can have."""

    __slots__ = ()

    def __new__(cls, least: frozenset[str], most: frozenset[str]) -> Self:
        return super().__new__(cls, (least, most))

    def every(self) -> list[frozenset[str]]:
        """All sets that it can be."""
        open_items = sorted(self[1] - self[0])
        return [self[0] | set(some) for n in range(len(open_items) + 1) for some in combinations(open_items, n)]


def _over_sets(function: Callable[[Any, Any], Any], left: Any, right: Any) -> set[Any]:
    """The results for all sets that the operands can be."""
    lefts, rights = (operand.every() if isinstance(operand, SetRange) else [operand] for operand in (left, right))
    return {function(first, second) for first in lefts for second in rights}


def ends(value: Any) -> tuple[Any, Any] | None:
    """The bounds of a number; None for other values."""
    if isinstance(value, Between):
        return value.least, value.most
    return None if number(value) is UNKNOWN else (number(value), number(value))


def both(values: Iterable[Any]) -> Truth:
    """Kleene's *and*. Other values are unknown."""
    truths = list(values)
    if any(value is False for value in truths):
        return False
    return True if all(value is True for value in truths) else UNKNOWN


def either(values: Iterable[Any]) -> Truth:
    """Kleene's *or*."""
    return opposite(both(opposite(value) for value in values))


def opposite(value: Any) -> Truth:
    return not value if isinstance(value, bool) else UNKNOWN


def kind(value: Any) -> str:
    """The kind of a value; empty for null, unknown and non-JSON values."""
    if isinstance(value, SetRange):
        return ""
    for types, name in _KINDS:
        if isinstance(value, types):
            return name
    return ""


_KINDS: list[tuple[Any, str]] = [
    (bool, "truth value"),
    (int | float | Decimal | Fraction, "number"),
    (str, "text"),
    (list | tuple, "list"),
    (frozenset, "set"),
    (Mapping, "mapping"),
]


def number(value: Any) -> Any:
    """A number as the fraction that it prints as."""
    try:
        return Fraction(str(value)) if kind(value) == "number" else UNKNOWN
    except ValueError:  # NaN and infinity
        return UNKNOWN


def string_set(items: list[Any]) -> Any:
    return frozenset(items) if all(kind(item) == "text" for item in items) else UNKNOWN


def sets_combined(left: Any, operator: str, right: Any) -> Any:
    if isinstance(left, SetRange) or isinstance(right, SetRange):
        over_sets = _over_sets(lambda part, other: sets_combined(part, operator, other), left, right)
        if UNKNOWN in over_sets:
            return UNKNOWN
        least, most = frozenset.intersection(*over_sets), frozenset.union(*over_sets)
        return least if least == most else SetRange(least, most)
    if kind(left) != "set" or kind(right) != "set":
        return UNKNOWN
    return left.union(right) if operator == "|" else left.intersection(right)


def _same(results: set[Any]) -> Truth:
    return bool(results.pop()) if len(results) == 1 else UNKNOWN


def ordered(left: Any, right: Any, compare: Callable[[Any, Any], bool]) -> Truth:
    """Compares two numbers, two strings or two sets. Bounds decide if all numbers between them compare alike."""
    if isinstance(left, SetRange) or isinstance(right, SetRange):
        return _same(_over_sets(lambda part, other: ordered(part, other, compare), left, right))
    if isinstance(left, Between) or isinstance(right, Between):
        first, second = ends(left), ends(right)
        if first is None or second is None:
            return UNKNOWN
        compares = {compare(end, other) for end in first for other in second}
        return compares.pop() if len(compares) == 1 else UNKNOWN
    if kind(left) == kind(right) and kind(left) in ("text", "set"):
        return compare(left, right)
    left, right = number(left), number(right)
    return UNKNOWN if UNKNOWN in (left, right) else compare(left, right)


def equal(left: Any, right: Any) -> Truth:
    if isinstance(left, SetRange) or isinstance(right, SetRange):
        return _same(_over_sets(equal, left, right))
    if isinstance(left, Between) or isinstance(right, Between):
        apart = either([ordered(left, right, lt), ordered(right, left, lt)])
        return False if apart is True else UNKNOWN
    if not kind(left) or kind(left) != kind(right):
        return UNKNOWN
    match kind(left):
        case "number":
            return ordered(left, right, Fraction.__eq__)
        case "list":
            return both(map(equal, left, right)) if len(left) == len(right) else False
        case "mapping":
            return both(equal(left[key], right[key]) for key in left) if set(left) == set(right) else False
    return bool(left == right)


def contained(item: Any, whole: Any) -> Truth:
    """Whether an item is in a list of scalars of one kind or of lists, or a string in a string or set."""
    if isinstance(whole, SetRange):
        return _same(_over_sets(contained, item, whole))
    if kind(whole) == "list":
        kinds = [kind(member) for member in whole if member is not None]
        if (kinds and kinds.count(kinds[0]) < len(kinds)) or {"mapping", ""}.intersection(kinds):
            return UNKNOWN
        return either(equal(item, member) for member in whole)
    if kind(whole) in ("text", "set") and kind(item) == "text":
        return item in whole
    return UNKNOWN


def computed(left: Any, operator: str, right: Any) -> Any:
    if isinstance(left, Between) or isinstance(right, Between):
        first, second = ends(left), ends(right)
        if first is None or second is None or operator in "/%":
            return UNKNOWN
        corners = [_COMPUTED[operator](Fraction(end), Fraction(other)) for end in first for other in second]
        return Between(min(corners), max(corners))
    if kind(left) == kind(right) == "text":
        return f"{left}{right}" if operator == "+" else UNKNOWN
    left, right = number(left), number(right)
    if UNKNOWN in (left, right) or (operator in "/%" and right == 0):
        return UNKNOWN
    result = _COMPUTED[operator](left, right)
    return int(result) if result.denominator == 1 else result


_COMPUTED: dict[str, Callable[[Any, Any], Any]] = {
    "+": Fraction.__add__,
    "-": Fraction.__sub__,
    "*": Fraction.__mul__,
    "/": Fraction.__truediv__,
    "%": Fraction.__mod__,
}


def looked_up(value: Any, key: Any) -> Any:
    """A field or an item; a string is parsed as JSON."""
    value = from_json(value) if kind(value) == "text" else value
    if kind(value) == "mapping" and kind(key) == "text":
        return none_as_unknown(value.get(key))
    if kind(value) == "list" and isinstance(number(key), Fraction) and -len(value) <= number(key) < len(value):
        return none_as_unknown(value[int(number(key))]) if number(key).denominator == 1 else UNKNOWN
    return UNKNOWN


def none_as_unknown(value: Any) -> Any:
    """Returns the value; null is unknown."""
    return UNKNOWN if value is None else value


def from_json(text: str) -> Any:
    """The value in a JSON text; unknown if it is not one, or has a key twice."""
    try:
        return json.loads(text, parse_float=Fraction, parse_constant=Fraction, object_pairs_hook=_once)
    except ValueError:
        return UNKNOWN


def is_ambiguous(value: Any) -> bool:
    """Whether a value is a text that readers of JSON see differently: no JSON, or JSON that is a text again."""
    return kind(value) == "text" and (from_json(value) is UNKNOWN or kind(from_json(value)) == "text")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > len({key for key, _ in pairs}):
        raise ValueError
    return dict(pairs)
