"""The work of a function as a number of calls, which the load of the machine does not change."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def calls_within(work: Callable[[], object]) -> int:
    """Counts the Python and C functions that some work calls."""
    count = 0

    def note(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count
