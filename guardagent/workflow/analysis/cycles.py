"""Finds the nodes on cycles: Tarjan's strongly connected components, without recursion."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

Neighbours = Sequence[Sequence[int]]


def on_cycles(successors: Neighbours) -> set[int]:
    """Returns the nodes on cycles.

    Args:
        successors: number of a node -> the numbers of its successors.
    """
    cyclic: set[int] = set()
    for component in components(successors):
        if len(component) > 1 or component[0] in successors[component[0]]:
            cyclic.update(component)
    return cyclic


def components(successors: Neighbours) -> Iterator[list[int]]:
    """Yields the strongly connected components in reverse topological order (Tarjan 1972)."""
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
                    for one in component:
                        order[one] = closed
                    yield component


def _popped(node: int, stack: list[int]) -> list[int]:
    at = len(stack) - 1
    while stack[at] != node:
        at -= 1
    component = stack[at:]
    del stack[at:]
    return component
