"""Agents of Pydantic AI: their tools and approval gates, and the agents that their tools run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from guardagent.workflow.extraction import (
    AgentTools,
    Alternatives,
    Assembly,
    Region,
    RegionEntry,
    RegionExit,
    UnknownValue,
    flattened,
    is_a,
    source_location,
)
from guardagent.workflow.python_source.bodies import FrameworkNames, ReadableFunction, summarize
from guardagent.workflow.python_source.steps import FunctionCode, gate_of, guard_label, owners_of
from guardagent.workflow.python_source.values import CallResult, Instance, NameScope, Stub, is_member_of

AI = "pydantic_ai"
WORDS = FrameworkNames(("pydantic_ai", "pydantic_graph"), reads_agents=True)
RUNS = frozenset({"run", "run_sync", "run_stream", "run_stream_sync", "run_stream_events", "iter"})
_DYNAMIC_TOOLSETS = {"PreparedToolset", "FilteredToolset"}
_SEARCH = "tool_search"  # every agent has it; it only finds other tools
_HANDLERS = {"HandleDeferredToolCalls": "handler", "RequestInput": "ask"}


def is_agent(target: object) -> bool:
    return is_a(target, AI, "AbstractAgent")


def toolbox(agent: Any) -> AgentTools:
    """The toolbox of an agent: its tools and toolsets, output functions, and tools of the model provider."""
    agent = _unwrapped_agent(agent)
    box = AgentTools()
    if isinstance(agent, Stub) and not is_a(agent, AI, "Agent"):
        box.add_source(_name_of(agent))
        return box
    for toolset in agent.toolsets:
        for name, gate in _tools(box, toolset):
            box.add(name, gate)
    for name, function in _output_functions(agent.output_type):
        box.add(name, _gate(box, name, function))
    if isinstance(agent.output_type, UnknownValue | Alternatives) and not agent.output_type.name[:1].isupper():
        box.opaque_calls.append("its output type, which can be a function,")
    for native in getattr(agent, "_cap_native_tools", None) or ():
        if isinstance(native, UnknownValue):
            box.add_source(native.name)
            continue
        name = str(getattr(native, "kind", None) or getattr(native, "__name__", "native"))
        if name != _SEARCH:
            box.add(name)
    _check_handlers(box, agent)
    return box


def _unwrapped_agent(agent: Any) -> Any:
    """The agent that others only wrap; in source code, also other classes of agents can have an attribute `wrapped`."""
    while is_a(agent, AI, "WrapperAgent") or (isinstance(agent, Stub) and not is_a(agent, AI, "Agent")):
        inner = getattr(agent, "wrapped", None)
        if not is_agent(inner) or inner is agent:
            break
        agent = inner
    return agent


def _name_of(agent: Any) -> str:
    return str(getattr(agent, "name", None) or "agent")


def _tools(box: AgentTools, toolset: Any) -> Iterator[tuple[str, str | None]]:
    """The tools of a toolset, each with its gate."""
    if is_a(toolset, AI, "FunctionToolset"):
        always = isinstance(toolset.tools, list) and bool(toolset.requires_approval)  # a live one passes it to each
        for name, tool in _named_tools(box, toolset):
            yield name, _tool_gate(box, name, tool, always=always)
    elif is_a(toolset, AI, "CombinedToolset"):
        for tool_def in toolset.toolsets:
            yield from _tools(box, tool_def)
    elif is_a(toolset, AI, "ExternalToolset", "DeferredToolset"):
        for tool_def in toolset.tool_defs:
            if isinstance(tool_def, UnknownValue):
                box.add_source(tool_def.name)
            else:
                yield tool_def.name, "" if tool_def.kind == "unapproved" else None
    elif is_a(toolset, AI, "WrapperToolset"):
        yield from _wrapped(box, toolset)
    else:
        source = toolset.name if isinstance(toolset, UnknownValue) else getattr(toolset, "id", None)
        yield box.add_source(str(source or type(toolset).__name__)), None


def _named_tools(box: AgentTools, toolset: Any) -> Iterator[tuple[str, Any]]:
    """The tools of a toolset by name; of the source alone, they are a list with functions and unknown ones."""
    if not isinstance(toolset.tools, list):
        yield from toolset.tools.items()
        return
    for tool in flattened(toolset.tools):
        if isinstance(tool, UnknownValue):
            box.add_outside(tool)
        else:
            yield str(tool.name if is_a(tool, AI, "Tool") else tool.__name__), tool


def _wrapped(box: AgentTools, toolset: Any) -> Iterator[tuple[str, str | None]]:
    """The tools of a toolset that wraps another."""
    renamed = {old: new for new, old in toolset.name_map.items()} if is_a(toolset, AI, "RenamedToolset") else {}
    prefix = f"{toolset.prefix}_" if is_a(toolset, AI, "PrefixedToolset") else ""
    approval = is_a(toolset, AI, "ApprovalRequiredToolset")
    for name, gate in _tools(box, toolset.wrapped):
        shown = f"{prefix}{renamed.get(name, name)}"
        box.unknown[:] = [shown if unknown_name == name else unknown_name for unknown_name in box.unknown]
        box.runs[:] = [(shown if run == name else run, inner) for run, inner in box.runs]
        yield shown, _predicate(toolset.approval_required_func) if approval and gate is None else gate
    if is_a(toolset, AI, *_DYNAMIC_TOOLSETS):
        box.notes.append(f"the tools of {type(toolset).__name__} are selected at run time; all are assumed")


def _predicate(function: Any) -> str | None:
    """The gate of an approval function; the library's default always requires approval."""
    if function is None or getattr(function, "__module__", "").partition(".")[0] == AI:
        return ""
    return guard_label(FunctionCode(function), str(getattr(function, "__name__", type(function).__name__)))


