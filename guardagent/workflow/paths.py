"""Reachability in a graph, and the shortest paths that witness it; all linear in nodes and edges."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

from guardagent.workflow.graph import Graph

Neighbours = Mapping[str, Sequence[str]]
Parents = Mapping[str, str | None]


@dataclass(frozen=True)
class Adjacency:
    """What follows each node, and what comes before it. Every node has an entry."""

    after: Neighbours
    before: Neighbours

    @classmethod
    def of(cls, graph: Graph) -> Adjacency:
        after: dict[str, list[str]] = {node.id: [] for node in graph.nodes}
        before: dict[str, list[str]] = {node.id: [] for node in graph.nodes}
        for edge in graph.edges:
            after[edge.source].append(edge.target)
            before[edge.target].append(edge.source)
        return cls(after, before)


def search(neighbours: Neighbours, starts: Collection[str], blocked: Collection[str] = ()) -> dict[str, str | None]:
    """Breadth first: the nodes that can be reached, each with the one before it on a shortest path.

    Args:
        neighbours: where each node leads to.
        starts: where to begin; these have None before them.
        blocked: nodes that are not entered.
    """
    parents: dict[str, str | None] = {start: None for start in starts if start not in blocked}
    waiting = list(parents)
    for node in waiting:  # grows while it is read
        for target in neighbours[node]:
            if target not in parents and target not in blocked:
                parents[target] = node
                waiting.append(target)
    return parents


class Path(Sequence[str]):
    """A shortest path to a node, put together when it is first looked at: a graph can have many findings."""

    __slots__ = ("_node", "_parents", "_path", "_rest")

    def __init__(self, parents: Parents, node: str, *rest: str) -> None:
        self._parents, self._node, self._rest = parents, node, rest
        self._path: tuple[str, ...] | None = None

    def _all(self) -> tuple[str, ...]:
        if self._path is None:
            found, node = list(self._rest[::-1]), self._node if self._node in self._parents else None
            if node is None and not found:
                found = [self._node]
            while node is not None:
                found.append(node)
                node = self._parents[node]
            self._path = tuple(found[::-1])
        return self._path

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: Any) -> Any:
        return self._all()[index]

    def __len__(self) -> int:
        return len(self._all())

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._all() == tuple(other)

    def __hash__(self) -> int:
        return hash(self._all())

    def __repr__(self) -> str:
        return " -> ".join(self._all())
