"""The structural checks of a graph (Agentproof, Definition 3 and Section 6.1), each with shortest witnesses."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from guardagent.errors import UnknownNameError
from guardagent.workflow.analysis.paths import Numbered, Search, without_collections
from guardagent.workflow.analysis.report import GraphFinding
from guardagent.workflow.model.graph import Edge, Graph, Node, NodeKind


@dataclass(frozen=True)
class View:
    """A graph with what the checks share."""

    graph: Graph
    require_human: bool = False
    sensitive_tools: tuple[str, ...] = ()

    @cached_property
    def numbered(self) -> Numbered:
        return Numbered.of(self.graph)

    @cached_property
    def after(self) -> list[list[int]]:
        return self.numbered.after()

    @cached_property
    def kinds(self) -> list[NodeKind]:
        return [node.kind for node in self.graph.nodes]

    @cached_property
    def exits(self) -> frozenset[int]:
        return frozenset(self.numbered.numbers[exit_id] for exit_id in self.graph.exit_ids)

    def unattended(self, people: Collection[int]) -> Search:
        """What can be reached on paths where nobody is asked; of a node that asks on a branch, not by that branch."""
        numbers = self.numbered.numbers
        asked = {
            number: {numbers.get(target) for target in node.metadata["asked_before"]}
            for number, node in enumerate(self.graph.nodes)
            if isinstance(node.metadata.get("asked_before"), list | tuple)
        }
        if not people and not asked:
            return self.reached
        after = list(self.after)
        for number, targets in asked.items():
            after[number] = [one for one in after[number] if one not in targets]
        return Search(self.numbered.ids, after, [numbers[self.graph.entry_id]], people)

    @cached_property
    def reached(self) -> Search:
        """What can be reached from the entry."""
        numbered = self.numbered
        return Search(numbered.ids, self.after, [numbered.numbers[self.graph.entry_id]])

    @cached_property
    def can_end(self) -> Search:
        """What can reach an exit."""
        return Search(self.numbered.ids, self.numbered.before(), self.exits)


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
    with without_collections():
        return _found(View(graph, require_human, tools))  # what the checks share is gone before collections go on


def _found(view: View) -> list[GraphFinding]:
    return [finding for check in CHECKS for finding in check(view)]


def exit_reachability(view: View) -> Iterator[GraphFinding]:
    """Every exit can be reached from the entry."""
    for exit_id in view.graph.exit_ids:
        if view.numbered.numbers[exit_id] not in view.reached:
            message = f"the exit {exit_id} cannot be reached from {view.graph.entry_id}"
            yield GraphFinding("exit_reachability", exit_id, "error", message, (exit_id,))


def reverse_reachability(view: View) -> Iterator[GraphFinding]:
    """Every node that can be reached can reach an exit: there is no livelock, and no way into one."""
    ids, to_end = view.numbered.ids, view.can_end.parents
    for node in view.reached.order:
        if to_end[node] is None:
            message = f"from {ids[node]} no exit can be reached"
            yield GraphFinding("reverse_reachability", ids[node], "error", message, view.reached.path(node))


def dead_ends(view: View) -> Iterator[GraphFinding]:
    """Every node but an exit leads somewhere."""
    ids, kinds = view.numbered.ids, view.kinds
    for node, targets in enumerate(view.after):
        if not targets and kinds[node] != "exit":
            message = f"{ids[node]} leads nowhere, and is no exit"
            yield GraphFinding("dead_ends", ids[node], "error", message, view.reached.path(node))


def router_shape(view: View) -> Iterator[GraphFinding]:
    """All edges that leave a router are conditional."""
    edges, kinds = view.graph.edges, view.kinds
    for at, source in enumerate(view.numbered.sources):
        if kinds[source] == "router" and edges[at].kind != "conditional":
            yield _unconditional(view, edges[at], source, view.numbered.targets[at])


def _unconditional(view: View, edge: Edge, source: int, target: int) -> GraphFinding:
    message = f"the router {edge.source} has an edge to {edge.target} that is {edge.kind}; expected a conditional one"
    return GraphFinding("router_shape", edge.source, "error", message, view.reached.path(source, target))


def human_presence(view: View) -> Iterator[GraphFinding]:
    """A person takes part: as a node, or by approving a tool."""
    graph = view.graph
    if not view.require_human or "human" in view.kinds or any(node.gated_tools for node in graph.nodes):
        return
    numbers = view.numbered.numbers
    end = next((exit_id for exit_id in graph.exit_ids if numbers[exit_id] in view.reached), graph.entry_id)
    message = "no person takes part: there is no human node, and no tool that needs an approval"
    yield GraphFinding("human_presence", None, "error", message, view.reached.path(numbers[end]))


def human_coverage(view: View) -> Iterator[GraphFinding]:
    """No path leads to a sensitive tool without a person."""
    sensitive = set(view.sensitive_tools)
    if not sensitive:
        return
    nodes = view.graph.nodes
    people = [number for number, kind in enumerate(view.kinds) if kind == "human" and not _may_pass(nodes[number])]
    unattended = view.unattended(people)
    for number, node in enumerate(nodes):
        if node.tools and not sensitive.isdisjoint(node.tools) and number in unattended:
            for tool in _ungated(node, sensitive):
                message = f"{node.id} can call {tool} on a path without a person"
                yield GraphFinding("human_coverage", node.id, "error", message, unattended.path(number))


def _may_pass(node: Node) -> bool:
    """Whether a run can come by a node and ask nobody there: a person is asked on a branch, or about some tools."""
    said = node.metadata
    return bool(said.get("asks_about")) or (said.get("asks") == "sometimes" and not said.get("interrupt"))


def _ungated(node: Node, sensitive: set[str]) -> list[str]:
    return [tool for tool in node.tools if tool in sensitive and tool not in node.gated_tools]


def tool_declarations(view: View) -> Iterator[GraphFinding]:
    """Every tool node says which tools it has."""
    nodes = view.graph.nodes
    for number, kind in enumerate(view.kinds):
        if kind == "tool" and not nodes[number].tools:
            node = nodes[number]
            message = f"{node.id} is a tool node and declares no tools"
            yield GraphFinding("tool_declarations", node.id, "error", message, view.reached.path(number))


CHECKS: tuple[Callable[[View], Iterator[GraphFinding]], ...] = (
    exit_reachability,
    reverse_reachability,
    dead_ends,
    router_shape,
    human_presence,
    human_coverage,
    tool_declarations,
)
