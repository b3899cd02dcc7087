"""Workflows of Google ADK: graphs of nodes, with routes."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from guardagent.frameworks.adk.extractor.agents import ADK, DISTRIBUTION, AdkCode, predicate, toolbox
from guardagent.frameworks.adk.extractor.flow import Traversal, routes_of
from guardagent.workflow.extraction import (
    EMPTY_REGION,
    AgentTools,
    Region,
    RegionEntry,
    RegionExit,
    defined_outside,
    is_a,
    private_attribute,
    single,
)
from guardagent.workflow.model.graph import EDGES, NodeKind

_START = "__START__"
_DEFAULT = "__DEFAULT__"
_UNMATCHED = "no route matches"


def workflow_region(traversal: Traversal, workflow: Any, within: tuple[str, ...]) -> Region:
    """The region of a workflow: its nodes and edges."""
    if workflow.graph is None:
        return EMPTY_REGION
    return _AdkWorkflowGraph(traversal, workflow, within).region()


class _AdkWorkflowGraph:
    """One workflow.

    Attributes:
        outgoing: the outgoing edges of each node, by object id.
    """

    def __init__(self, traversal: Traversal, workflow: Any, within: tuple[str, ...]) -> None:
        self.traversal, self.within = traversal, within
        self.edges = list(workflow.graph.edges)
        self.nodes = [node for node in workflow.graph.nodes if node.name != _START]
        self.outgoing: dict[int, list[Any]] = {id(node): [] for node in workflow.graph.nodes}
        for edge in self.edges:
            self.outgoing[id(edge.from_node)].append(edge)
        for node in self.nodes:  # before those of nested workflows, so that the outer names stay unqualified
            if is_node(node) or is_a(node, ADK, "LlmAgent"):
                traversal.assembly.id(node, node.name, within)

    def region(self) -> Region:
        regions = {id(node): self._node(node) for node in self.nodes}
        for node in self.nodes:
            for edge in self.outgoing[id(node)]:
                entries = self._entries(edge, regions[id(edge.to_node)])
                self.traversal.assembly.connect(regions[id(node)].exits, entries)
        for node in self.nodes:
            if is_a(node, ADK, "JoinNode"):
                self._join(node, regions)
        begin = [edge for edge in self.edges if edge.from_node.name == _START]
        entries = [entry for edge in begin for entry in self._entries(edge, regions[id(edge.to_node)])]
        exits = [leave for node in self.nodes for leave in self._ends(node, regions[id(node)])]
        inside = frozenset(node for region in regions.values() for node in region.nodes)
        self._widen(regions)
        return Region(tuple(entries), tuple(exits), inside)

    def _node(self, node: Any) -> Region:
        """The region of a node; one with an empty region, such as an empty workflow, gets a node of its own."""
        if is_node(node):
            return node_region(self.traversal, node, self.within, is_routed=self._is_routed(node))
        region = self.traversal.region(node, self.within)
        if not region.empty:
            return region
        own = self.traversal.assembly.id(node, node.name, self.within)
        self.traversal.assembly.describe(own, "passthrough", node.name, within=self.within)
        self.traversal.assembly.connect([RegionExit(own)], region.entries)
        return Region((RegionEntry(own),), (RegionExit(own), *region.exits), region.nodes | {own})

    def _is_routed(self, node: Any) -> bool:
        """Whether all outgoing edges of a node have routes."""
        outgoing = self.outgoing[id(node)]
        return bool(outgoing) and all(edge.route is not None for edge in outgoing)

    def _entries(self, edge: Any, region: Region) -> list[RegionEntry]:
        """The entries of a node, with the kind and condition of an edge."""
        if edge.route is not None:
            condition = _condition(edge.route)
            return [replace(entry, kind="conditional", condition=condition) for entry in region.entries]
        unrouted = [sibling for sibling in self.outgoing[id(edge.from_node)] if sibling.route is None]
        if len(unrouted) > 1:
            return [replace(entry, kind="parallel") for entry in region.entries]
        return list(region.entries)

    def _join(self, node: Any, regions: dict[int, Region]) -> None:
        """Makes a join wait for all its predecessors."""
        before = [edge.from_node for edge in self.edges if edge.to_node is node and edge.from_node.name != _START]
        exits = [leave.node for predecessor in before for leave in regions[id(predecessor)].exits]
        self.traversal.assembly.join(self.traversal.assembly.id(node, node.name), exits)

    def _ends(self, node: Any, region: Region) -> Iterable[RegionExit]:
        """The exits where the branch ends: no outgoing edge, or a route that no edge names."""
        outgoing = self.outgoing[id(node)]
        if not outgoing:
            return region.exits
        if not self._is_routed(node) or any(edge.route == _DEFAULT for edge in outgoing):
            return ()
        last = sorted({leave.node for leave in region.exits})
        if any(self.traversal.assembly.kind(node_id) == "human" for node_id in last):
            self._note(last, "if the answer matches no route of its edges, the branch ends")
            return ()
        reason = _unmatched(node, {route for edge in outgoing for route in _routes(edge.route)})
        if reason:
            for node_id in last:
                why = f"{reason}; if no edge matches the route, the branch ends"
                self.traversal.assembly.mark_unknown(node_id, EDGES, why)
        return (
            []
            if reason is None
            else [replace(region_exit, conditional=True, condition=_UNMATCHED) for region_exit in region.exits]
        )

    def _note(self, nodes: Iterable[str], text: str) -> None:
        self.traversal.assembly.note(f"{', '.join(nodes)}: {text}")

    def _widen(self, regions: dict[int, Region]) -> None:
        """Connects a node that runs unknown nodes with all nodes of the workflow."""
        for node in self.nodes:
            own = self.traversal.assembly.id(node, node.name) if is_node(node) else ""
            if own and self.traversal.assembly.metadata_of(own, "runs_unknown"):
                for other in self.nodes:
                    if other is not node:
                        self.traversal.assembly.connect(
                            [RegionExit(own, "run_node", conditional=True)], regions[id(other)].entries
                        )
                        done = [replace(region_exit, conditional=True) for region_exit in regions[id(other)].exits]
                        self.traversal.assembly.connect(done, [RegionEntry(own)])


def _condition(route: Any) -> str:
    return " or ".join(str(route) for route in _routes(route))


def _routes(route: Any) -> list[Any]:
    return list(route) if isinstance(route, list) else [route]


def _unmatched(node: Any, named: set[Any]) -> str | None:
    """The reason why a branch may end without a matching edge: None if it cannot, empty if certain."""
    target = _code_target(_inner(node))
    if target is None:
        return "its routes are unknown"
    routes = routes_of(AdkCode(target))
    if routes.incomplete:
        return "not all its routes are known"
    return "" if routes.may_take_none or not routes.named <= named else None


# Nodes.


def does_nothing(node: Any) -> bool:
    """Whether a node asks nobody, calls no tool and runs no other node."""
    inner = _inner(node)
    if (
        is_a(inner, ADK, "_ToolNode", "BaseTool")
        or predicate(getattr(inner, "require_confirmation", False)) is not None
    ):
        return False
    target = _code_target(inner)
    code = AdkCode(target) if target is not None else None
    return code is None or not (code.asks or code.runs)


def is_node(target: Any) -> bool:
    """Whether a target is a single node, not an agent or a workflow."""
    return not is_a(_inner(target), ADK, "BaseAgent") and not (
        is_a(_inner(target), ADK, "Workflow") and defined_outside(_inner(target), ADK, "_run_impl") is None
    )


def _inner(node: Any) -> Any:
    """The node that a parallel worker runs for each item; else the node itself."""
    while is_a(node, ADK, "_ParallelWorker"):
        node = private_attribute(node, "_node", DISTRIBUTION)
    return node


def _is_per_item(node: Any) -> bool:
    return is_a(node, ADK, "_ParallelWorker") or bool(getattr(node, "parallel_worker", False))


def _code_target(node: Any) -> Any:
    """The program's function that implements a node; None if there is none."""
    if is_a(node, ADK, "FunctionNode"):
        return private_attribute(node, "_func", DISTRIBUTION)
    if is_a(node, ADK, "BaseNode"):
        run = defined_outside(node, ADK, "run_node_impl", "_run_impl")
        return functools.partial(run, node) if run is not None else None
    return node if callable(node) and not is_a(node, ADK, "BaseTool") else None


