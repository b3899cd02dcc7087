"""The guarded copy of a tool."""

from __future__ import annotations

import asyncio
import copy
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from llama_index.core.tools import AsyncBaseTool, FunctionTool
from llama_index.core.tools.types import adapt_to_async_tool

from guardagent._support.execution import Operation
from guardagent._support.requirements import require_parts
from guardagent.enforcement.hosts import finished
from guardagent.frameworks.llama_index.adapter.arguments import LlamaArguments

Work = Callable[..., Operation]
"""The work of a tool with these arguments."""


class LlamaInvoker(Protocol):
    """Judges and runs calls, in both forms."""

    def invoke(
        self, arguments: LlamaArguments, args: tuple[Any, ...], kwargs: Mapping[str, Any], work: Work
    ) -> Any: ...

    def ainvoke(
        self, arguments: LlamaArguments, args: tuple[Any, ...], kwargs: Mapping[str, Any], work: Work
    ) -> Awaitable[Any]: ...


def guarded_tool(tool: Any, arguments: LlamaArguments, invoker: LlamaInvoker) -> Any:
    """Returns the guarded copy of a tool: of a FunctionTool, one with a guarded function.

    That copy does not refer to the tool, so that an attachment forgets both. A FunctionTool with another `acall`, which
    may do more than to call its function, is guarded as a whole.
    """
    own, host = (inspect.getattr_static(one, "acall", None) for one in (tool, FunctionTool))
    if not isinstance(tool, FunctionTool) or own is not host:
        return LlamaTool(adapt_to_async_tool(tool), arguments, invoker)
    require_parts(tool, "_fn", "_async_fn", "_real_fn", "requires_context", "ctx_param_name", "partial_params")
    created = copy.copy(tool)

    def call(*args: Any, **kwargs: Any) -> Any:
        return invoker.invoke(arguments, args, kwargs, work)

    async def acall(*args: Any, **kwargs: Any) -> Any:
        return await invoker.ainvoke(arguments, args, kwargs, work)

    is_async, own_sync = inspect.iscoroutinefunction(tool.real_fn), tool.fn
    own_async = tool.async_fn if is_async or tool.real_fn is not tool.fn else None

    def work(**kwargs: Any) -> Operation:
        async def run() -> Any:
            if own_async is not None:
                return finished(arguments.spec.name, await own_async(**kwargs))
            return finished(arguments.spec.name, await asyncio.to_thread(own_sync, **kwargs))  # with the run's context

        return Operation(lambda: finished(arguments.spec.name, own_sync(**kwargs)), run)

    created._fn, created._async_fn = call, acall  # noqa: SLF001 - the host's seam
    created.guardagent_guard, created.guardagent_name = invoker, arguments.spec.name
    return created


class LlamaTool(AsyncBaseTool):
    """Judges each call of a tool that is not a FunctionTool.

    Args:
        tool: the tool itself.
        arguments: reads its arguments.
        invoker: judges and runs.
    """

    def __init__(self, tool: Any, arguments: LlamaArguments, invoker: LlamaInvoker) -> None:
        self._tool, self._arguments, self.guardagent_guard = tool, arguments, invoker
        self.guardagent_name = arguments.spec.name

    @property
    def metadata(self) -> Any:
        return self._tool.metadata

    def call(self, *args: Any, **kwargs: Any) -> Any:
        return self.guardagent_guard.invoke(self._arguments, args, kwargs, self._work)

    async def acall(self, *args: Any, **kwargs: Any) -> Any:
        return await self.guardagent_guard.ainvoke(self._arguments, args, kwargs, self._work)

    def _work(self, **kwargs: Any) -> Operation:
        by_position = tuple(kwargs.values()) if len(kwargs) == 1 else ()
        named = {} if by_position else kwargs  # as the host calls tools of one argument

        return Operation(
            lambda: self._tool.call(*by_position, **named), lambda: self._tool.acall(*by_position, **named)
        )
