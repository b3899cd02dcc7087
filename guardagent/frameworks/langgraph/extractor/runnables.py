"""Opens runnables: collects the functions, tools and graphs that they contain."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from types import FunctionType, MethodType
from typing import Any

from guardagent.workflow.extraction.objects import defined_outside, is_a
from guardagent.workflow.model.graph import Unseen
from guardagent.workflow.python_source.bodies import ReadableFunction, is_program_code
from guardagent.workflow.python_source.values import LiveValue, Stub

_FRAMEWORKS = ("langgraph", "langchain", "langchain_core")
_FUNCTION_RUNNABLES = ("RunnableLambda", "RunnableGenerator")


@dataclass(frozen=True, eq=False)
class GraphTool:
    """A tool, with the functions that implement it."""

    name: str
    functions: tuple[object, ...] = ()


@dataclass
class RunnableContents:
    """The contents of a runnable.

    Attributes:
        functions: the functions that it calls, in order.
        hooks: the program's functions that functions of the framework call.
        tools: the tools that it runs.
        graphs: the graphs that it runs.
        tool_nodes: the tool nodes in it.
        middleware: the agent middleware whose methods it calls.
        server_tools: the tools that the model provider runs.
        remote: it runs a graph of another service.
        models: it calls a model.
        passes_through: it returns its input.
        composed: it has several components.
        unseen: descriptions of what it runs that cannot be seen.
    """

    functions: list[object] = field(default_factory=list)
    hooks: list[object] = field(default_factory=list)
    tools: list[GraphTool] = field(default_factory=list)
    graphs: list[Any] = field(default_factory=list)
    tool_nodes: list[Any] = field(default_factory=list)
    middleware: list[Any] = field(default_factory=list)
    server_tools: list[str] = field(default_factory=list)
    remote: bool = False
    models: bool = False
    passes_through: bool = False
    composed: bool = False
    unseen: list[Unseen | str] = field(default_factory=list)


@dataclass(eq=False)
class HitlStub(Stub):
    """A stub for human-in-the-loop middleware in source code."""

    interrupt_on: dict[str, Any]


class GraphStub(Stub, LiveValue):
    """A stub for a graph in source code: a StateGraph has a `builder`, a function its `code`."""


def is_graph(target: object) -> bool:
    return (
        isinstance(target, GraphStub) or is_a(target, "langgraph", "Pregel") or is_a(target, "langgraph", "StateGraph")
    )


def is_runnable(target: object) -> bool:
    return isinstance(target, RunnableStub) or is_a(target, "langchain_core", "Runnable") or is_graph(target)


def open_runnable(target: object) -> RunnableContents:
    """The contents of a runnable, a tool or a function, with those of its components."""
    contents, pending, seen = RunnableContents(), [target], set()
    while pending:
        one = pending.pop(0)
        if id(one) not in seen:
            seen.add(id(one))
            parts = list(_record(one, contents))
            contents.composed = contents.composed or len(parts) > 1
            pending[:0] = parts
    return contents


class RunnableStub(Stub):
    """A stub for a runnable in source code."""

    def open(self, contents: RunnableContents) -> Iterable[object]:
        """Records its contents, and returns its components."""
        raise NotImplementedError


class TaskStub(RunnableStub):
    """A stub for a task in source code."""

    func: object


def _record(one: Any, contents: RunnableContents) -> Iterable[object]:  # noqa: C901 - one case for each kind of runnable
    """Records the contents of one runnable, and returns its components."""
    if isinstance(one, RunnableStub):
        return one.open(contents)
    if is_a(one, "langgraph", "RemoteGraph"):
        contents.remote = True
    elif is_graph(one):
        contents.graphs.append(one)
    elif is_a(one, "langgraph", "ToolNode"):
        contents.tool_nodes.append(one)
        contents.tools.extend(tool_of(tool) for tool in one.tools_by_name.values())
    elif is_a(one, "langchain_core", "BaseTool"):
        contents.tools.append(tool_of(one))
    elif is_a(one, "langgraph", "RunnableCallable") or is_a(one, "langchain_core", *_FUNCTION_RUNNABLES):
        _record_functions(one, contents)
    elif is_a(one, "langchain_core", "RunnablePassthrough"):
        contents.passes_through = one.func is None and one.afunc is None
        _record_functions(one, contents)
    elif isinstance(one, FunctionType | MethodType | functools.partial | ReadableFunction):
        contents.functions.append(one)
    elif is_a(one, "langchain_core", "BaseLanguageModel"):
        contents.models = True
    elif is_a(one, "langchain_core", "Runnable") or is_a(one, "langgraph", "RunnableSeq"):
        return _components(one, contents)
    elif callable(one):
        contents.functions.append(one)
    return ()


def _components(one: Any, contents: RunnableContents) -> Iterable[object]:
    """The components of a composed runnable; methods of the program's own class are recorded as functions."""
    if methods := [defined_outside(one, "langchain_core", name) for name in ("invoke", "ainvoke")]:
        contents.functions.extend(MethodType(method, one) for method in methods if isinstance(method, FunctionType))
    found: list[object] = []
    for name in ("steps", "bound", "runnable", "fallbacks", "branches", "default", "mapper", "steps__", "runnables"):
        value = getattr(one, name, None)
        found.extend(_runnables_in(value))
    return found


