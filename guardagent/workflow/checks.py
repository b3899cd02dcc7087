"""The structural checks of a graph (Agentproof, Definition 3 and Section 6.1), each with shortest witnesses."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from guardagent.errors import UnknownNameError
from guardagent.workflow.graph import Edge, Graph, Node
from guardagent.workflow.paths import Adjacency, Path, search
from guardagent.workflow.report import GraphFinding


@dataclass(frozen=True)
class View:
    """A graph with what the checks share."""

    graph: Graph
    require_human: bool = False
    sensitive_tools: tuple[str, ...] = ()

    @cached_property
    def adjacency(self) -> Adjacency:
        return Adjacency.of(self.graph)

    @cached_property
    def reached(self) -> dict[str, str | None]:
        """What can be reached from the entry."""
        return search(self.adjacency.after, [self.graph.entry_id])

    @cached_property
    def can_end(self) -> Collection[str]:
        """What can reach an exit."""
        return search(self.adjacency.before, self.graph.exit_ids)

    def path(self, node: str, *rest: str) -> Path:
        """A shortest path from the entry to a node, and on; an unreachable node stands for itself."""
        return Path(self.reached, node, *(rest if node in self.reached else ()))


def structural_findings(
    graph: Graph, *, require_human: bool = False, sensitive_tools: Iterable[str] = ()
) -> list[GraphFinding]:
    """All structural findings of a graph.

    Args:
        graph: the graph.
        require_human: a person has to take part somewhere.
        sensitive_tools: tools that no path may reach without a person.

    Raises:
        UnknownNameError: a sensitive tool is not in the graph.
    """
    tools = tuple(sensitive_tools)
    known = {tool for node in graph.nodes for tool in node.tools} if tools else set()
    for tool in tools:
        if tool not in known:
            raise UnknownNameError("sensitive tool", tool, known, f"graph {graph.name!r}")
    view = View(graph, require_human, tools)
    return [finding for check in CHECKS for finding in check(view)]


def exit_reachability(view: View) -> Iterator[GraphFinding]:
    """Every exit can be reached from the entry."""
    for exit_id in view.graph.exit_ids:
        if exit_id not in view.reached:
            message = f"the exit {exit_id} cannot be reached from {view.graph.entry_id}"
            yield GraphFinding("exit_reachability", exit_id, "error", message, (exit_id,))


def reverse_reachability(view: View) -> Iterator[GraphFinding]:
    """Every node that can be reached can reach an exit: there is no livelock, and no way into one."""
    for node in view.reached:
        if node not in view.can_end:
            message = f"from {node} no exit can be reached"
            yield GraphFinding("reverse_reachability", node, "error", message, view.path(node))


def dead_ends(view: View) -> Iterator[GraphFinding]:
    """Every node but an exit leads somewhere."""
    exits = frozenset(view.graph.exit_ids)
    for node, targets in view.adjacency.after.items():
        if not targets and node not in exits:
            message = f"{node} leads nowhere, and is no exit"
            yield GraphFinding("dead_ends", node, "error", message, view.path(node))


def router_shape(view: View) -> Iterator[GraphFinding]:
    """All edges that leave a router are conditional."""
    routers = {node.id for node in view.graph.nodes if node.kind == "router"}
    for edge in view.graph.edges:
        if edge.source in routers and edge.kind != "conditional":
            yield _unconditional(view, edge)


def _unconditional(view: View, edge: Edge) -> GraphFinding:
    message = f"the router {edge.source} has an edge to {edge.target} that is {edge.kind}; expected a conditional one"
    return GraphFinding("router_shape", edge.source, "error", message, view.path(edge.source, edge.target))


def human_presence(view: View) -> Iterator[GraphFinding]:
    """A person takes part: as a node, or by approving a tool."""
    graph = view.graph
    if not view.require_human or any(node.kind == "human" or node.gated_tools for node in graph.nodes):
        return
    end = next((exit_id for exit_id in graph.exit_ids if exit_id in view.reached), graph.entry_id)
    message = "no person takes part: there is no human node, and no tool that needs an approval"
    yield GraphFinding("human_presence", None, "error", message, view.path(end))


def human_coverage(view: View) -> Iterator[GraphFinding]:
    """No path leads to a sensitive tool without a person."""
    sensitive = set(view.sensitive_tools)
    if not sensitive:
        return
    people = {node.id for node in view.graph.nodes if node.kind == "human"}
    unattended = search(view.adjacency.after, [view.graph.entry_id], people)
    for node in view.graph.nodes:
        if node.id in unattended:
            for tool in _ungated(node, sensitive):
                message = f"{node.id} can call {tool} on a path without a person"
                yield GraphFinding("human_coverage", node.id, "error", message, Path(unattended, node.id))


def _ungated(node: Node, sensitive: set[str]) -> list[str]:
    return [tool for tool in node.tools if tool in sensitive and tool not in node.gated_tools]


def tool_declarations(view: View) -> Iterator[GraphFinding]:
    """Every tool node says which tools it has."""
    for node in view.graph.nodes:
        if node.kind == "tool" and not node.tools:
            message = f"{node.id} is a tool node and declares no tools"
            yield GraphFinding("tool_declarations", node.id, "error", message, view.path(node.id))


CHECKS: tuple[Callable[[View], Iterator[GraphFinding]], ...] = (
    exit_reachability,
    reverse_reachability,
    dead_ends,
    router_shape,
    human_presence,
    human_coverage,
    tool_declarations,
)
