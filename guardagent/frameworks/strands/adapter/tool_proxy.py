"""The tool that the host runs in place of a tool: it judges the call."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Protocol

from strands.types.tools import AgentTool


class StrandsCaller(Protocol):
    """Judges and runs calls."""

    def stream(
        self, context: Any, tool: Any, tool_use: Any, state: dict[str, Any], options: dict[str, Any]
    ) -> AsyncIterator[Any]: ...


class StrandsToolProxy(AgentTool):
    """Stands for a tool in one call, behind all hooks and middleware.

    Args:
        tool: the tool itself. It is not changed.
        context: the host's context of the call.
        caller: judges and runs it.
    """

    def __init__(self, tool: Any, context: Any, caller: StrandsCaller) -> None:
        super().__init__()
        self._tool, self._context, self._caller = tool, context, caller

    @property
    def tool_name(self) -> str:
        return str(self._tool.tool_name)

    @property
    def tool_spec(self) -> Any:
        return self._tool.tool_spec

    @property
    def tool_type(self) -> str:
        return str(self._tool.tool_type)

    def stream(self, tool_use: Any, invocation_state: dict[str, Any], **kwargs: Any) -> Any:
        return self._caller.stream(self._context, self._tool, tool_use, invocation_state, kwargs)
