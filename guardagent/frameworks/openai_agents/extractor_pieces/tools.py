"""The tools of an agent of the OpenAI Agents SDK: their names and approval gates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from inspect import getclosurevars
from types import FunctionType, MethodType
from typing import Any

from guardagent.workflow.extraction.objects import AgentTools, UnknownValue, defined_outside, is_a, private_attribute
from guardagent.workflow.model.graph import Unseen
from guardagent.workflow.python_source.bodies import FrameworkNames, ReadableFunction, summarize
from guardagent.workflow.python_source.steps import FunctionCode, guard_label
from guardagent.workflow.python_source.values import ImportedName, Stub, is_member_of

SDK = "agents"
DISTRIBUTION = "openai-agents"
WORDS = FrameworkNames((SDK,))
_RUNS = ("run", "run_sync", "run_streamed")


def toolbox(agent: Any) -> AgentTools:
    """The toolbox of an agent: its tools, those of MCP servers and sandbox, and those a stored prompt may add."""
    box = AgentTools()
    for tool in agent.tools:
        _tool(box, tool)
    for server in agent.mcp_servers:
        if isinstance(server, UnknownValue):
            _wildcard(box, server.name)
            continue
        _server(box, server, prefixed=bool(agent.mcp_config.get("include_server_in_tool_names")))
    for capability in getattr(agent, "capabilities", None) or ():
        if isinstance(capability, UnknownValue):
            _wildcard(box, capability.name.lower())
        elif _gives_tools(capability):
            _wildcard(box, str(capability.type))
    if getattr(agent, "prompt", None) is not None:
        _wildcard(box, "prompt")
    _record_callbacks(box, agent)
    return box


def _record_callbacks(box: AgentTools, agent: Any) -> None:
    """Records what the program's callbacks around an agent may run."""
    if defined_outside(agent, SDK, "get_all_tools", "get_mcp_tools") is not None:
        box.opaque_calls.append(f"the class {type(agent).__name__} overrides the methods that list its tools")
    for name, function in _hooks(agent):
        _record_function(box, name, function)
    hooks = getattr(agent, "hooks", None)
    if isinstance(hooks, UnknownValue | Stub):
        box.opaque_calls.append("its hooks")


def _hooks(agent: Any) -> Iterator[tuple[str, object]]:
    """The program's callbacks that the SDK runs around an agent and its tools, by purpose."""
    hooks = getattr(agent, "hooks", None)
    kinds = type(hooks).__mro__ if hooks is not None else ()
    names = dict.fromkeys(name for kind in kinds if not is_sdk(kind) for name in vars(kind) if name.startswith("on_"))
    yield from ((name, getattr(hooks, name)) for name in names)
    callbacks = [(name, getattr(agent, name, None)) for name in ("instructions", "tool_use_behavior")]
    callbacks += [("on_handoff", getattr(one, "on_invoke_handoff", None)) for one in agent.handoffs]
    callbacks += [("is_enabled", getattr(one, "is_enabled", None)) for one in (*agent.tools, *agent.handoffs)]
    for name, value in callbacks:
        for part in [value.func, *value.args] if isinstance(value, partial) else [value]:
            yield from ((name, one) for one in (_captured_functions(part) if is_sdk(part) else [part]))


def _captured_functions(function: object) -> Iterator[object]:
    """The program's functions in the closure of a function of the SDK."""
    if isinstance(function, FunctionType):
        captured = getclosurevars(function).nonlocals.values()
        yield from (one for one in captured if isinstance(one, FunctionType | MethodType) and not is_sdk(one))


def is_sdk(value: object) -> bool:
    """Whether a function or class is the SDK's own."""
    return (getattr(value, "__module__", None) or "").partition(".")[0] == SDK


def _record_function(box: AgentTools, name: str, function: object) -> None:
    """Records what a callback runs, which has no nodes in the graph."""
    if isinstance(function, ReadableFunction) or (callable(function) and not isinstance(function, type | UnknownValue)):
        runs = next(iter(agents_run_by(function)), None) is not None
        unseen = [*([Unseen("an agent that it runs")] if runs else []), *_unseen(function)]
        box.opaque_calls.extend(what.inside(name) for what in unseen)


