"""Results that a translation needs again."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar

T = TypeVar("T")


class ResultMemory:
    """Keeps results by keys that decide them. Safe to share between threads, which may compute a result twice."""

    def __init__(self) -> None:
        self._known: dict[Hashable, object] = {}

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Returns the result of a key, which is computed on its first use. An exception is no result."""
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]  # type: ignore[return-value]
