"""The tool executor of a guarded agent: whatever tools a turn has, it registers their guarded copies."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

from ag2.tools import Toolkit
from ag2.tools.builtin.tool_search import ToolSearchTool


class GuardedToolExecutor:
    """Registers guarded tools for a turn.

    Args:
        executor: the executor itself.
        guard_tool: returns the guarded form of a tool.
        check_tools: compares new tools with the rules.
    """

    def __init__(self, executor: Any, guard_tool: Callable[[Any], Any], check_tools: Callable[[], None]) -> None:
        self._executor, self._guard_tool, self._check_tools = executor, guard_tool, check_tools

    def __getattr__(self, name: str) -> Any:
        if name == "_executor":
            raise AttributeError(name)
        return getattr(self._executor, name)

    def register(self, stack: Any, context: Any, *, tools: Iterable[Any] = (), **options: Any) -> None:
        """Registers the tools.

        Raises:
            InputError: one cannot be guarded.
        """
        found = [self._guard_tool(one) for one in tools]
        self._check_tools()
        self._executor.register(stack, context, tools=found, **options)


def with_members(tool: Any, guard_tool: Callable[[Any], Any]) -> Any:
    """Returns a copy of a toolkit with guarded members; None for other tools."""
    if not isinstance(tool, Toolkit | ToolSearchTool):
        return None
    created = copy.copy(tool)
    created._tools = {name: guard_tool(one) for name, one in tool._tools.items()}  # noqa: SLF001 - the host's seam
    return created
