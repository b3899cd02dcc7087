"""The part of an agent that runs its tools."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from strands.tools.executors import ConcurrentToolExecutor, SequentialToolExecutor

from guardagent.errors import InputError

_HOSTS = (ConcurrentToolExecutor, SequentialToolExecutor)


def refuse_executor(executor: Any, unguarded: Collection[str]) -> None:
    """Refuses an executor that may run tools past the host's stages, unless the operator names it.

    Raises:
        InputError: it is not one of the host's.
    """
    kind = type(executor)
    if kind not in _HOSTS and kind.__name__ not in unguarded:
        expected = " or ".join(one.__name__ for one in _HOSTS)
        raise InputError(
            f"the tool_executor is a {kind.__name__}, which may run tools past the guard; expected a {expected}, or "
            f"say unguarded={{{kind.__name__!r}}} if it runs each tool by 'ToolExecutor._stream'"
        )
