"""Which nodes lie on a cycle: Tarjan's strongly connected components, without recursion."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator


def on_cycles(nodes: Collection[int], following: Callable[[int], Iterable[int]]) -> set[int]:
    """The nodes that lie on a cycle.

    Args:
        nodes: all nodes.
        following: the nodes that follow one; all of them are among `nodes`.
    """
    cyclic: set[int] = set()
    for component in components(nodes, following):
        if len(component) > 1 or component[0] in following(component[0]):
            cyclic.update(component)
    return cyclic


def components(nodes: Collection[int], following: Callable[[int], Iterable[int]]) -> Iterator[list[int]]:
    """The strongly connected components (Tarjan 1972), those first that lead to no other."""
    order: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    open_nodes: set[int] = set()
    for root in nodes:
        if root in order:
            continue
        work = [(root, iter(following(root)))]
        order[root] = low[root] = len(order)
        stack.append(root)
        open_nodes.add(root)
        while work:
            node, targets = work[-1]
            for target in targets:
                if target not in order:
                    order[target] = low[target] = len(order)
                    stack.append(target)
                    open_nodes.add(target)
                    work.append((target, iter(following(target))))
                    break
                if target in open_nodes:
                    low[node] = min(low[node], order[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == order[node]:
                    yield _popped(node, stack, open_nodes)


def _popped(node: int, stack: list[int], open_nodes: set[int]) -> list[int]:
    component = []
    while True:
        component.append(stack.pop())
        open_nodes.discard(component[-1])
        if component[-1] == node:
            return component
