"""Small graphs for tests, written as their edges."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise

from guardagent.workflow.model.graph import Edge, EdgeKind, Graph, Node, NodeKind

_SIGNS: dict[str, EdgeKind] = {">": "direct", "?": "conditional", "=": "parallel", "@": "loop"}
ENTRY, EXIT = "start", "end"


def graph_of(
    edges: str,
    *,
    kinds: Mapping[str, NodeKind] | None = None,
    tools: Mapping[str, Sequence[str]] | None = None,
    gated: Mapping[str, Sequence[str]] | None = None,
    chooses: Collection[str] = (),
    exits: Sequence[str] = (EXIT,),
    alone: str = "",
) -> Graph:
    """A graph from `start` to `end`.

    Args:
        edges: `start>a a?b`, where `>` is a direct edge, `?` a conditional, `=` a parallel and `@` a loop one.
        kinds: of nodes that are neither entry nor exit, and have no tools.
        tools: of each node; a node with tools is a tool node.
        gated: those of them that need an approval.
        chooses: nodes where a model decides whether to call the tools.
        exits: the ids of the exits.
        alone: nodes without edges.
    """
    read = [_edge(text) for text in edges.split()]
    names = dict.fromkeys([ENTRY, *(name for edge in read for name in (edge.source, edge.target)), *alone.split()])
    known: dict[str, NodeKind] = {ENTRY: "entry", **dict.fromkeys(exits, "exit"), **(kinds or {})}
    nodes = [
        Node(
            name,
            "tool" if (tools or {}).get(name) else known.get(name, "llm"),
            name,
            tuple((tools or {}).get(name, ())),
            tuple((gated or {}).get(name, ())),
            {"model_chooses": True} if name in chooses else {},
        )
        for name in dict.fromkeys([*names, *exits])
    ]
    return Graph("small", "test", ENTRY, tuple(exits), tuple(nodes), tuple(read))


def _edge(text: str) -> Edge:
    sign = next(sign for sign in _SIGNS if sign in text)
    source, target = text.split(sign)
    return Edge(source, target, _SIGNS[sign])


def is_path(graph: Graph, path: Sequence[str]) -> bool:
    """Whether each node of a path follows the one before it."""
    edges = {(edge.source, edge.target) for edge in graph.edges}
    return bool(path) and all(pair in edges for pair in pairwise(path))
