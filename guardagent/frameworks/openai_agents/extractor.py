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

from collections.abc import Iterable
from functools import partial
from inspect import getclosurevars
from types import FunctionType
from typing import Any

from guardagent.frameworks.openai_agents.extractor_pieces.tools import DISTRIBUTION, SDK, WORDS, agents_run_by, toolbox
from guardagent.frameworks.openai_agents.package import FRAMEWORK
from guardagent.workflow.extraction.objects import AgentTools, UnknownValue, is_a, private_attribute, source_location
from guardagent.workflow.extraction.regions import Assembly, Region, RegionEntry, RegionExit
from guardagent.workflow.model.graph import EDGES, END, Graph
from guardagent.workflow.python_source.steps import FunctionCode


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
        if not any(agent is one and (afterwards, begins) == (to, starts) for one, to, starts in self._pending_runs):
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
        return [(one, str(handoff.tool_name)) for one in known]

    def _node(self, agent: Any) -> str:
        node = self._assembly.id(agent, agent.name)
        if id(agent) not in self._boxes:
            box = agent.box() if isinstance(agent, _UnknownAgent) else toolbox(agent)
            self._boxes[id(agent)] = (agent, box)
            self._describe(node, agent, box)
        return node

    def _describe(self, node: str, agent: Any, box: AgentTools) -> None:
        self._assembly.describe(
            node,
            "tool" if box.names else "llm",
            agent.name,
            tools=box.names,
            gated_tools=box.gated,
            model_chooses=bool(box.names),
            **box.metadata(),
            **_agent_metadata(agent, box),
            **source_location(agent, agent.name, "Agent", type(agent).__name__),
        )
        for note in box.notes:
            self._assembly.note(f"{node}: {note}")

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
    agents = [one for one in returned.known if is_a(one, SDK, "AgentBase")]
    return agents if agents and returned.complete and len(agents) == len(returned.known) else None


def _sdk_target(function: Any) -> Any:
    """The only agent in the closure of a function of the SDK, as in a real-time hand-off; else None."""
    inner = [function, *function.args] if isinstance(function, partial) else [function]
    own = [one for one in inner if isinstance(one, FunctionType) and one.__module__.partition(".")[0] == SDK]
    agents = [value for one in own for value in getclosurevars(one).nonlocals.values() if is_a(value, SDK, "AgentBase")]
    return agents[0] if len(agents) == 1 else None


def tool_name_of(name: str) -> str:
    """The default tool name of an agent, as the SDK derives it."""
    return "".join(one if one.isascii() and (one.isalnum() or one == "_") else "_" for one in name).lower()


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
    return tuple(one.name if isinstance(one, UnknownValue) else str(one.get_name()) for one in guardrails)


def _final_tools(agent: Any, box: AgentTools) -> tuple[str, ...]:
    """The tools whose output can end the run without another model call."""
    behaviour = getattr(agent, "tool_use_behavior", None)
    if isinstance(behaviour, dict):
        return tuple(one for one in behaviour.get("stop_at_tool_names", ()) if one in box.names)
    if behaviour == "stop_on_first_tool":
        return tuple(one.name for one in agent.tools if is_a(one, SDK, "FunctionTool") and one.name in box.names)
    return (f"what {getattr(behaviour, '__name__', 'a function')} decides",) if callable(behaviour) else ()


def _run_by_guardrails(agent: Any, *, begins: bool) -> Iterable[tuple[str, Any]]:
    """The agents that the guardrails of an agent run; input guardrails only at the start of a run."""
    for name in ("input_guardrails", "output_guardrails") if begins else ("output_guardrails",):
        for guardrail in getattr(agent, name, None) or ():
            if isinstance(guardrail, UnknownValue):
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
    for one in agent.handoffs:
        if isinstance(one, UnknownValue):
            return False
        targets = _known_targets(one) if is_a(one, SDK, "Handoff") else [one]
        if targets is None or not all(is_silent(target, inside) for target in targets):
            return False
    return True
