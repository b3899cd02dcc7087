"""Ranges of numbers: what is certain for each number within bounds."""

from __future__ import annotations

from functools import reduce

from guardagent.policy.logic import expressions as ex
from guardagent.policy.logic.expressions import Expression, neg
from guardagent.policy.logic.values import (
    UNKNOWN,
    Leaf,
    Range,
    ScalarValue,
    Value,
    of_leaf,
    truth,
)


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
    corners = [ex.arithmetic(one, sign, other) for one in first for other in second]
    return of_leaf(Range(reduce(ex.least, corners), reduce(ex.greatest, corners)))
