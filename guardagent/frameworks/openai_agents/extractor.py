"""Extracts the workflow graph of agents of the OpenAI Agents SDK (tested on openai-agents 0.24).

Imports nothing of the SDK, runs nothing and calls no model. One run is one `Runner.run` of the target agent.

**Nodes.** Every reachable agent is a node, by its name: `tool` if it has tools (`model_chooses`), else `llm`. A number
distinguishes agents of the same name.

**Edges.** A hand-off is a conditional edge, with the name of the hand-off's tool as its condition; cycles are kept, and
disabled hand-offs are omitted. Every agent can end the run: by a conditional edge if it has other successors, whose
condition also names the tools whose output is final (`tool_use_behavior`). A custom hand-off whose function returns
unknown agents leads to a node of its declared name, which can call any tool and leads to every agent; both are widened.

**Agents as tools.** An agent that is a tool (`as_tool`), or that a tool or a guardrail runs by `Runner.run`, is that
tool. If it, or one of its hand-off targets, has tools or runs others, it is a node, too: entered from its caller by the
condition `calls TOOL`, with edges back from its hand-off targets.

**Tools.** Function tools, hosted tools by their names, and the allowed tools of MCP servers. A server without an
allow-list is `SERVER.*`, as is what a stored prompt (`prompt.*`) or a sandbox's capability may add; they are listed in
`unknown_tools`, and the node is widened.

**Gates.** `needs_approval` and an MCP server's approval policy; `gated_when` names the function that decides, if any. A
hosted MCP server asks by default. If a function of the program approves (`on_approval`), it is a gate only if that
function always asks a person. A tool that always calls `input()` in its body is gated.

**Guardrails** are metadata, not steps: a tripped one ends the run by an exception, as any step can.
Input guardrails are checked only at the agent that a run begins with.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from inspect import getclosurevars
from types import FunctionType, MethodType
from typing import Any

from guardagent.frameworks.openai_agents.package import FRAMEWORK
from guardagent.workflow.extraction import (
    AgentTools,
    Assembly,
    Region,
    RegionEntry,
    RegionExit,
    UnknownValue,
    defined_outside,
    is_a,
    is_guards,
    private_attribute,
    source_location,
    without_guard,
)
from guardagent.workflow.model.graph import EDGES, END, Graph, Unseen
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
            box.add_source(server.name)
            continue
        _server(box, server, prefixed=bool(agent.mcp_config.get("include_server_in_tool_names")))
    for capability in getattr(agent, "capabilities", None) or ():
        if isinstance(capability, UnknownValue):
            box.add_source(capability.name.lower())
        elif _gives_tools(capability):
            box.add_source(str(capability.type))
    if getattr(agent, "prompt", None) is not None:
        box.add_source("prompt")
    _record_callbacks(box, agent)
    return box


def _record_callbacks(box: AgentTools, agent: Any) -> None:
    """Records what the program's callbacks around an agent may run."""
    if defined_outside(agent, SDK, "get_all_tools", "get_mcp_tools") is not None:
        box.opaque_calls.append(f"the class {type(agent).__name__} overrides the methods that list its tools")
    for name, function in _hooks(agent):
        _record_function(box, name, function)
    hooks = without_guard(getattr(agent, "hooks", None))
    if isinstance(hooks, UnknownValue | Stub):
        box.opaque_calls.append("its hooks")


def _hooks(agent: Any) -> Iterator[tuple[str, object]]:
    """The program's callbacks that the SDK runs around an agent and its tools, by purpose."""
    hooks = without_guard(getattr(agent, "hooks", None))
    kinds = type(hooks).__mro__ if hooks is not None else ()
    names = dict.fromkeys(name for kind in kinds if not is_sdk(kind) for name in vars(kind) if name.startswith("on_"))
    yield from ((name, getattr(hooks, name)) for name in names)
    callbacks = [(name, without_guard(getattr(agent, name, None))) for name in ("instructions", "tool_use_behavior")]
    callbacks += [("on_handoff", getattr(_unguarded(handoff), "on_invoke_handoff", None)) for handoff in agent.handoffs]
    callbacks += [("is_enabled", getattr(tool, "is_enabled", None)) for tool in (*agent.tools, *agent.handoffs)]
    for name, value in callbacks:
        for part in [value.func, *value.args] if isinstance(value, partial) else [value]:
            yield from ((name, function) for function in (_captured_functions(part) if is_sdk(part) else [part]))


