"""A smallest set of rules that still has a property."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def minimal_set(items: Sequence[T], suffices: Callable[[list[T]], bool]) -> list[T]:
    """Leaves out every item without which the others suffice."""
    kept = list(items)
    for one in items:
        without = [other for other in kept if other is not one]
        if suffices(without):
            kept = without
    return kept
