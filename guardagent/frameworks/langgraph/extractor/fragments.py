"""What stands for a node of a LangGraph in the graph: one node, or those of a subgraph, with the ways in and out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from guardagent.frameworks.langgraph.extractor.nodes import NodeFacts
from guardagent.workflow.model.graph import EdgeKind, GraphBuilder, NodeKind

_ORDER: tuple[EdgeKind, ...] = ("parallel", "conditional", "loop", "direct")


@dataclass(frozen=True)
class Port:
    """A way into a part of the graph, or out of it: by this node, and how."""

    node: str
    kind: EdgeKind = "direct"
    condition: str = ""


@dataclass(frozen=True)
class ParentCommand:
    """A command of a subgraph for the graph around it: from this node to these, or to anywhere."""

    node: str
    targets: frozenset[str] | None


@dataclass
class Fragment:
    """What stands for one node of a StateGraph: the node itself, or those of its subgraph.

    Attributes:
        enters: where a run enters it.
        leaves: where a run leaves it.
        calls: its commands for the graph around it.
        facts: what is known of the node; None for a subgraph.
    """

    entries: list[Port]
    exits: list[Port]
    parent_commands: list[ParentCommand] = field(default_factory=list)
    facts: NodeFacts | None = None


class GraphSink(Protocol):
    """Adds nodes, edges and whole graphs to a builder."""

    builder: GraphBuilder

    def edge(self, source: str, target: str, kind: EdgeKind = "direct", condition: str = "") -> None: ...

    def add_graph(self, graph: Any, prefix: str) -> Fragment:
        """Adds a graph's nodes, with a prefix to their ids, and the edges between them."""

    def add(self, id: str, kind: NodeKind, name: str, facts: NodeFacts, **metadata: Any) -> None:  # noqa: A002
        """Adds a node of which facts are known."""

    def add_called_graphs(self, node: str, facts: NodeFacts) -> None:
        """Adds the graphs that a node's functions run: the node can come to each of them, and comes back."""


def joined(*kinds: EdgeKind) -> EdgeKind:
    """The kind of an edge that stands for several one after another."""
    return min(kinds, key=_ORDER.index)