def _unguarded(part: Any) -> Any:
    """Returns a tool or a hand-off of the SDK without the guard in it."""
    replaced = (without_guard(getattr(part, name, None)) for name in ("on_invoke_tool", "on_invoke_handoff"))
    return next((inner for inner in replaced if is_a(inner, SDK, "FunctionTool", "Handoff")), part)


def _captured_functions(function: object) -> Iterator[object]:
    """The program's functions in the closure of a function of the SDK."""
    if isinstance(function, FunctionType):
        captured = getclosurevars(function).nonlocals.values()
        yield from (value for value in captured if isinstance(value, FunctionType | MethodType) and not is_sdk(value))


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


def _gives_tools(capability: Any) -> bool:
    """Whether the class of a sandbox capability declares tools."""
    defining = next((kind for kind in type(capability).__mro__ if "tools" in vars(kind)), None)
    return defining is not None and defining.__name__ != "Capability"


def _tool(box: AgentTools, tool: Any) -> None:
    if isinstance(tool, UnknownValue):
        box.add_outside(tool)
    elif is_a(tool, SDK, "FunctionTool"):
        _function_tool(box, tool)
    elif is_a(tool, SDK, "HostedMCPTool"):
        _hosted_mcp(box, tool)
    else:
        gate = predicate(getattr(tool, "needs_approval", False))
        name = str(tool.name or getattr(tool, "__name__", "tool"))
        box.add(name, _approver_gate(box, name, gate, getattr(tool, "on_approval", None)))


def _function_tool(box: AgentTools, tool: Any) -> None:
    tool = _unguarded(tool)
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
        if owners is None or not any(_is_runner(owner) for owner in owners.known):
            continue
        known = [value for value in values.known if is_a(value, SDK, "AgentBase")]
        yield from ((agent, True) for agent in known)
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
    names = None if allowed is None else [name for name in allowed if name not in blocked]
    _server_tools(box, str(server.name), names, gates, prefix=f"mcp_{_safe(server.name)}__" if prefixed else "")


def _server_tools(
    box: AgentTools, source: str, names: Iterable[str] | None, gates: dict[str, str | None], prefix: str = ""
) -> None:
    """Adds the tools of a server; `gates` maps each tool to its gate, and the empty name to the default."""
    listed = [gate for gate in gates if gate] if names is None else list(names or ())
    known = [
        listed_name for listed_name in listed if isinstance(listed_name, str)
    ]  # the source does not determine the others
    for name in known:
        box.add(f"{prefix}{_safe(name) if prefix else name}", gates.get(name, gates[""]))
    if names is None or isinstance(names, UnknownValue) or len(known) < len(listed):
        box.add_source(source, gates[""])


def _policy(policy: Any) -> dict[str, str | None]:
    """The gate of each tool of a server; the empty name is the default."""
    if policy in ("always", True):
        return {"": ""}
    if callable(policy):
        return {"": predicate(policy)}
    if not isinstance(policy, dict):
        return {"": None}
    policies: dict[str, str | None] = {"": None}
    for name, needed in policy.items():
        if name in ("always", "never") and isinstance(needed, dict):
            policies |= dict.fromkeys(needed.get("tool_names") or (), "" if name == "always" else None)
        else:
            policies[name] = "" if needed in ("always", True) else None
    return policies


def _safe(name: str) -> str:
    """The part of a tool's name that the SDK derives from the name of a server or a tool."""
    kept = "".join(
        character if character.isascii() and (character.isalnum() or character in "_-") else "_" for character in name
    )
    return kept.strip("_-") or "tool"


# --- agents


def recognises(target: object) -> bool:
    """Whether a target is an agent of the SDK or of a subclass."""
    return is_a(target, "agents.agent", "AgentBase")


def extract(target: Any, name: str) -> Graph:
    """The graph of everything reachable in a run of an agent.

    Raises:
        InputError: the installed version of the SDK lacks a private attribute that is needed.
    """
    return _RunGraph().graph(target, name)