def node_region(traversal: Traversal, node: Any, within: tuple[str, ...], *, is_routed: bool = False) -> Region:
    """The region of one node of a workflow, or of a tool or function run as a node."""
    inner = _inner(node)
    if not is_node(inner):
        return _for_each_item(traversal.region(inner, within))
    name = _name(node)
    own = traversal.assembly.id(node, name, within)
    target = _code_target(inner)
    if is_a(inner, ADK, "_ToolNode", "BaseTool"):
        _describe_tool(traversal, own, name, toolbox([getattr(inner, "tool", inner)]), within)
    else:
        _describe_code(traversal, own, inner, target, within, is_routed=is_routed)
    calls = _add_run_nodes(traversal, own, AdkCode(target)) if target is not None else False
    region = single(own, conditional=calls)
    return _for_each_item(region) if _is_per_item(node) else region


def _name(node: Any) -> str:
    return str(getattr(node, "name", None) or getattr(node, "__name__", None) or type(node).__name__)


def _for_each_item(region: Region) -> Region:
    """The region of a node that runs in parallel for each item of a list."""
    entries = (replace(entry, kind="parallel", condition="for each item") for entry in region.entries)
    return replace(region, entries=tuple(entries))


def _describe_tool(traversal: Traversal, own: str, name: str, box: AgentTools, within: tuple[str, ...]) -> None:
    traversal.assembly.describe(
        own, "tool", name, tools=box.names, gated_tools=box.gated, **box.metadata(), within=within
    )
    for inner, target in box.runs:
        traversal.call(own, inner, target)