def _runnables_in(value: object) -> Iterator[object]:
    if isinstance(value, list | tuple):
        for one in value:
            yield from _runnables_in(one)
    elif isinstance(value, dict):
        yield from value.values()
    elif is_runnable(value):
        yield value


def _record_functions(one: Any, contents: RunnableContents) -> None:
    """Records the functions of a callable, except one that only runs the other in a thread."""
    names = ("func", "afunc", "_transform", "_atransform")
    found = [value for name in names if (value := getattr(one, name, None)) is not None]
    for function in found:
        if isinstance(function, functools.partial) and function.func.__name__ == "run_in_executor":
            continue
        owner = getattr(function, "__self__", None)
        if is_a(owner, "langchain", "AgentMiddleware"):
            contents.middleware.append(owner)
        if is_frameworks(function):
            contents.server_tools.extend(_server_tools(function))
            contents.hooks.extend(
                program_functions(function, without="tool_call")
            )  # wrappers of tool calls belong to the tool node
        else:
            contents.functions.append(function)


def is_frameworks(function: object) -> bool:
    """Whether a function belongs to the framework itself."""
    module = getattr(function, "__module__", None) or ""
    return module.partition(".")[0] in _FRAMEWORKS


def _server_tools(function: object) -> Iterator[str]:
    """The tools of an agent that the model provider runs: dictionaries of another type than `function`."""
    for name, value in closure(function):
        if name == "default_tools" and isinstance(value, list):
            for tool in value:
                if isinstance(tool, dict) and tool.get("type") != "function":
                    yield str(tool.get("name") or tool.get("type") or "server tool")


def closure(function: object) -> Iterator[tuple[str, object]]:
    """The closure of a function: its free variables and their values."""
    if isinstance(function, FunctionType):
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
            try:
                yield name, cell.cell_contents
            except ValueError:  # not assigned yet
                continue


def tool_of(tool: Any) -> GraphTool:
    """The tool of a LangChain tool or of a function."""
    if isinstance(tool, FunctionType | MethodType):
        return GraphTool(tool.__name__, (tool,))
    found = [getattr(tool, name, None) for name in ("func", "coroutine")]
    functions = [one for one in found if one is not None]
    if not functions:
        methods = (defined_outside(tool, "langchain_core", name) for name in ("_run", "_arun"))
        functions = [MethodType(one, tool) for one in methods if isinstance(one, FunctionType)]
    return GraphTool(str(tool.name), tuple(functions))


def program_functions(function: object, *, without: str = "") -> list[object]:
    """The program's own functions inside a function that the framework built.

    Args:
        function: a function of the framework.
        without: free variables whose name contains this are skipped.
    """
    found: list[object] = []
    pending, seen = [function], set()
    while pending:
        one = pending.pop()
        if id(one) in seen or one is None:
            continue
        seen.add(id(one))
        if isinstance(one, ReadableFunction):
            found.append(one)
            continue
        inner = one.__func__ if isinstance(one, MethodType) else one
        if isinstance(inner, FunctionType) and is_program_code(inner):
            found.append(one)
            continue
        pending.extend(value for name, value in closure(inner) if not without or without not in name)
        pending.extend([*one] if isinstance(one, list | tuple) else [])
        pending.extend([one.func, *one.args] if isinstance(one, functools.partial) else [])
        pending.append(vars(inner).get("__wrapped__") if isinstance(inner, FunctionType) else None)
    return found
