"""The guarded copy of a tool: the host validates and converts as before, and the guard stands at the function."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from agent_framework import FunctionTool

from guardagent._support.requirements import require_parts
from guardagent.errors import InputError
from guardagent.frameworks.agent_framework.adapter.arguments import FunctionToolArguments
from guardagent.frameworks.agent_framework.adapter.servers import send_once

_TOOL_PARTS = (
    "func",
    "_invoke_function",
    "_prepare_arguments",
    "_context_parameter_name",
    "_instance",
    "max_invocations",
    "max_invocation_exceptions",
)
_OWN = ("invoke", "__call__", "_invoke_function")
_GUARD, _ORIGINAL = "guardagent_calls", "guardagent_original"

Work = Callable[[Mapping[str, Any]], Awaitable[Any]]
"""The work of a tool with these arguments."""
Invoke = Callable[[FunctionToolArguments, Mapping[str, Any], Work], Awaitable[Any]]
"""Judges a call and runs it."""


def guarded_tool(tool: FunctionTool, arguments: FunctionToolArguments, calls: Any) -> FunctionTool:
    """Returns a copy of a tool whose function is judged by `calls.invoke`. The limits of the tool itself still count.

    Raises:
        InputError: the tool does not run its function in the way of the host.
    """
    require_parts(tool, *_TOOL_PARTS)
    if any(getattr(type(tool), name) is not getattr(FunctionTool, name) for name in _OWN):
        raise InputError(
            f"{tool.name!r} is a {type(tool).__name__} with a way of its own to run; expected a FunctionTool, "
            f"or name it in unguarded={{{tool.name!r}}}"
        )
    send_once(tool)
    created = copy.copy(tool)

    async def work(args: Mapping[str, Any]) -> Any:
        return _finished(tool.name, await tool._invoke_function(args))  # noqa: SLF001 - counts calls, and starts threads

    async def call(**kwargs: Any) -> Any:
        return await calls.invoke(arguments, kwargs, work)

    created.func, created._instance = call, None  # noqa: SLF001 - the original is bound
    created.max_invocations = created.max_invocation_exceptions = None  # the original counts
    vars(call).update({_GUARD: calls, _ORIGINAL: tool})  # the host writes the attributes of a tool into its dict
    return created


def guard_of(tool: Any) -> Any:
    """Returns what judges a guarded tool; None for others."""
    return getattr(getattr(tool, "func", None), _GUARD, None)


def original_of(tool: Any) -> Any:
    """Returns the tool behind a guarded one; other tools as they are."""
    return getattr(getattr(tool, "func", None), _ORIGINAL, tool)


def _finished(name: str, output: Any) -> Any:
    """Returns a tool's output if its work is done.

    Raises:
        InputError: the work has not begun, as that of a generator.
    """
    if not (inspect.isgenerator(output) or inspect.isasyncgen(output)):
        return output
    if isinstance(output, type(_ for _ in ())):
        output.close()
    raise InputError(f"{name} returned a {type(output).__name__}, whose work is not done yet")
