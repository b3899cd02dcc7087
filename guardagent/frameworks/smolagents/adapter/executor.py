"""The executor of generated code, which gets guarded functions only."""

from __future__ import annotations

import contextvars
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from smolagents.local_python_executor import BASE_PYTHON_TOOLS, ExecutionTimeoutError, LocalPythonExecutor

from guardagent._support.requirements import require_parts
from guardagent.enforcement.hosts import finished
from guardagent.errors import InputError
from guardagent.frameworks.smolagents.adapter.arguments import ToolArguments
from guardagent.frameworks.smolagents.adapter.attachment_base import SmolagentsParts
from guardagent.frameworks.smolagents.adapter.guarded_tool import code_function, is_code_function

_DEEPEST = 100


def guard_executor(executor: Any, attachment: SmolagentsParts) -> None:
    """Guards the executor of a CodeAgent in place.

    Raises:
        InputError: the code runs elsewhere, where the tools are copies that no guard sees.
    """
    if not isinstance(executor, LocalPythonExecutor):
        raise InputError(
            f"a {type(executor).__name__} runs copies of the tools elsewhere, where no guard sees them; "
            "expected executor_type='local'"
        )
    if isinstance(executor, _GuardedExecutor):
        if executor.guardagent_attachment.guard is not attachment.guard:
            raise InputError("this executor has another guard already; expected one guard for all agents")
        return
    require_parts(executor, "send_tools", "send_variables", "static_tools", "additional_functions", "timeout_seconds")
    executor.guardagent_attachment = attachment
    executor.guardagent_seconds, executor.timeout_seconds = executor.timeout_seconds, None
    base = type(executor)
    executor.__class__ = type(base.__name__, (_GuardedExecutor, base), {"__module__": base.__module__})
    if executor.static_tools:
        executor.send_tools(executor.static_tools)


class _GuardedExecutor(LocalPythonExecutor):
    """Gives code only guarded functions, and runs it in the context of its run."""

    guardagent_attachment: SmolagentsParts
    guardagent_seconds: float | None

    def send_tools(self, tools: Mapping[str, Any]) -> None:
        super().send_tools(dict(tools))
        self._replace_tools()

    def send_variables(self, variables: Mapping[str, Any]) -> None:
        """Adds variables of the code. A function in one would be a tool that no guard sees.

        Raises:
            InputError: one is a function, or a collection that holds one.
        """
        for name, value in variables.items():
            if _holds_function(value):
                raise InputError(f"the variable {name!r} has a function, which no guard would see; pass it as a tool")
        super().send_variables(variables)

    def __call__(self, code_action: str) -> Any:
        self._replace_tools()
        context, done = contextvars.copy_context(), _Done()
        work = threading.Thread(target=context.run, args=(done.of, super().__call__, code_action), daemon=True)
        work.start()  # the host's own thread would have an empty context
        work.join(self.guardagent_seconds)
        if not done.ended:
            raise ExecutionTimeoutError(
                f"Code execution exceeded the maximum time of {self.guardagent_seconds} seconds"
            )
        if done.error is not None:
            raise done.error
        return done.output

    def _replace_tools(self) -> None:
        """Replaces tools and functions by guarded functions; those of Python itself stay."""
        tools = self.static_tools or {}
        for name, tool in tools.items():
            if not is_code_function(tool) and tool is not BASE_PYTHON_TOOLS.get(name):
                tools[name] = self.guardagent_attachment.code_function(name, tool)


def _holds_function(value: Any, depth: int = 0) -> bool:
    """Whether a value is a function or holds one, or is nested too deeply to tell."""
    if isinstance(value, Mapping):
        value = [*value, *value.values()]
    if isinstance(value, list | tuple | set | frozenset | deque):
        return depth > _DEEPEST or any(_holds_function(one, depth + 1) for one in value)
    return callable(value) and not isinstance(value, type)


class _Done:
    """The end of a thread's work."""

    def __init__(self) -> None:
        self.ended, self.output = False, None
        self.error: BaseException | None = None

    def of(self, work: Callable[..., Any], *args: Any) -> None:
        try:
            self.output = work(*args)
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            self.error = error
        self.ended = True


def guarded_function(attachment: SmolagentsParts, function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Returns the guarded form of one of the executor's `additional_functions`."""
    arguments = ToolArguments.of_function(function, name, attachment.unjudged.get(name, ()))
    attachment.list_tool(arguments.spec)

    def work(**kwargs: Any) -> Any:
        return finished(name, function(**kwargs))

    return code_function(lambda *args, **kwargs: attachment.invoke(arguments, args, kwargs, work), name)
