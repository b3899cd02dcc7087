"""Whether a tool has done its work when it returns."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from typing import Any

from guardagent.errors import InputError


def finished(name: str, output: Any) -> Any:
    """Returns a tool's output if its work is done.

    Raises:
        InputError: the work has not begun, as that of a generator.
        TimeoutError: the work is still running, and may or may not finish.
    """
    if not (inspect.isawaitable(output) or isinstance(output, Future | Iterator | AsyncIterator)):
        return output
    if close := getattr(output, "close", None):
        close()
    raise (TimeoutError if isinstance(output, Future | asyncio.Future) else InputError)(
        f"{name} returned a {type(output).__name__}, whose work is not done yet; expected what it has found"
    )