def _unseen(function: object) -> list[Unseen]:
    """Returns what a function runs that cannot be seen."""
    body = summarize(function)
    named = [use for use in body.method_calls if not use.direct and use.method in _RUNS and _is_runner(use.owner)]
    return [
        *body.opaque_calls_for(SDK),
        *(Unseen(f"what {use.method!r} runs, called by another name") for use in named),
    ]


def _wildcard(box: AgentTools, source: str, gate: str | None = None) -> None:
    box.add(f"{source}.*", gate)
    box.unknown += [f"{source}.*"] if f"{source}.*" not in box.unknown else []


def _unknown_tool(box: AgentTools, tool: UnknownValue) -> None:
    """Adds a tool defined elsewhere: a function of that name, or a toolset."""
    if tool.is_function:
        box.add(tool.name)
    _wildcard(box, tool.name)


def _gives_tools(capability: Any) -> bool:
    """Whether the class of a sandbox capability declares tools."""
    defining = next((kind for kind in type(capability).__mro__ if "tools" in vars(kind)), None)
    return defining is not None and defining.__name__ != "Capability"


def _tool(box: AgentTools, tool: Any) -> None:
    if isinstance(tool, UnknownValue):
        _unknown_tool(box, tool)
    elif is_a(tool, SDK, "FunctionTool"):
        _function_tool(box, tool)
    elif is_a(tool, SDK, "HostedMCPTool"):
        _hosted_mcp(box, tool)
    else:
        gate = predicate(getattr(tool, "needs_approval", False))
        box.add(str(tool.name), _approver_gate(box, tool.name, gate, getattr(tool, "on_approval", None)))


def _function_tool(box: AgentTools, tool: Any) -> None:
    if tool.is_enabled is False:
        return
    gate = predicate(tool.needs_approval)
    inner = private_attribute(tool, "_agent_instance", DISTRIBUTION)
    if inner is not None:
        box.add(tool.name, gate)
        box.runs.append((tool.name, inner))
        return
    function = _function_of(tool)
    box.opaque_calls.extend(what.inside(f"the tool {tool.name}") for what in _unseen(function))
    for use in summarize(function).method_calls:
        if use.method == "on_invoke_tool" and is_a(use.owner, SDK, "FunctionTool"):
            box.add(use.owner.name)  # type: ignore[attr-defined]
    box.add(tool.name, _gate_in(box, tool.name, function) if gate is None else gate)
    for agent, known in agents_run_by(function):
        if known:
            box.runs.append((tool.name, agent))
        else:
            box.notes.append(f"the agent that the tool {tool.name!r} runs is unknown")
            box.unknown.append(f"{tool.name}.*")


def _gate_in(box: AgentTools, name: str, function: object) -> str | None:
    """The gate of a tool whose body always asks a person; None if it does not."""
    body = summarize(function)
    if body.asks and not body.always_asks:
        box.notes.append(f"the tool {name!r} asks a person only under a condition; it is not gated")
    return "" if body.always_asks else None


def _function_of(tool: Any) -> Any:
    """The program's function inside a tool; before 0.24 it has no public attribute."""
    wrapped = getattr(tool, "__wrapped__", None)
    return wrapped or next(_own_functions(tool.on_invoke_tool, 4), tool.on_invoke_tool)


def _own_functions(value: Any, depth: int) -> Iterator[FunctionType]:
    """The functions of the program that an object of the SDK holds."""
    if isinstance(value, FunctionType) and value.__module__.partition(".")[0] != SDK:
        yield value
    elif depth and isinstance(value, FunctionType):
        for inner in getclosurevars(value).nonlocals.values():
            yield from _own_functions(inner, depth - 1)
    elif depth and callable(value) and not isinstance(value, type):
        for inner in getattr(value, "__dict__", {}).values():
            yield from _own_functions(inner, depth - 1)


