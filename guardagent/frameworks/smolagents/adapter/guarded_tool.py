"""The guarded form of a tool, which stands in its place."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from smolagents import Tool

from guardagent.enforcement.hosts import finished
from guardagent.frameworks.smolagents.adapter.arguments import ToolArguments

Invoke = Callable[[ToolArguments, tuple[Any, ...], Mapping[str, Any], Callable[..., Any]], Any]
"""Judges and runs a call: how its arguments are read, by position, by name, and the work."""

_code_functions: weakref.WeakSet[Any] = weakref.WeakSet()


class SmolagentsTool(Tool):
    """Judges each call of a tool, and runs the tool with the judged arguments.

    Args:
        tool: the tool itself. It is not changed.
        arguments: how its arguments are read.
        invoke: judges and runs.
        guard: the guard, to recognise tools of another one.
    """

    skip_forward_signature_validation = True

    def __init__(self, tool: Any, arguments: ToolArguments, invoke: Invoke, guard: object) -> None:
        self.name, self.description, self.inputs = tool.name, tool.description, tool.inputs
        self.output_type, self.output_schema = tool.output_type, getattr(tool, "output_schema", None)
        self.is_initialized = True  # the tool itself is set up within its first allowed call
        self.guardagent_guard, self.guardagent_arguments = guard, arguments
        self._tool, self._invoke = tool, invoke

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._invoke(self.guardagent_arguments, args, kwargs, self._work)

    def _work(self, **kwargs: Any) -> Any:
        if not getattr(self._tool, "is_initialized", True):
            self._tool.setup()
        return finished(self.name, self._tool.forward(**kwargs))

    def to_code_prompt(self) -> str:
        return str(self._tool.to_code_prompt())

    def to_tool_calling_prompt(self) -> str:
        return str(self._tool.to_tool_calling_prompt())

    def to_dict(self) -> dict[str, Any]:
        return dict(self._tool.to_dict())


def code_function(tool: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Returns a function that calls a tool, for generated code: it has no attributes through which to get past it."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return tool(*args, **kwargs)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = getattr(tool, "description", None)
    _code_functions.add(call)
    return call


def is_code_function(value: object) -> bool:
    """Whether `code_function` has made it."""
    return value in _code_functions if inspect.isfunction(value) else False
