"""Bounds the data and time that one run may cost the host, in toolbox calls and in its result."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, NoReturn, TypeVar

from guardagent.errors import LimitError

T = TypeVar("T")

MAX_CHARACTERS = 16_000_000
MAX_NODES = 200_000  # values; a shared one counts each time, since a walk visits it each time
MAX_DEPTH = 100
MAX_SECONDS = 5.0  # of toolbox functions

_STRINGS = (str, bytes)
_LISTS = (list, tuple, set, frozenset)


class Budget:
    def __init__(self) -> None:
        self._characters = MAX_CHARACTERS
        self._nodes = MAX_NODES
        self.seconds = 0.0
        """The time that toolbox functions have taken."""

    def spend(self, *values: Any) -> None:
        """Charges the content of these values to the budget.

        Raises:
            LimitError: they exceed the rest of the budget, or are nested too deep.
        """
        level = list(values)
        for _ in range(MAX_DEPTH):
            self._nodes -= len(level)
            level = self._below(level)
            if not level:
                return
        raise LimitError(f"over its limits: it passed the host a value nested deeper than {MAX_DEPTH}")

    def _below(self, level: list[Any]) -> list[Any]:
        """Returns the items one level down: at most the remaining number, plus one value's items.

        Each check passes hundreds of values, most of them strings.
        """
        below: list[Any] = []
        for value in level:
            if type(value) is str or isinstance(value, _STRINGS):
                self._characters -= len(value)
                continue
            if isinstance(value, dict):
                below += value
                below += value.values()
            elif isinstance(value, _LISTS):
                below += value
            if len(below) > self._nodes:
                self._refuse()
        if self._characters < 0:
            self._refuse()
        return below

    def _refuse(self) -> NoReturn:
        bounds = f"{MAX_CHARACTERS:,} characters or {MAX_NODES:,} values"
        raise LimitError(f"over its limits: it passed the host more than {bounds}")

    def call(self, function: Callable[..., T], args: Iterable[Any], kwargs: dict[str, Any]) -> T:
        """Makes a call for a program.

        Raises:
            LimitError: the arguments are too large, or the calls so far have taken too long.
        """
        self.spend(*args, kwargs)
        if self.seconds > MAX_SECONDS:
            raise LimitError(f"over its limits: its calls of toolbox functions took more than {MAX_SECONDS:g} s")
        started = time.monotonic()
        try:
            return function(*args, **kwargs)
        finally:
            self.seconds += time.monotonic() - started
