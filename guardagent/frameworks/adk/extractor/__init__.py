"""Extracts the workflow graph of Google ADK agents and workflows (tested on google-adk 2.13).

Imports nothing of the framework and runs nothing. One run is one turn of the user.

**Nodes.** Every `LlmAgent` is a node: `tool` where it has tools (`model_chooses`), else `llm`. Sequential, parallel and
loop agents and nested workflows are flattened (`within` names them). A node of a `Workflow` is a node: `human` if it
asks by a `RequestInput`, a confirmation or `input()`; `router` if all its outgoing edges have routes; `tool` if it runs
a tool; else `passthrough`. Nodes of the same name are qualified by their parent (`outer/name`). A custom agent is a
node for its own code, with edges to the agents that the code runs.

**Edges.** Parts of a `SequentialAgent` follow each other; those of a `ParallelAgent` are entered by parallel edges, and
what follows waits for them (`join`). The last part of a `LoopAgent` leads back by a `loop` edge, and out after
`max_iterations`; any part that can escalate leads out by an edge with the condition `escalate`, and an escalation ends
all enclosing loops. An agent leads by conditional edges (`transfer_to_agent`) to its sub-agents, parent and peers, as
the `disallow_transfer_*` flags allow; any of them can end their part of the run. In a `Workflow` a routed edge is
conditional, with the route as its condition; several edges without a route are parallel. A branch ends where no edge
leads on or no edge matches the route. A person's answer is assumed to match one of the routes.

**Tools.** An agent that is a tool (`AgentTool`, `mode="task"`, `mode="single_turn"`), or a workflow's node that is one,
is a tool by its name. If it has tools or asks people itself, its nodes are in the graph, too, with edges from and to
its caller. A toolset with unknown members is `CLASS.*` and listed in `unknown_tools`.
A code executor is the tool `code_executor`.

**Gates.** `require_confirmation`; a tool whose body always asks for a confirmation, or calls `input()`; the framework's
own tools that ask; a long-running tool that does nothing but wait for its answer. If a function given as
`require_confirmation` decides, the tool counts as gated, and `gated_when` names the function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from guardagent.errors import InputError
from guardagent.frameworks.adk.extractor.agents import ADK, AdkCode, toolbox
from guardagent.frameworks.adk.extractor.flow import Traversal, agents_held, flow_region
from guardagent.frameworks.adk.extractor.workflow import does_nothing, is_node, node_region, workflow_region
from guardagent.frameworks.adk.package import FRAMEWORK
from guardagent.workflow.extraction import (
    EMPTY_REGION,
    AgentTools,
    Alternatives,
    Assembly,
    Region,
    RegionEntry,
    RegionExit,
    UnknownValue,
    alternatives,
    defined_outside,
    is_a,
    parallel,
    sequence,
    single,
    source_location,
)
from guardagent.workflow.model.graph import EDGES, TOOLS, Graph
from guardagent.workflow.python_source.bodies import opaque_calls_in

_DELEGATED = ("task", "single_turn")
_CALLBACKS = ("before_agent", "after_agent", "before_model", "after_model", "before_tool", "after_tool")


def recognises(target: object) -> bool:
    """Whether a target is an instance of a class of Google ADK or of a subclass."""
    return is_a(target, ADK, "BaseNode", "App", "Runner")


def extract(target: Any, name: str) -> Graph:
    """The graph of an agent, a workflow, an app or a runner.

    Raises:
        InputError: it holds no agent, or the installed version of ADK lacks a private attribute that is needed.
    """
    root = target
    while is_a(root, ADK, "App", "Runner") and not is_a(root, ADK, "BaseNode"):
        root = getattr(root, "root_agent" if is_a(root, ADK, "App") else "agent", None)
    if not is_a(root, ADK, "BaseNode"):
        expected = "expected an agent or a workflow as its 'root_agent' or 'agent'"
        raise InputError(f"{name}: no root agent of the app or runner is known; {expected}")
    traversal = _AdkTraversal()
    whole = traversal.region(root)
    traversal.finish()
    return traversal.assembly.graph(name, FRAMEWORK, whole)


class _AdkTraversal:
    """Visits agents and workflows, each once."""

    def __init__(self) -> None:
        self.assembly = Assembly()
        self._regions: dict[int, tuple[object, Region]] = {}
        self._active: set[int] = set()
        self._boxes: dict[int, AgentTools] = {}
        self._calls: list[tuple[str, str, Callable[[], Region]]] = []
        self._visits = Traversal(self.assembly, self.region, self.structure, self.call)
        self._known_calls: dict[tuple[str, int], object] = {}

    def region(self, target: Any, within: tuple[str, ...] = ()) -> Region:
        """The region of an agent, a node of a workflow, a tool or a function."""
        if id(target) in self._active:
            return self._recursive_region(target)
        if id(target) not in self._regions:
            self._active.add(id(target))
            self._regions[id(target)] = (target, self._region(target, within))
            self._active.discard(id(target))
        return self._regions[id(target)][1]

    def _recursive_region(self, target: Any) -> Region:
        """The region of an agent that runs itself recursively: it has no known exit."""
        node = self.assembly.id(target, str(getattr(target, "name", type(target).__name__)))
        self.assembly.note(f"{node}: it runs itself recursively; the depth is unknown")
        return Region((RegionEntry(node),), (), frozenset({node})) if self.assembly.has(node) else EMPTY_REGION

    def _region(self, target: Any, within: tuple[str, ...]) -> Region:
        if isinstance(target, UnknownValue):
            return self._unknown_agent(target, within)
        if isinstance(target, Alternatives):
            return alternatives(
                self.assembly, [self._option(option, within) for option in target.options], target.repeated
            )
        if is_a(target, ADK, "BaseAgent"):
            return self._agent(target, within)
        if is_a(target, ADK, "Workflow"):
            return self._workflow(target, within)
        return node_region(self._visits, target, within)

    def _option(self, option: Any, within: tuple[str, ...]) -> Region:
        if not isinstance(option, list):
            return self.region(option, within)
        return sequence(self.assembly, [self.region(member, within) for member in option])

    def _unknown_agent(self, target: UnknownValue, within: tuple[str, ...]) -> Region:
        """The region of an unknown agent: it can call any tool, and end enclosing loops."""
        node, wildcard = self.assembly.id(target, target.name, within), f"{target.name}.*"
        box = AgentTools(names=[wildcard], unknown=[wildcard])
        self.assembly.describe(
            node, "tool", target.name, tools=box.names, model_chooses=True, within=within, **box.metadata()
        )
        self.assembly.mark_unknown(node, TOOLS, "the agent is unknown; it is assumed to call any tool")
        return Region(
            (RegionEntry(node),),
            (RegionExit(node), RegionExit(node, conditional=True, escalated=True)),
            frozenset({node}),
        )

    def _workflow(self, workflow: Any, within: tuple[str, ...]) -> Region:
        """The region of a workflow; a class with code of its own may run its graph at any time, or never."""
        if _own_code(workflow) is None:
            return workflow_region(self._visits, workflow, (*within, workflow.name))
        region = node_region(self._visits, workflow, within)
        node = region.entries[0].node
        self.assembly.mark_unknown(
            node, EDGES, "its class overrides the run method; its graph is assumed to run at any time"
        )
        graph = partial(workflow_region, self._visits, workflow, (*within, workflow.name))
        self._add_call(node, workflow.name, workflow, graph)
        return replace(region, exits=(RegionExit(node, conditional=True),))

    def _agent(self, agent: Any, within: tuple[str, ...]) -> Region:
        if is_a(agent, ADK, "LlmAgent"):
            return self._family(agent, within)
        function = _own_code(agent)
        if function is not None:
            return flow_region(self._visits, agent, function, within)
        return self.structure(agent, within)

    def structure(self, agent: Any, within: tuple[str, ...]) -> Region:
        """The region of an agent, as its framework class runs it."""
        inside = (*within, agent.name)
        if is_a(agent, ADK, "SequentialAgent"):
            return sequence(self.assembly, [self.region(sub_agent, inside) for sub_agent in agent.sub_agents])
        if is_a(agent, ADK, "ParallelAgent"):
            return self._parallel(agent, inside)
        if is_a(agent, ADK, "LoopAgent"):
            return self._loop(agent, inside)
        return self._other(agent, within)

    def _parallel(self, agent: Any, inside: tuple[str, ...]) -> Region:
        """Parallel branches; only an escalation of a direct sub-agent ends the others."""
        branches = [self.region(sub_agent, inside) for sub_agent in agent.sub_agents]
        composite = [
            is_a(sub_agent, ADK, "SequentialAgent", "ParallelAgent", "LoopAgent") for sub_agent in agent.sub_agents
        ]
        escalating = [any(leave.escalated for leave in branch.exits) for branch in branches]
        cutting = [escalates and not held for escalates, held in zip(escalating, composite, strict=True)]
        return parallel(self.assembly, branches, cutting)

    def _loop(self, agent: Any, inside: tuple[str, ...]) -> Region:
        limit = agent.max_iterations
        if not agent.sub_agents or (limit is not None and limit <= 0):
            return EMPTY_REGION
        parts = [self.region(sub_agent, inside) for sub_agent in agent.sub_agents]
        leaving: list[RegionExit] = []
        whole = Region(empty=True)
        for part in parts:
            whole = sequence(self.assembly, [whole, part])
            leaving += [
                replace(region_exit, conditional=True, condition="escalate")
                for region_exit in whole.exits
                if region_exit.escalated
            ]
            whole = replace(whole, exits=tuple(_continuing(whole.exits)))
        if limit != 1:
            self.assembly.connect([replace(region_exit, back=True) for region_exit in whole.exits], whole.entries)
        if limit is not None:
            leaving += [
                replace(region_exit, conditional=True, condition=_iteration_limit(limit)) for region_exit in whole.exits
            ]
        if not leaving:
            self.assembly.note(f"{agent.name}: the loop has no max_iterations, and nothing in it is seen to escalate")
        return replace(whole, exits=tuple(leaving))

    # Agents with a model, and those that they transfer to.

    def _family(self, first: Any, within: tuple[str, ...], caller: str | None = None) -> Region:
        """An agent with those that it can transfer to, transitively; any of them can end the run."""
        members, exits, nodes, unknown_nodes = [first], list[RegionExit](), set[str](), set[str]()
        escalates = False
        for member in members:  # grows during the loop
            node, box = self._llm(member, within)
            nodes.add(node)
            targets = _transfer_targets(member)
            for target in targets:
                if _is_unseen(target):
                    escalates = True
                    self._mark_unseen(node)
                    continue
                reached = self._member(target, within, members, caller)
                self.assembly.connect([RegionExit(node, "transfer_to_agent", conditional=True)], reached.entries)
                exits += reached.exits
                nodes |= reached.nodes
                unknown_nodes |= reached.nodes if isinstance(target, UnknownValue) else set()
            exits += self._delegates(node, member, within)
            has_alternatives = self._runs_own_code(node, member) or bool(targets or box.runs or _delegated(member))
            exits.append(RegionExit(node, "final response" if has_alternatives else "", conditional=has_alternatives))
            escalates = escalates or box.escalates
        reachable = [*(self._llm(member, within)[0] for member in members), *sorted(unknown_nodes)]
        for unknown_node in sorted(unknown_nodes):  # it may transfer to its parent and peers
            entries = [RegionEntry(other) for other in reachable if other != unknown_node]
            self.assembly.connect([RegionExit(unknown_node, "transfer_to_agent", conditional=True)], entries)
        if escalates:
            exits += [replace(region_exit, escalated=True) for region_exit in exits if not region_exit.escalated]
        return Region((RegionEntry(self._llm(first, within)[0]),), tuple(exits), frozenset(nodes))

    def _mark_unseen(self, node: str) -> None:
        why = "not all its sub-agents and peers are known; it may transfer to one that calls any tool"
        self.assembly.mark_unknown(node, TOOLS, why)
        self.assembly.mark_unknown(node, EDGES, why)

    def _member(self, target: Any, within: tuple[str, ...], members: list[Any], caller: str | None) -> Region:
        """The region of a transfer target; an agent with a model joins the family."""
        if not is_a(target, ADK, "LlmAgent"):
            return self.region(target, within)
        node, _ = self._llm(target, within)
        if node != caller and all(target is not member for member in members):
            members.append(target)
        return Region((RegionEntry(node),), (), frozenset({node}))

    def _delegates(self, node: str, agent: Any, within: tuple[str, ...]) -> list[RegionExit]:
        """Adds the sub-agents that an agent calls like tools; returns the exits at those that ask the user."""
        exits = []
        for sub_agent in _delegated(agent):
            delegate, mode = sub_agent, str(sub_agent.mode)
            if is_a(delegate, ADK, "LlmAgent"):
                target, _ = self._llm(delegate, within)
                self._add_call(node, delegate.name, delegate, partial(self._family, delegate, within, node))
                exits += [RegionExit(target, "asks the user", conditional=True)] if mode == "task" else []
            else:
                self.call(node, delegate.name, delegate)
        return exits

    def _llm(self, agent: Any, within: tuple[str, ...]) -> tuple[str, AgentTools]:
        """The node of an agent with a model, with its tools."""
        node = self.assembly.id(agent, agent.name, within)
        if id(agent) not in self._boxes:
            self._boxes[id(agent)] = box = self._box(agent)
            self._describe(node, agent, box, within)
        return node, self._boxes[id(agent)]

    def _box(self, agent: Any) -> AgentTools:
        box = toolbox(getattr(agent, "tools", None) or ())
        executor = getattr(agent, "code_executor", None)
        if isinstance(executor, UnknownValue) and executor.name == "code_executor":
            box.opaque_calls.append("its code executor is unknown")
        elif executor is not None:
            box.add("code_executor")
        box.runs = [(name, inner) for name, inner in box.runs if not is_silent(inner)]
        box.escalates = box.escalates or any(AdkCode(callback).escalates for callback in _callbacks(agent))
        box.opaque_calls.extend(
            what.inside("a callback") for callback in _callbacks(agent) for what in opaque_calls_in(callback)
        )
        return box

    def _describe(self, node: str, agent: Any, box: AgentTools, within: tuple[str, ...]) -> None:
        place = source_location(agent, agent.name, "LlmAgent", "Agent", type(agent).__name__)
        self.assembly.describe_agent(node, agent.name, box, within=within, **place)
        for name, inner in box.runs:
            self.call(node, name, inner)

    def _runs_own_code(self, node: str, agent: Any) -> bool:
        """Whether an agent with a model overrides the run method, and so may run the agents that it holds."""
        held = agents_held(agent) if _own_code(agent) is not None else []
        if held:
            self.assembly.mark_unknown(
                node, EDGES, "its class overrides the run method; any agent that it holds may follow at any time"
            )
        for held_agent in held:
            family = (
                partial(self._family, held_agent, (), node)
                if is_a(held_agent, ADK, "LlmAgent")
                else partial(self.region, held_agent)
            )
            self._add_call(node, held_agent.name, held_agent, family)
        return bool(held)

    def _other(self, agent: Any, within: tuple[str, ...]) -> Region:
        """The region of another framework class: a remote agent, one of a service, one of another framework."""
        if is_a(agent, ADK, "LangGraphAgent") and (inner := self._foreign(agent)) is not None:
            return inner
        node, _ = self._llm(agent, within)
        self.assembly.mark(node, runs_as=type(agent).__name__)
        for sub_agent in agent.sub_agents:
            self.assembly.mark_unknown(node, EDGES, f"it can run {sub_agent.name!r} at any time")
            self.call(node, sub_agent.name, sub_agent)
        return single(node, conditional=bool(agent.sub_agents))

    def _foreign(self, agent: Any) -> Region | None:
        """The graph of another framework, inside an agent."""
        from guardagent.workflow.extraction import extract as extract_any

        try:
            graph = extract_any(agent.graph, agent.name)
        except InputError:
            return None
        return self.assembly.insert(graph, agent.name)

    # Calls that return to the caller.

    def call(self, caller: str, name: str, target: Any) -> None:
        """Adds a call by a node, which continues when the callee returns."""
        self._add_call(caller, name, target, partial(self.region, target))

    def _add_call(self, caller: str, name: str, target: Any, region: Callable[[], Region]) -> None:
        if (caller, id(target)) not in self._known_calls:
            self._known_calls[caller, id(target)] = target
            self._calls.append((caller, name, region))

    def finish(self) -> None:
        """Connects the callees, once all callers are known."""
        for caller, name, region in self._calls:  # grows during the loop
            inner = region()
            self.assembly.connect([RegionExit(caller, f"calls {name}", conditional=True)], inner.entries)
            self.assembly.connect(
                [replace(region_exit, escalated=False) for region_exit in inner.exits], [RegionEntry(caller)]
            )


def _continuing(exits: Iterable[RegionExit]) -> Iterable[RegionExit]:
    """The exits from which a loop continues, conditional where an escalation could leave it."""
    leaving = {region_exit.node for region_exit in exits if region_exit.escalated}
    for region_exit in exits:
        if not region_exit.escalated and region_exit.node in leaving and not region_exit.condition:
            yield replace(region_exit, conditional=True, condition="no escalation")
        elif not region_exit.escalated:
            yield region_exit


def _iteration_limit(limit: int) -> str:
    return f"after {limit} iteration{'s' if limit > 1 else ''}"


def _transfer_targets(agent: Any) -> list[Any]:
    """The agents to which a model can transfer: sub-agents, the parent, and its peers.

    Excludes agents that are called like tools, and parents without a model.
    """
    sub_agents = [sub_agent for sub_agent in agent.sub_agents if getattr(sub_agent, "mode", None) not in _DELEGATED]
    parents = agent.parent_agent.options if isinstance(agent.parent_agent, Alternatives) else [agent.parent_agent]
    for parent in parents:
        if parent is None or not hasattr(parent, "disallow_transfer_to_parent"):
            continue
        if not agent.disallow_transfer_to_parent:
            sub_agents.append(parent)
        if not agent.disallow_transfer_to_peers:
            peers = [sub_agent for sub_agent in parent.sub_agents if sub_agent.name != agent.name]
            sub_agents += [peer for peer in peers if getattr(peer, "mode", None) not in _DELEGATED]
    return sub_agents


def _is_unseen(target: object) -> bool:
    """Whether a target stands for elements of a list that the source does not determine, so it has no name."""
    return isinstance(target, UnknownValue) and target.name == "sub_agents"


def _delegated(agent: Any) -> list[Any]:
    return [sub_agent for sub_agent in agent.sub_agents if getattr(sub_agent, "mode", None) in _DELEGATED]


def _callbacks(agent: Any) -> Iterable[object]:
    """The callbacks of an agent."""
    for name in _CALLBACKS:
        value = getattr(agent, f"{name}_callback", None)
        yield from (
            value if isinstance(value, list) else [value] if callable(value) or isinstance(value, UnknownValue) else []
        )


def _own_code(target: Any) -> Any:
    """The run method of an agent or workflow, if the program overrides it."""
    return defined_outside(target, ADK, "_run_async_impl", "_run_impl")


def is_silent(target: Any) -> bool:
    """Whether an agent or node needs no nodes of its own: no tools, no questions, no other agents."""
    if isinstance(target, UnknownValue | Alternatives) or (
        is_a(target, ADK, "BaseAgent", "Workflow") and _own_code(target)
    ):
        return False
    if is_a(target, ADK, "LlmAgent"):
        runs = target.tools or target.code_executor is not None or target.sub_agents
        return not (runs or _transfer_targets(target) or any(map(opaque_calls_in, _callbacks(target))))
    if is_a(target, ADK, "SequentialAgent", "ParallelAgent", "LoopAgent"):
        return all(map(is_silent, target.sub_agents))
    if is_a(target, ADK, "Workflow"):
        return target.graph is None or all(map(is_silent, target.graph.nodes))
    return is_node(target) and does_nothing(target)
