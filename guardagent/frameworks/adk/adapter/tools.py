"""The class of a guarded tool, which judges at the tool, and the ways to act that a guard of tools cannot see.

The host's hook before a tool sees the arguments too early: a callback of the agent may still change them, and the host
then converts them. So the plugin only sees to it that the tool has this class. Ways to act past the tools are refused,
unless the operator names them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from functools import cache, partial
from typing import Any

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.models.llm_request import LlmRequest
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.authenticated_function_tool import AuthenticatedFunctionTool
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.set_model_response_tool import SetModelResponseTool

from guardagent._support.requirements import require_parts
from guardagent.errors import InputError
from guardagent.frameworks.adk.adapter.calls import AdkInvocation, require_distinct
from guardagent.frameworks.adk.adapter.runs import AdkAdapter, scope
from guardagent.frameworks.adk.package import PARTS

# --- guarded tools

SEAMS = frozenset({"run_async", "_invoke_callable", "_run_generator_as_node"})
MARK = "guardagent_guarded"
_running: ContextVar[tuple[Any, Any, AdkAdapter] | None] = ContextVar("guardagent_adk_running", default=None)


def guard_tool(tool: Any) -> None:
    """Guards a tool in place. It is judged only in a run that has a guard.

    Raises:
        InputError: it cannot be guarded.
    """
    if not isinstance(tool, BaseTool):
        raise InputError(f"this is a {type(tool).__name__}; expected a tool of ADK")
    if not SEAMS.isdisjoint(vars(tool)):
        own = next(variable for variable in vars(tool) if variable in SEAMS)
        raise InputError(f"the tool {tool.name!r} has a {own!r} of its own, so its calls cannot be judged")
    kind: Any = type(tool)
    if hasattr(kind, MARK) or isinstance(tool, SetModelResponseTool):
        return  # that tool only sets the answer, which is judged
    require_parts(tool, *PARTS["BaseTool"].split(), *(PARTS["FunctionTool"].split() if _has_function(kind) else ()))
    try:
        tool.__class__ = guarded_class(kind)
    except TypeError as error:
        raise InputError(f"the tool {tool.name!r} cannot be judged: {error}") from None


@cache
def guarded_class(base: Any) -> Any:
    """Returns the class of a guarded tool."""
    kind = _GuardedFunctionTool if _has_function(base) else _GuardedBaseTool
    return type(base)(base.__name__, (kind, base), {"__module__": base.__module__, MARK: True})


def _has_function(kind: Any) -> bool:
    """Whether the calls of a class of tools all go through its `_invoke_callable`, with the function's arguments."""
    if not issubclass(kind, FunctionTool):
        return False
    runs = {FunctionTool.run_async, AuthenticatedFunctionTool.run_async}
    return kind.run_async in runs and kind._invoke_callable is FunctionTool._invoke_callable  # noqa: SLF001 - the seam


def adapter_of(context: Any) -> AdkAdapter | None:
    """Returns the adapter of a context's runner, or of the tool around it; None if there is no guard."""
    for plugin in context._invocation_context.plugin_manager.plugins:  # noqa: SLF001 - the public method copies it
        if isinstance(adapter := getattr(plugin, "guardagent_adapter", None), AdkAdapter):
            return adapter
    around = scope()
    return around.adapter if around is not None else None


class _GuardedBaseTool(BaseTool):  # a base of its own would change the layout of instances
    """Judges a call with the arguments of `run_async`."""

    async def run_async(self: Any, *, args: dict[str, Any], tool_context: Any) -> Any:
        run, adapter = partial(super().run_async, tool_context=tool_context), adapter_of(tool_context)
        if adapter is None or self.name in adapter.unguarded:
            return await run(args=args)
        invocation = AdkInvocation(adapter, self, tool_context, args)
        if isinstance(self, AgentTool) and not self.include_plugins:
            problem = f"the agent {self.name!r} would run without a guard, as it has include_plugins=False"
            return await invocation.refused(problem)
        return await invocation.answered(lambda judged: run(args=judged))


class _GuardedFunctionTool(BaseTool):
    """Judges a call with the arguments of the function, after the host's conversion."""

    async def run_async(self: Any, *, args: dict[str, Any], tool_context: Any) -> Any:
        adapter = adapter_of(tool_context)
        if adapter is None or self.name in adapter.unguarded:
            return await super().run_async(args=args, tool_context=tool_context)
        try:
            require_distinct(self.name, args)
        except InputError as error:
            return await AdkInvocation(adapter, self, tool_context).refused(str(error))
        token = _running.set((self, tool_context, adapter))
        try:
            return await super().run_async(args=args, tool_context=tool_context)
        finally:
            _running.reset(token)

    async def _invoke_callable(self: Any, target: Any, args_to_call: dict[str, Any]) -> Any:
        run = super()._invoke_callable
        if target is not self.func:
            return await run(target, args_to_call)
        return await self._judged(args_to_call, lambda args: run(target, args))

    async def _run_generator_as_node(self: Any, *, args_to_call: dict[str, Any], tool_context: Any) -> Any:
        run = super()._run_generator_as_node
        return await self._judged(args_to_call, lambda args: run(args_to_call=args, tool_context=tool_context))

    async def _judged(self: Any, args: Mapping[str, Any], work: Callable[[dict[str, Any]], Any]) -> Any:
        running = _running.get()
        if running is None or running[0] is not self:
            return await work(dict(args))  # of a run without a guard
        _, context, adapter = running
        return await AdkInvocation(adapter, self, context, args, of_function=True).answered(work)


