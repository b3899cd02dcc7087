"""Fragments of the workflow graph: one node, or the nodes of a subgraph, with entries and exits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from guardagent.frameworks.langgraph.extractor.nodes import NodeFacts
from guardagent.workflow.model.graph import EdgeKind, GraphBuilder, NodeKind

_ORDER: tuple[EdgeKind, ...] = ("parallel", "conditional", "loop", "direct")


@dataclass(frozen=True)
class Port:
    """An entry or an exit of a fragment: its node, and the kind and condition of the edge."""

    node: str
    kind: EdgeKind = "direct"
    condition: str = ""


@dataclass(frozen=True)
class ParentCommand:
    """A command of a subgraph to its parent graph; `targets` is None if they are unknown."""

    node: str
    targets: frozenset[str] | None


@dataclass
class Fragment:
    """The graph of one node of a StateGraph: the node itself, or those of its subgraph.

    Attributes:
        entries: its entries.
        exits: its exits.
        parent_commands: its commands to the parent graph.
        facts: the facts of the node; None for a subgraph.
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
        """Adds the nodes of a graph, with a prefix to their ids, and its edges."""

    def add(self, id: str, kind: NodeKind, name: str, facts: NodeFacts, **metadata: Any) -> None:  # noqa: A002
        """Adds a node from its facts."""

    def add_called_graphs(self, node: str, facts: NodeFacts) -> None:
        """Adds the graphs that the functions of a node run, with edges there and back."""


def joined(*kinds: EdgeKind) -> EdgeKind:
    """The kind of one edge that replaces a sequence of edges."""
    return min(kinds, key=_ORDER.index)