def _describe_code(
    traversal: Traversal, own: str, inner: Any, target: Any, within: tuple[str, ...], *, is_routed: bool
) -> None:
    """Describes a node with code of the program; it asks a person if it declares so, or its code does."""
    gate = predicate(getattr(inner, "require_confirmation", False))
    code = AdkCode(target) if target is not None else None
    asks = gate is not None or (code is not None and code.asks)
    always = gate == "" or (code is not None and code.always_asks)
    kind: NodeKind = "human" if asks else "router" if is_routed else "passthrough"
    place = code.place if code else {}
    asks_when = ("always" if always else "sometimes") if asks else None
    traversal.assembly.describe(
        own, kind, _name(inner), within=within, asks=asks_when, asked_when=gate or None, **place
    )
    if asks and not always:
        traversal.assembly.note(f"{own}: it asks a person only under a condition")
    if code is not None and code.body is None:
        traversal.assembly.note(f"{own}: the source of its function is missing; whether it asks a person is unknown")


def _add_run_nodes(traversal: Traversal, own: str, code: AdkCode) -> bool:
    """Adds the nodes that a node runs by `ctx.run_node`; returns whether there are any."""
    for values in code.runs:
        known = [value for value in values.known if callable(value) or is_a(value, ADK, "BaseNode", "BaseTool")]
        for run_node in known:
            traversal.call(own, _name(run_node), run_node)
        if not known or not values.complete or len(known) < len(values.known):
            traversal.assembly.mark(own, runs_unknown=True)
            traversal.assembly.mark_unknown(own, EDGES, "the nodes that it runs by 'run_node' are unknown")
    return bool(code.runs)
