"""The two tiers of the suite: a quick one, which leaves out what is marked slow, and all of it with more examples."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings

# No deadline: how busy a machine is does not make a property fail.
settings.register_profile("quick", deadline=None, max_examples=25)
settings.register_profile("long", deadline=None, max_examples=500)
settings.load_profile("quick")


def examples(count: int) -> int:
    """The number of examples in the profile, of a property that would have `count` where others have a hundred."""
    return max(1, count * settings().max_examples // 100)


def slow_after(quick: int, values: Iterable[Any]) -> list[Any]:
    """Parameters of which all but the first few are slow; a tuple holds the values of several arguments."""
    several = (value if isinstance(value, tuple) else (value,) for value in values)
    return [pytest.param(*one, marks=[pytest.mark.slow] if at >= quick else []) for at, one in enumerate(several)]