def _tool_gate(box: AgentTools, name: str, tool: Any, *, always: bool) -> str | None:
    function = tool.function if is_a(tool, AI, "Tool") else tool
    gate = None if function is None else _gate(box, name, function)
    return "" if always or getattr(tool, "requires_approval", False) else gate


def _gate(box: AgentTools, name: str, function: object) -> str | None:
    """The gate in a tool's function; records the agents that the function runs."""
    code = FunctionCode(function, WORDS)
    for agent, known in agents_run_by(code):
        if known:
            box.runs.append((name, agent))
        else:
            box.notes.append(f"the agent that the tool {name!r} runs is unknown")
            box.add_source(name)
    if _needs_approval(code):
        return ""
    if any(True for _ in _approvals(code)):
        box.notes.append(f"the tool {name!r} asks for approval only under a condition; it is not gated")
    return gate_of(box, name, [function])


def agents_run_by(code: FunctionCode) -> Iterator[tuple[Any, bool]]:
    """The agents that a function runs, each with whether it is known."""
    for _, owners in owners_of(code, RUNS):
        agents = [owner for owner in owners.known if is_agent(owner)]
        yield from ((agent, True) for agent in agents)
        if not owners.complete or not owners.known or any(map(_makes_agent, owners.known)):
            yield None, False


def _makes_agent(owner: object) -> bool:
    """Whether a value is an agent that is known only by its class."""
    kind = owner.callee if isinstance(owner, CallResult) else owner.of if isinstance(owner, Instance) else None
    return kind is not None and is_member_of(kind, AI, "Agent")


def _approvals(code: FunctionCode) -> Iterator[ast.Raise]:
    """The statements of a function and its callees that raise `ApprovalRequired`."""
    for body in code.bodies:
        for node in ast.walk(body.function.tree):
            if isinstance(node, ast.Raise) and _raises_approval(code, node, body.scope):
                yield node


def _raises_approval(code: FunctionCode, node: ast.stmt, scope: NameScope) -> bool:
    raised = node.exc if isinstance(node, ast.Raise) else None
    kind = raised.func if isinstance(raised, ast.Call) else raised
    return any(is_member_of(value, AI, "ApprovalRequired") for value in code.evaluator.value(kind, scope).known)


def _needs_approval(code: FunctionCode) -> bool:
    """Whether a function begins by requiring approval unless the call is approved."""
    if code.body is None or isinstance(code.body.function.tree, ast.Lambda):
        return False
    scope = code.body.scope
    for node in code.body.function.tree.body:
        if _raises_approval(code, node, scope):
            return True
        unapproved = _unapproved_branch(node)
        if unapproved and _raises_approval(code, unapproved[-1], scope):
            return True
    return False


