"""Functions of the language with an exact translation; the logic knows the others only on concrete values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce

from guardagent.policy.logic import expressions as ex
from guardagent.policy.logic.expressions import Expression
from guardagent.policy.logic.values import ScalarValue, Value, known_truth, of_leaf

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
