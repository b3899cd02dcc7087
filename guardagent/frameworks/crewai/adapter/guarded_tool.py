"""The guarded form of a tool, which stands in its place in an agent's executor."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping
from typing import Any, Protocol

from crewai.tools import BaseTool
from crewai.tools.base_tool import Tool
from crewai.tools.tool_failure import ToolFailure
from pydantic import BaseModel, PrivateAttr, create_model

from guardagent._support.execution import Operation
from guardagent.enforcement.hosts import UNREAD, finished
from guardagent.frameworks.crewai.adapter.arguments import CrewArguments

_NO_ARGUMENTS: type[BaseModel] = create_model("Unread")


class CrewInvoker(Protocol):
    """Judges and runs the calls of tools, in both forms."""

    def invoke(self, tool: CrewTool, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any: ...

    async def ainvoke(self, tool: CrewTool, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any: ...


class CrewTool(BaseTool):
    """Judges each call of a tool, and runs the tool with the judged arguments. Make it with `guarded_tool`."""

    _tool: BaseTool = PrivateAttr()
    _arguments: CrewArguments = PrivateAttr()
    _invoker: CrewInvoker = PrivateAttr()

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        return self._invoker.invoke(self, args, kwargs)

    async def _arun(self, *args: Any, **kwargs: Any) -> Any:
        return await self._invoker.ainvoke(self, args, kwargs)

    def format_output_for_agent(self, raw_result: Any) -> str:
        if isinstance(raw_result, ToolFailure):
            return str(raw_result.as_agent_message())
        return str(self._tool.format_output_for_agent(raw_result))

    @property
    def guardagent_arguments(self) -> CrewArguments:
        """Reads the tool's arguments."""
        return self._arguments

    @property
    def guardagent_server(self) -> str | None:
        """The name of the MCP server that runs the tool; None for others."""
        return server_of(self._tool)

    def guarded_by(self, invoker: CrewInvoker) -> BaseTool:
        """Returns the tool itself if this invoker guards it; else this guarded form."""
        return self._tool if self._invoker is invoker else self

    def forget_use(self) -> None:
        """Takes a denied call out of the count of uses, as far as the host counts here."""
        counted: Any = self
        with self._usage_lock:
            counted.current_usage_count = max(0, counted.current_usage_count - 1)

    def work(self, args: Mapping[str, Any]) -> Operation:
        """Returns the work of the tool with these arguments."""
        return Operation(lambda: self._call(args), lambda: self._acall(args))

    def _call(self, args: Mapping[str, Any]) -> Any:
        output = self._tool._run(**args)  # noqa: SLF001 - as the host calls it
        return finished(self.name, asyncio.run(output) if inspect.iscoroutine(output) else output)

    async def _acall(self, args: Mapping[str, Any]) -> Any:
        overridden = type(self._tool)._arun not in (BaseTool._arun, Tool._arun)  # noqa: SLF001
        output = self._tool._arun(**args) if overridden else self._tool._run(**args)  # noqa: SLF001
        return finished(self.name, await output if inspect.isawaitable(output) else output)


def guarded_tool(tool: BaseTool, arguments: CrewArguments, invoker: CrewInvoker, *, unread: bool) -> CrewTool:
    """Returns the guarded form of a tool. The tool itself is not changed.

    Args:
        tool: the tool.
        arguments: reads its arguments.
        invoker: judges and runs.
        unread: whether its server has added or changed it since the operator accepted it.
    """
    made = CrewTool(
        name=tool.name,
        description=UNREAD if unread else tool.description,
        args_schema=_NO_ARGUMENTS if unread else tool.args_schema,
        result_schema=tool.result_schema,
        cache_function=never_cached,
        result_as_answer=tool.result_as_answer,
        max_usage_count=tool.max_usage_count,
        tool_failure_policy=tool.tool_failure_policy,
    )
    made._tool, made._arguments, made._invoker = tool, arguments, invoker  # noqa: SLF001 - of this module
    return made


def server_of(tool: BaseTool) -> str | None:
    """Returns the name of the MCP server that runs a tool; None for others."""
    name = getattr(tool, "server_name", None)
    return name if isinstance(name, str) and hasattr(tool, "original_tool_name") else None


def never_cached(_args: Any = None, _result: Any = None) -> bool:
    """The cache function of guarded tools: a cached result would get past the guard."""
    return False
