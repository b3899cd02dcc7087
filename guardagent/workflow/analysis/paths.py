"""Reachability in a graph, its shortest paths as witnesses, and the nodes on cycles; all linear in nodes and edges."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

from guardagent.workflow.model.graph import Graph

Neighbours = Sequence[Sequence[int]]

_FIRST = -1  # the parent of a node where a search begins
_BLOCKED = -2
_INDEX_KEY = "numbered"


@dataclass(frozen=True, eq=False, slots=True)
class GraphIndex:
    """The nodes of a graph as numbers, in the order of the graph, for fast traversal.

    Attributes:
        ids: number -> id of a node.
        numbers: id of a node -> number.
        sources, targets: the ends of the edges, in the order of the graph.
    """

    ids: list[str]
    numbers: dict[str, int]
    sources: list[int]
    targets: list[int]

    @classmethod
    def of(cls, graph: Graph) -> GraphIndex:
        """Returns the index of a graph, and caches it there: a graph is immutable."""
        variable = vars(graph).get(_INDEX_KEY)
        return variable if variable is not None else cls._built(graph).kept_on(graph)

    @classmethod
    def _built(cls, graph: Graph) -> GraphIndex:
        ids = [node.id for node in graph.nodes]
        numbers = {node: number for number, node in enumerate(ids)}
        return cls(
            ids, numbers, [numbers[edge.source] for edge in graph.edges], [numbers[edge.target] for edge in graph.edges]
        )

    def kept_on(self, graph: Graph) -> GraphIndex:
        vars(graph)[_INDEX_KEY] = self
        return self

    def successors(self) -> list[list[int]]:
        """Number of a node -> the numbers of its successors."""
        return self._grouped(self.sources, self.targets)

    def predecessors(self) -> list[list[int]]:
        """Number of a node -> the numbers of its predecessors."""
        return self._grouped(self.targets, self.sources)

    def _grouped(self, keys: Iterable[int], values: Iterable[int]) -> list[list[int]]:
        groups: list[list[int]] = [[] for _ in self.ids]
        for key, value in zip(keys, values, strict=True):
            groups[key].append(value)
        return groups


class BreadthFirstSearch:
    """A breadth-first search: the reachable nodes, and a shortest path to each.

    Args:
        ids: number -> id of a node.
        neighbours: the successors of each node.
        starts: the nodes to begin with.
        blocked: nodes that are not entered.

    Attributes:
        order: the reached nodes, nearest first.
        parents: for each node its predecessor on a shortest path; None if it is not reached.
    """

    def __init__(
        self, ids: Sequence[str], neighbours: Neighbours, starts: Collection[int], blocked: Collection[int] = ()
    ) -> None:
        self.ids = ids
        self.parents: list[int | None] = [None] * len(ids)
        self.order: list[int] = []
        parents, order = self.parents, self.order
        for node in blocked:
            parents[node] = _BLOCKED
        for node in starts:
            if parents[node] is None:
                parents[node] = _FIRST
                order.append(node)
        for node in order:  # grows during the loop
            for target in neighbours[node]:
                if parents[target] is None:
                    parents[target] = node
                    order.append(target)
        for node in blocked:
            parents[node] = None

    def __contains__(self, node: int) -> bool:
        return self.parents[node] is not None

    def path(self, node: int, then: int | None = None) -> WitnessPath:
        """A shortest path to a node, and to `then` after it; for a node that is not reached, the node alone."""
        return WitnessPath(self, node, then)


class WitnessPath(Sequence[str]):
    """A path to a node, computed on first use, since a graph can have many findings."""

    __slots__ = ("_node", "_path", "_search", "_then")

    def __init__(self, search: BreadthFirstSearch, node: int, then: int | None) -> None:
        self._search, self._node, self._then = search, node, then
        self._path: tuple[str, ...] | None = None

    @property
    def _all(self) -> tuple[str, ...]:
        if self._path is None:
            self._path = self._walked_back()
        return self._path

    def _walked_back(self) -> tuple[str, ...]:
        ids, parents, node = self._search.ids, self._search.parents, self._node
        if parents[node] is None:
            return (ids[node],)
        reversed_ids = [] if self._then is None else [ids[self._then]]
        while node >= 0:
            reversed_ids.append(ids[node])
            node = parents[node]  # type: ignore[assignment]  # a reached node has a parent
        reversed_ids.reverse()
        return tuple(reversed_ids)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: Any) -> Any:
        return self._all[index]

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._all == tuple(other)

    def __hash__(self) -> int:
        return hash(self._all)

    def __repr__(self) -> str:
        return " -> ".join(self._all)


def on_cycles(successors: Neighbours) -> set[int]:
    """Returns the nodes on cycles; `successors` has the numbers of the successors of each node."""
    cyclic: set[int] = set()
    for component in components(successors):
        if len(component) > 1 or component[0] in successors[component[0]]:
            cyclic.update(component)
    return cyclic


def components(successors: Neighbours) -> Iterator[list[int]]:
    """Yields the strongly connected components in reverse topological order (Tarjan 1972), without recursion."""
    unseen, closed, count = 0, len(successors) + 1, 0
    order = [unseen] * len(successors)
    low = list(order)
    stack: list[int] = []
    for root in range(len(successors)):
        work = [] if order[root] else [(root, iter(successors[root]))]
        while work:
            node, targets = work[-1]
            if order[node] == unseen:
                count += 1
                order[node] = low[node] = count
                stack.append(node)
            for target in targets:
                if order[target] == unseen:
                    work.append((target, iter(successors[target])))
                    break
                low[node] = min(low[node], order[target])  # a closed one is of another component
            else:
                work.pop()
                if work:
                    above = work[-1][0]
                    low[above] = min(low[above], low[node])
                if low[node] == order[node]:
                    component = _popped(node, stack)
                    for member in component:
                        order[member] = closed
                    yield component


def _popped(node: int, stack: list[int]) -> list[int]:
    at = len(stack) - 1
    while stack[at] != node:
        at -= 1
    component = stack[at:]
    del stack[at:]
    return component
