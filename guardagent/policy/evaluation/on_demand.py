"""Values by number, each made when it is first used: a conversation touches few of a large policy's rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class OnDemand(dict[int, T], Generic[T]):
    """A mapping that makes a missing value by its number.

    Args:
        make: for each number, a function that makes its value.
        made: values that are there already.
    """

    __slots__ = ("_make",)

    def __init__(self, make: Sequence[Callable[[], T]], made: Mapping[int, T] | None = None) -> None:
        super().__init__(made or ())
        self._make = make

    def __missing__(self, number: int) -> T:
        found = self[number] = self._make[number]()
        return found

    def changed(self, change: Callable[[int, T], T]) -> OnDemand[T]:
        """Returns another mapping with a changed value for each one that is there."""
        return OnDemand(self._make, {number: change(number, value) for number, value in self.items()})
