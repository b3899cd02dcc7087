"""A second implementation of the language's functions, written straight from their definitions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.policy.naive_values import UNKNOWN, kind


def applied(function: str, values: Sequence[Any]) -> Any:
    """The result of a function; unknown if a value is."""
    return UNKNOWN if any(value is UNKNOWN for value in values) else FUNCTIONS[function](*values)


def _lower(text: Any) -> Any:
    return text.lower() if kind(text) == "text" else UNKNOWN


FUNCTIONS: dict[str, Callable[..., Any]] = {"lower": _lower}