class _RunGraph:
    """Visits every reachable agent and builds the graph."""

    def __init__(self) -> None:
        self._assembly = Assembly()
        self._boxes: dict[int, tuple[Any, AgentTools]] = {}
        self._transitions: dict[str, dict[str, str]] = {}  # from a node to others, with the condition
        self._continuations: dict[str, dict[str, None]] = {}  # from a node to where a run continues after it
        self._pending_runs: list[
            tuple[Any, str, bool]
        ] = []  # an agent, the continuation, whether the run starts with it

    def graph(self, first: Any, name: str) -> Graph:
        self._add_run(first, END, begins=True)
        for agent, afterwards, begins in self._pending_runs:  # grows during the loop
            self._member(agent, afterwards, begins=begins)
        self._connect_unknown_agents()
        self._connect()
        self._check_guardrails()
        return self._assembly.graph(name, FRAMEWORK, Region((RegionEntry(self._node(first)),)))

    def _add_run(self, agent: Any, afterwards: str, *, begins: bool) -> None:
        if not any(
            agent is pending_run and (afterwards, begins) == (to, starts)
            for pending_run, to, starts in self._pending_runs
        ):
            self._pending_runs.append((agent, afterwards, begins))

    def _member(self, agent: Any, afterwards: str, *, begins: bool) -> None:
        """Adds one agent of a run, with its hand-offs and the agents that it runs as tools."""
        node = self._node(agent)
        self._continuations.setdefault(node, {})[afterwards] = None
        for handoff in agent.handoffs:
            for target, condition in self._targets(node, handoff):
                self._add_transition(node, self._node(target), condition)
                self._add_run(target, afterwards, begins=False)
        for tool, inner in (*self._boxes[id(agent)][1].runs, *_run_by_guardrails(agent, begins=begins)):
            if not is_silent(inner):
                self._add_transition(node, self._node(inner), f"calls {tool}")
                self._add_run(inner, node, begins=True)

    def _add_transition(self, source: str, target: str, condition: str) -> None:
        self._transitions.setdefault(source, {}).setdefault(target, condition)

    def _targets(self, node: str, handoff: Any) -> Iterable[tuple[Any, str]]:
        """The targets of a hand-off, each with the name of its tool."""
        if isinstance(handoff, UnknownValue):
            why = f"not all its hand-off targets are known; an agent {handoff.name!r} is assumed"
            self._assembly.mark_unknown(node, EDGES, why)
            return [(_UnknownAgent.of(handoff), handoff_name(handoff.name))]
        if not is_a(handoff, SDK, "Handoff"):
            return [(handoff, handoff_name(handoff.name))]
        if handoff.is_enabled is False:
            return []
        known = _known_targets(handoff)
        if known is None:
            why = (
                f"the target of {handoff.tool_name!r} is unknown; an agent {handoff.agent_name!r} that can call any "
                f"tool is assumed"
            )
            self._assembly.mark_unknown(node, EDGES, why)
            known = [_UnknownAgent(handoff.agent_name)]
        return [(agent, str(handoff.tool_name)) for agent in known]

    def _node(self, agent: Any) -> str:
        node = self._assembly.id(agent, agent.name)
        if id(agent) not in self._boxes:
            box = agent.box() if isinstance(agent, _UnknownAgent) else toolbox(agent)
            self._boxes[id(agent)] = (agent, box)
            self._describe(node, agent, box)
        return node

    def _describe(self, node: str, agent: Any, box: AgentTools) -> None:
        place = source_location(agent, agent.name, "Agent", type(agent).__name__)
        self._assembly.describe_agent(node, agent.name, box, **_agent_metadata(agent, box), **place)

    def _connect(self) -> None:
        for source, targets in self._transitions.items():
            for target, condition in targets.items():
                self._assembly.connect([RegionExit(source, condition, conditional=True)], [RegionEntry(target)])
        for node, afterwards in self._continuations.items():
            others = node in self._transitions or len(afterwards) > 1
            for target in afterwards:
                leave = RegionExit(node, self._end_condition(node) if others else "", conditional=others)
                self._assembly.connect([leave], [RegionEntry(target)])

    def _end_condition(self, node: str) -> str:
        last = self._assembly.metadata_of(node, "final_tools") or ()
        return " or ".join(["final output", *(f"after {tool}" for tool in last)])

    def _connect_unknown_agents(self) -> None:
        """Connects agents known only by name with all agents, as they could hand off to any."""
        nodes = [self._node(agent) for agent, _ in self._boxes.values()]
        for agent, _ in self._boxes.values():
            if isinstance(agent, _UnknownAgent):
                for other in nodes:
                    self._add_transition(self._node(agent), other, "")

    def _check_guardrails(self) -> None:
        """Notes the input guardrails that never run, as no run starts with their agent."""
        first = {id(agent) for agent, _, begins in self._pending_runs if begins}
        for agent, _ in self._boxes.values():
            if getattr(agent, "input_guardrails", None) and id(agent) not in first:
                node = self._node(agent)
                self._assembly.note(f"{node}: no run starts with it; its input guardrails never run")