def _unapproved_branch(node: ast.stmt) -> list[ast.stmt]:
    """The branch of a statement that runs exactly if a call is not approved."""
    if not isinstance(node, ast.If):
        return []
    if isinstance(node.test, ast.UnaryOp) and isinstance(node.test.op, ast.Not):
        return node.body if _tests_approval(node.test.operand) else []
    return node.orelse if _tests_approval(node.test) else []


def _tests_approval(test: ast.expr) -> bool:
    return isinstance(test, ast.Attribute) and test.attr == "tool_call_approved"


def _output_functions(output: Any) -> Iterator[tuple[str, Any]]:
    """The output functions of an agent by name, which the model calls like tools."""
    if isinstance(output, list | tuple):
        for part in output:
            yield from _output_functions(part)
    elif is_a(output, AI, "ToolOutput"):
        output_functions = list(_output_functions(output.output))
        yield from ((output.name or name, function) for name, function in output_functions)
    elif is_a(output, AI, "TextOutput"):
        yield from _output_functions(output.output_function)
    elif callable(output) and not isinstance(output, type) and hasattr(output, "__name__") and _has_code(output):
        yield output.__name__, output


def _has_code(output: Any) -> bool:
    return isinstance(output, ReadableFunction) or hasattr(output, "__code__") or hasattr(output, "__func__")


def _check_handlers(box: AgentTools, agent: Any) -> None:
    """Removes the gates if a function of the program approves without always asking a person."""
    for name, handler in _handlers(getattr(agent, "_root_capability", None)):
        if not box.gated or summarize(handler).always_asks:
            continue
        box.notes.append(f"{name!r} approves the calls, and does not visibly ask a person each time")
        box.gated.clear()
        box.gated_when.clear()


def _handlers(capability: Any) -> Iterator[tuple[str, Any]]:
    attribute = _HANDLERS.get(type(capability).__name__)
    if attribute and is_a(capability, AI, *_HANDLERS):
        handler = getattr(capability, attribute)
        yield str(getattr(handler, "__name__", type(handler).__name__)), handler
    several = getattr(capability, "capabilities", None)
    for inner in [*(several if isinstance(several, list | tuple) else ()), getattr(capability, "wrapped", None)]:
        if inner is not None:
            yield from _handlers(inner)


def transitive_tools(agent: Any, seen: frozenset[int] = frozenset()) -> AgentTools:
    """The tools of an agent, with those of the agents that its tools run."""
    box = toolbox(agent)
    for _, inner in tuple(box.runs) if id(agent) not in seen else ():
        box.include(transitive_tools(inner, seen | {id(agent)}))
    return box


class Agents:
    """Builds the region of an agent, with the agents that its tools run."""

    def __init__(self, assembly: Assembly) -> None:
        self.assembly = assembly
        self._leads: dict[str, dict[str, str]] = {}
        self._returns: dict[str, dict[str, None]] = {}

    def region(self, agent: Any) -> Region:
        first = self._member(_unwrapped_agent(agent))
        for node, targets in self._leads.items():
            for target, tool in targets.items():
                self.assembly.connect([RegionExit(node, f"calls {tool}", conditional=True)], [RegionEntry(target)])
        for node, callers in self._returns.items():
            several = len(callers) > 1 or node in self._leads or node == first
            for caller in callers:
                self.assembly.connect([RegionExit(node, conditional=several)], [RegionEntry(caller)])
        last = RegionExit(first, "final output" if first in self._leads else "", conditional=first in self._leads)
        return Region((RegionEntry(first),), (last,))

    def _member(self, agent: Any) -> str:
        name = _name_of(agent)
        node = self.assembly.id(agent, name)
        if self.assembly.has(node):
            return node
        box = toolbox(agent)
        self._describe(node, agent, box)
        for tool, inner in box.runs:
            if _has_tools(inner):
                target = self._member(_unwrapped_agent(inner))
                self._leads.setdefault(node, {}).setdefault(target, tool)
                self._returns.setdefault(target, {})[node] = None
        return node

    def _describe(self, node: str, agent: Any, box: AgentTools) -> None:
        name = _name_of(agent)
        self.assembly.describe_agent(node, name, box, **source_location(agent, name, "Agent"))


def _has_tools(agent: Any) -> bool:
    """Whether an agent has tools, directly or by agents that it runs."""
    return bool(transitive_tools(_unwrapped_agent(agent)).names)