def agents_run_by(function: object) -> Iterable[tuple[Any, bool]]:
    """The agents that a function runs by `Runner.run`, each with whether it is known."""
    code = FunctionCode(function, WORDS)
    for values, body, call in code.arguments_of(*_RUNS, names=("starting_agent",)):
        owners = code.evaluator.value(call.func.value, body.scope) if hasattr(call.func, "value") else None
        if owners is None or not any(_is_runner(one) for one in owners.known):
            continue
        known = [one for one in values.known if is_a(one, SDK, "AgentBase")]
        yield from ((one, True) for one in known)
        if not known or not values.complete or len(known) < len(values.known):
            yield None, False


def _is_runner(owner: object) -> bool:
    kind = owner if isinstance(owner, type | ImportedName) else type(owner)
    return any(is_member_of(kind, SDK, name) for name in ("Runner", "AgentRunner"))


def predicate(needed: object) -> str | None:
    """The gate of a flag, or of a function that decides for each call."""
    if not callable(needed):
        return "" if needed else None
    return guard_label(FunctionCode(needed, WORDS), str(getattr(needed, "__name__", type(needed).__name__)))


def _approver_gate(box: AgentTools, name: str, gate: str | None, approver: object) -> str | None:
    """The gate, unless a function of the program approves without always asking a person."""
    if gate is None or approver is None:
        return gate
    if summarize(approver).always_asks:
        return gate
    box.notes.append(f"{name}: a function approves it, and does not visibly ask a person each time")
    return None


def _hosted_mcp(box: AgentTools, tool: Any) -> None:
    """Adds the tools of a hosted MCP server, which asks before every call by default."""
    config = tool.tool_config
    label, allowed = str(config.get("server_label", "hosted_mcp")), config.get("allowed_tools")
    names = allowed.get("tool_names") if isinstance(allowed, dict) else allowed
    approval = config.get("require_approval")
    policy = _policy(approval if isinstance(approval, UnknownValue) else approval or "always")
    gates = {name: _approver_gate(box, name or label, gate, tool.on_approval_request) for name, gate in policy.items()}
    _server_tools(box, label, names, gates)


def _server(box: AgentTools, server: Any, *, prefixed: bool) -> None:
    """Adds the tools of an MCP server that a filter allows; others are known only at run time."""
    policy = private_attribute(server, "_needs_approval_policy", DISTRIBUTION)
    gates = _policy(policy)
    chosen = getattr(server, "tool_filter", None)
    allowed = chosen.get("allowed_tool_names") if isinstance(chosen, dict) else None
    blocked = (chosen.get("blocked_tool_names") or ()) if isinstance(chosen, dict) else ()
    names = None if allowed is None else [one for one in allowed if one not in blocked]
    _server_tools(box, str(server.name), names, gates, prefix=f"mcp_{_safe(server.name)}__" if prefixed else "")


def _server_tools(
    box: AgentTools, source: str, names: Iterable[str] | None, gates: dict[str, str | None], prefix: str = ""
) -> None:
    """Adds the tools of a server; `gates` maps each tool to its gate, and the empty name to the default."""
    listed = [one for one in gates if one] if names is None else list(names or ())
    known = [one for one in listed if isinstance(one, str)]  # the source does not determine the others
    for name in known:
        box.add(f"{prefix}{_safe(name) if prefix else name}", gates.get(name, gates[""]))
    if names is None or isinstance(names, UnknownValue) or len(known) < len(listed):
        _wildcard(box, source, gates[""])


def _policy(policy: Any) -> dict[str, str | None]:
    """The gate of each tool of a server; the empty name is the default."""
    if policy in ("always", True):
        return {"": ""}
    if callable(policy):
        return {"": predicate(policy)}
    if not isinstance(policy, dict):
        return {"": None}
    found: dict[str, str | None] = {"": None}
    for name, needed in policy.items():
        if name in ("always", "never") and isinstance(needed, dict):
            found |= dict.fromkeys(needed.get("tool_names") or (), "" if name == "always" else None)
        else:
            found[name] = "" if needed in ("always", True) else None
    return found


def _safe(name: str) -> str:
    """The part of a tool's name that the SDK derives from the name of a server or a tool."""
    kept = "".join(one if one.isascii() and (one.isalnum() or one in "_-") else "_" for one in name)
    return kept.strip("_-") or "tool"
