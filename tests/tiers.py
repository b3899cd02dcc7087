"""The two tiers of the suite: a quick one without tests marked slow, and all tests with more examples."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import settings

# No deadline: a busy machine does not make a property fail.
settings.register_profile("quick", deadline=None, max_examples=10)
settings.register_profile("long", deadline=None, max_examples=150)
settings.load_profile("quick")


def examples(count: int) -> int:
    """Returns the profile's number of examples for a property that needs `count` per hundred."""
    return max(1, count * settings().max_examples // 100)


def slow_after(quick: int, values: Iterable[Any]) -> list[Any]:
    """Returns parameters, all but the first few marked slow; a tuple holds the values of several arguments."""
    return _parameters(values, lambda at: at < quick)


def slow_but_every(step: int, values: Iterable[Any]) -> list[Any]:
    """Returns parameters, all marked slow but one of each `step`: a sample of a table whose rows are alike."""
    return _parameters(values, lambda at: at % step == 0)


def _parameters(values: Iterable[Any], is_quick: Callable[[int], bool]) -> list[Any]:
    several = (value if isinstance(value, tuple) else (value,) for value in values)
    return [
        pytest.param(*arguments, marks=[] if is_quick(at) else [pytest.mark.slow])
        for at, arguments in enumerate(several)
    ]