# --- ways past the tools

CODE = "code_executor"
_ELSEWHERE = ("RemoteA2aAgent", "LangGraphAgent", "ManagedAgent", "AntigravityAgent")
_SEEN = ("function_declarations", "computer_use")  # the host calls the functions of both


def require_guardable(agent: Any, unguarded: frozenset[str]) -> None:
    """Requires that all actions of an agent are calls of tools.

    Raises:
        InputError: it has a way to act without the guard that the operator has not named.
    """
    name = getattr(agent, "name", type(agent).__name__)
    if name in unguarded:
        return
    elsewhere = next((base.__name__ for base in type(agent).__mro__ if base.__name__ in _ELSEWHERE), None)
    if elsewhere is not None:
        _refuse(f"the agent {name!r} is a {elsewhere}, whose tools run elsewhere", name)
    if getattr(agent, "code_executor", None) is not None and CODE not in unguarded:
        _refuse(f"the agent {name!r} has a code executor, which runs a model's code without a tool", CODE)
    if getattr(agent, "mode", None) == "task" and getattr(agent, "parent_agent", None) is not None:
        _refuse(
            f"the agent {name!r} has mode='task': ADK runs it even if the call that delegates to it is denied", name
        )
    for tool in getattr(agent, "tools", None) or ():
        if isinstance(tool, AgentTool) and not tool.include_plugins and tool.name not in unguarded:
            _refuse(f"the tool {tool.name!r} has include_plugins=False, so that its agent has no guard", tool.name)


def require_own_tools(request: Any, unguarded: frozenset[str]) -> None:
    """Requires that a request gives the model only tools that run here.

    Raises:
        InputError: a tool runs at the provider of the model.
    """
    for tool in getattr(request.config, "tools", None) or ():
        fields = getattr(type(tool), "model_fields", None)
        if fields is None:
            _refuse(f"{type(tool).__name__} is not a declaration of functions, so others may run it", "its name")
        for name in fields or ():
            if name not in (*_SEEN, *_named(unguarded)) and getattr(tool, name) is not None:
                _refuse(f"the tool {name!r} runs at the provider of the model, where no guard sees it", name)
    if getattr(request.config, "automatic_function_calling", None) is not None and _is_automatic(request.config):
        _refuse("the client of the model would call functions by itself (automatic_function_calling)", "its name")


async def live_request(agent: Any, context: Any) -> LlmRequest:
    """Returns a request with the tools that an agent gives to a live model."""
    request = LlmRequest()
    if not isinstance(agent, LlmAgent):
        return request
    request.model = agent.canonical_live_model.model
    for tool in await agent.canonical_tools(ReadonlyContext(context.get_invocation_context())):
        await tool.process_llm_request(tool_context=context, llm_request=request)
    return request


def agents_of(root: Any) -> Iterator[Any]:
    """Yields an agent or a node, and all that it declares: sub-agents, agents as tools, and nodes of a workflow."""
    known, waiting = set[int](), [root]
    while waiting:
        member = waiting.pop()
        if id(member) in known:
            continue
        known.add(id(member))
        yield member
        waiting += getattr(member, "sub_agents", None) or ()
        waiting += [tool.agent for tool in getattr(member, "tools", None) or () if isinstance(tool, AgentTool)]
        children = getattr(member, "_iter_static_children", None)
        waiting += children() if children is not None else ()


def declared_tools(root: Any) -> tuple[list[Any], list[Any]]:
    """Returns the tools that agents declare, and the sets of tools, which only running them lists."""
    tools, sets = list[Any](), list[Any]()
    for agent in agents_of(root):
        if isinstance(tool := getattr(agent, "tool", None), BaseTool):  # a tool as a node of a workflow
            tools.append(tool)
        for listed_tool in getattr(agent, "tools", None) or ():
            if isinstance(listed_tool, BaseToolset):
                sets.append(listed_tool)
            elif isinstance(listed_tool, BaseTool):
                tools.append(listed_tool)
            elif callable(listed_tool) and not isinstance(listed_tool, BaseAgent):
                tools.append(FunctionTool(listed_tool))
    return tools, sets


def _named(unguarded: frozenset[str]) -> frozenset[str]:
    return unguarded | {"code_execution"} if CODE in unguarded else unguarded  # of a BuiltInCodeExecutor


def _is_automatic(config: Any) -> bool:
    calling = config.automatic_function_calling
    return not calling.disable and any(callable(tool) for tool in config.tools or ())


def _refuse(problem: str, name: str) -> None:
    raise InputError(f"{problem}; take it away, or say unguarded={{{name!r}}} if it may run without a guard")
