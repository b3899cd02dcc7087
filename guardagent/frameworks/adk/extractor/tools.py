"""The tools of an ADK agent: their names, their approval gates, and what they run."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

from guardagent.frameworks.adk.extractor.code import AdkCode
from guardagent.workflow.extraction.objects import AgentTools, UnknownValue, defined_outside, is_a, private_attribute
from guardagent.workflow.python_source.bodies import opaque_calls_in
from guardagent.workflow.python_source.steps import guard_label

ADK = "google.adk"
DISTRIBUTION = "google-adk"
_CONTROL = ("FinishTaskTool", "TransferToAgentTool")  # represented by edges
_DELEGATES = ("_TaskAgentTool", "_SingleTurnAgentTool")
_APPROVAL_TOOLS = ("get_user_choice", "adk_request_input")
_MOST_NESTED = 4


def toolbox(tools: Iterable[object]) -> AgentTools:
    """The toolbox of an agent, from its `tools`."""
    box = AgentTools()
    for tool in tools:
        if isinstance(tool, UnknownValue):
            _unknown_tool(box, tool)
        elif is_a(tool, ADK, "BaseNode"):
            _node(box, str(_name(tool)), tool)
        elif is_a(tool, ADK, "BaseToolset"):
            _toolset(box, tool)
        elif is_a(tool, ADK, "BaseTool"):
            _tool(box, tool)
        elif callable(tool):
            _function(box, _name_of_callable(tool), tool)
        elif tool is not None:
            _wildcard(box, type(tool).__name__, None)
    return box


def _unknown_tool(box: AgentTools, tool: UnknownValue) -> None:
    """Adds a tool defined elsewhere: a function of that name, or a toolset."""
    if tool.is_function:
        box.add(tool.name)
    box.escalates = True
    _wildcard(box, tool.name, None)


def _tool(box: AgentTools, tool: Any) -> None:
    if is_a(tool, ADK, *_CONTROL):
        return
    if is_a(tool, ADK, *_DELEGATES):
        box.add(tool.name)  # the agent itself is among the sub-agents
    elif is_a(tool, ADK, "AgentTool"):
        box.add(tool.name, _declared_gate(tool))
        box.runs.append((tool.name, tool.agent))
    elif is_a(tool, ADK, "NodeTool"):
        _node(box, tool.name, tool.node)
    elif is_a(tool, ADK, "FunctionTool"):
        _function_tool(box, tool)
    else:
        _other_tool(box, tool)


def _node(box: AgentTools, name: str, node: Any) -> None:
    """Adds a node of a workflow as a tool."""
    gate = predicate(getattr(node, "require_confirmation", False))
    box.add(name, gate)
    if gate is None or not is_a(node, ADK, "FunctionNode"):
        box.runs.append((name, node))


def _function_tool(box: AgentTools, tool: Any) -> None:
    gate = _declared_gate(tool)
    if gate is None and is_a(tool, ADK, "LongRunningFunctionTool"):
        _long_running(box, tool)
    else:
        _function(box, tool.name, tool.func, gate)


def _function(box: AgentTools, name: str, function: object, gate: str | None = None) -> None:
    """Adds a function of the program, which may ask a person in its body."""
    code = AdkCode(function)
    box.opaque_calls.extend(what.inside(f"the tool {name}") for what in opaque_calls_in(function))
    box.add(name, _gate_in(box, name, code) if gate is None else gate)
    box.escalates = box.escalates or code.escalates


def _gate_in(box: AgentTools, name: str, code: AdkCode) -> str | None:
    """The gate of a tool whose body always asks a person; None if it does not."""
    if code.always_confirms or code.always_asks:
        return ""
    if code.confirms or code.asks:
        box.notes.append(f"the tool {name!r} asks a person only under a condition; it is not gated")
    return None


def _long_running(box: AgentTools, tool: Any) -> None:
    """Adds a long-running tool, which waits for an answer from outside.

    Its function runs before that, so it is a gate only if the function does nothing but return its value.
    """
    code = AdkCode(tool.func)
    box.opaque_calls.extend(what.inside(f"the tool {tool.name}") for what in opaque_calls_in(tool.func))
    asks = tool.name in _APPROVAL_TOOLS or code.is_pure
    box.add(tool.name, "" if asks else _gate_in(box, tool.name, code))
    box.escalates = box.escalates or code.escalates
    if asks and tool.name not in _APPROVAL_TOOLS:
        box.notes.append(f"the long-running tool {tool.name!r} does nothing by itself; it is assumed to ask a person")
    elif not asks:
        box.notes.append(
            f"the long-running tool {tool.name!r} acts before it is answered; it does not count as an approval"
        )


def _other_tool(box: AgentTools, tool: Any) -> None:
    """Adds a tool of the framework, or of a class of the program."""
    gate = _declared_gate(tool)
    run = defined_outside(tool, ADK, "run_async")
    if run is not None:
        code = AdkCode(functools.partial(run, tool))
        box.opaque_calls.extend(what.inside(f"the tool {tool.name}") for what in opaque_calls_in(code.target))
        gate = _gate_in(box, tool.name, code) if gate is None else gate
        box.escalates = box.escalates or code.escalates
    box.add(tool.name, gate)


def _declared_gate(tool: Any) -> str | None:
    """The gate that a tool declares; None if it needs no confirmation."""
    check = defined_outside(tool, ADK, "check_require_confirmation")
    if check is not None:
        return guard_label(AdkCode(functools.partial(check, tool)), "check_require_confirmation")
    if is_a(tool, ADK, "FunctionTool", "McpTool", "MCPTool"):
        return predicate(private_attribute(tool, "_require_confirmation", DISTRIBUTION))
    return None


def predicate(required: object) -> str | None:
    """The gate of a flag, or of a function that decides for each call."""
    if not callable(required):
        return "" if required else None
    return guard_label(AdkCode(required), _name_of_callable(required))


def _toolset(box: AgentTools, toolset: Any) -> None:
    """Adds a toolset: the tools that a filter names, or that it holds; else a wildcard."""
    gate = predicate(getattr(toolset, "require_confirmation", False))
    prefix = f"{toolset.tool_name_prefix}_" if getattr(toolset, "tool_name_prefix", None) else ""
    chosen = getattr(toolset, "tool_filter", None)
    held = list(_tools_held(list(vars(toolset).values()), _MOST_NESTED))
    if isinstance(chosen, list | tuple | set | frozenset) and all(isinstance(one, str) for one in chosen):
        by_name = {one.name: one for one in held}
        for name in chosen:
            box.add(f"{prefix}{name}", gate if gate is not None else _gate_of(by_name.get(name)))
        return
    for tool in held:
        box.add(f"{prefix}{tool.name}", gate if gate is not None else _gate_of(tool))
    if not (held and is_a(toolset, ADK, "OpenAPIToolset")):
        _wildcard(box, f"{prefix}{type(toolset).__name__}", gate)


def _wildcard(box: AgentTools, source: str, gate: str | None) -> None:
    """Adds a wildcard for tools of which only the source is known."""
    box.add(f"{source}.*", gate)
    if f"{source}.*" not in box.unknown:
        box.unknown.append(f"{source}.*")


def _gate_of(tool: object) -> str | None:
    if tool is None:
        return None
    box = AgentTools()
    _tool(box, tool)
    return (box.gated_when.get(box.gated[0], "")) if box.gated else None


def _tools_held(values: list[Any], depth: int) -> Iterable[Any]:
    """The tools in the attributes of a toolset."""
    for value in values:
        if is_a(value, ADK, "BaseTool"):
            yield value
        elif depth and isinstance(value, list | tuple):
            yield from _tools_held(list(value), depth - 1)
        elif depth and isinstance(value, dict):
            yield from _tools_held(list(value.values()), depth - 1)


def _name(tool: Any) -> object:
    return tool.name


def _name_of_callable(target: Any) -> str:
    """The name that the framework gives a callable: of the function inside a partial, or of the class."""
    while isinstance(target, functools.partial) and not hasattr(target, "__name__"):
        target = target.func
    return str(getattr(target, "__name__", None) or type(target).__name__)
