"""Refuses the ways to act that a guard of tools cannot see, unless the operator names them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.models.llm_request import LlmRequest
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.function_tool import FunctionTool

from guardagent.errors import InputError

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
    elsewhere = next((one.__name__ for one in type(agent).__mro__ if one.__name__ in _ELSEWHERE), None)
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
        one = waiting.pop()
        if id(one) in known:
            continue
        known.add(id(one))
        yield one
        waiting += getattr(one, "sub_agents", None) or ()
        waiting += [tool.agent for tool in getattr(one, "tools", None) or () if isinstance(tool, AgentTool)]
        children = getattr(one, "_iter_static_children", None)
        waiting += children() if children is not None else ()


def declared_tools(root: Any) -> tuple[list[Any], list[Any]]:
    """Returns the tools that agents declare, and the sets of tools, which only running them lists."""
    tools, sets = list[Any](), list[Any]()
    for agent in agents_of(root):
        if isinstance(tool := getattr(agent, "tool", None), BaseTool):  # a tool as a node of a workflow
            tools.append(tool)
        for one in getattr(agent, "tools", None) or ():
            if isinstance(one, BaseToolset):
                sets.append(one)
            elif isinstance(one, BaseTool):
                tools.append(one)
            elif callable(one) and not isinstance(one, BaseAgent):
                tools.append(FunctionTool(one))
    return tools, sets


def _named(unguarded: frozenset[str]) -> frozenset[str]:
    return unguarded | {"code_execution"} if CODE in unguarded else unguarded  # of a BuiltInCodeExecutor


def _is_automatic(config: Any) -> bool:
    calling = config.automatic_function_calling
    return not calling.disable and any(callable(one) for one in config.tools or ())


def _refuse(problem: str, name: str) -> None:
    raise InputError(f"{problem}; take it away, or say unguarded={{{name!r}}} if it may run without a guard")