class _UnknownAgent:
    """An agent known only by name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.handoffs: list[Any] = []

    @classmethod
    def of(cls, untold: UnknownValue) -> _UnknownAgent:
        """The unknown agent of an unknown value, always the same one."""
        if "stranger" not in vars(untold):
            vars(untold)["stranger"] = cls(untold.name)
        return vars(untold)["stranger"]  # type: ignore[no-any-return]

    def box(self) -> AgentTools:
        wildcard = f"{self.name}.*"
        return AgentTools(names=[wildcard], unknown=[wildcard])


def _known_targets(handoff: Any) -> list[Any] | None:
    """The targets of a hand-off object; None if unknown."""
    handoff = _unguarded(handoff)
    reference = private_attribute(handoff, "_agent_ref", DISTRIBUTION)
    target = reference() if reference is not None else None
    if target is not None:
        return [target]
    if (held := _sdk_target(handoff.on_invoke_handoff)) is not None:
        return [held]
    code = FunctionCode(handoff.on_invoke_handoff, WORDS)
    if code.body is None:
        return None
    returned = code.evaluator.return_values(code.body.function, code.bound_arguments)
    agents = [value for value in returned.known if is_a(value, SDK, "AgentBase")]
    return agents if agents and returned.complete and len(agents) == len(returned.known) else None


def _sdk_target(function: Any) -> Any:
    """The only agent in the closure of a function of the SDK, as in a real-time hand-off; else None."""
    inner = [function, *function.args] if isinstance(function, partial) else [function]
    own = [
        inner_function
        for inner_function in inner
        if isinstance(inner_function, FunctionType) and inner_function.__module__.partition(".")[0] == SDK
    ]
    agents = [
        value
        for inner_function in own
        for value in getclosurevars(inner_function).nonlocals.values()
        if is_a(value, SDK, "AgentBase")
    ]
    return agents[0] if len(agents) == 1 else None


def tool_name_of(name: str) -> str:
    """The default tool name of an agent, as the SDK derives it."""
    return "".join(
        character if character.isascii() and (character.isalnum() or character == "_") else "_" for character in name
    ).lower()


def handoff_name(name: str) -> str:
    """The default name of a hand-off's tool, as the SDK derives it from an agent's name."""
    return tool_name_of(f"transfer_to_{name}")


def _agent_metadata(agent: Any, box: AgentTools) -> dict[str, Any]:
    """The guardrails, output type and final tools of an agent."""
    output = getattr(agent, "output_type", None)
    return {
        "input_guardrails": _names(getattr(agent, "input_guardrails", ())),
        "output_guardrails": _names(getattr(agent, "output_guardrails", ())),
        "output_type": str(getattr(output, "__name__", output)) if output is not None else None,
        "final_tools": _final_tools(agent, box),
    }


def _names(guardrails: Iterable[Any]) -> tuple[str, ...]:
    return tuple(
        guardrail.name if isinstance(guardrail, UnknownValue) else str(guardrail.get_name()) for guardrail in guardrails
    )


def _final_tools(agent: Any, box: AgentTools) -> tuple[str, ...]:
    """The tools whose output can end the run without another model call."""
    behaviour = without_guard(getattr(agent, "tool_use_behavior", None))
    if isinstance(behaviour, dict):
        return tuple(name for name in behaviour.get("stop_at_tool_names", ()) if name in box.names)
    if behaviour == "stop_on_first_tool":
        return tuple(tool.name for tool in agent.tools if is_a(tool, SDK, "FunctionTool") and tool.name in box.names)
    return (f"what {getattr(behaviour, '__name__', 'a function')} decides",) if callable(behaviour) else ()


def _run_by_guardrails(agent: Any, *, begins: bool) -> Iterable[tuple[str, Any]]:
    """The agents that the guardrails of an agent run; input guardrails only at the start of a run."""
    for name in ("input_guardrails", "output_guardrails") if begins else ("output_guardrails",):
        for guardrail in getattr(agent, name, None) or ():
            if isinstance(guardrail, UnknownValue) or is_guards(type(guardrail)):
                continue
            for inner, known in agents_run_by(guardrail.guardrail_function):
                if known:
                    yield str(guardrail.get_name()), inner


def is_silent(agent: Any, seen: frozenset[int] = frozenset()) -> bool:
    """Whether an agent needs no node of its own: neither it nor its hand-off targets have tools or run others."""
    if id(agent) in seen:
        return True
    box = toolbox(agent)
    if box.names or box.opaque_calls or any(True for _ in _run_by_guardrails(agent, begins=True)):
        return False
    inside = seen | {id(agent)}
    for handoff in agent.handoffs:
        if isinstance(handoff, UnknownValue):
            return False
        targets = _known_targets(handoff) if is_a(handoff, SDK, "Handoff") else [handoff]
        if targets is None or not all(is_silent(target, inside) for target in targets):
            return False
    return True
