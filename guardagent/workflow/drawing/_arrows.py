"""The arrows of a picture: one for all edges between the same nodes, with all their conditions."""

from __future__ import annotations

from dataclasses import dataclass

from guardagent.workflow.drawing._text import single_line
from guardagent.workflow.model.graph import EdgeKind, Graph


@dataclass(frozen=True, slots=True)
class Arrow:
    """An arrow between two nodes of a graph, by their indices."""

    source: int
    target: int
    kind: EdgeKind
    conditions: tuple[str, ...]


def arrows(graph: Graph) -> tuple[Arrow, ...]:
    """Returns one arrow for all edges of one kind between the same two nodes."""
    index = {node.id: number for number, node in enumerate(graph.nodes)}
    found: dict[tuple[int, int, EdgeKind], dict[str, None]] = {}
    for edge in graph.edges:
        conditions = found.setdefault((index[edge.source], index[edge.target], edge.kind), {})
        if condition := single_line(edge.condition):
            conditions[condition] = None
    return tuple(Arrow(*way, tuple(conditions)) for way, conditions in found.items())
