"""Finds the back links, which close a cycle in a depth-first search from the first node."""

from __future__ import annotations

from collections.abc import Sequence


def back_links(count: int, links: Sequence[tuple[int, int]], first: int) -> frozenset[int]:
    """Returns the indices of the back links; the graph has no cycle without them.

    A depth-first search from the first node finds the links that a reader sees as leading back, not the fewest links.
    """
    leaving: list[list[int]] = [[] for _ in range(count)]
    entered = [False] * count
    for index, (source, target) in enumerate(links):
        leaving[source].append(index)
        entered[target] = entered[target] or source != target
    roots = sorted(range(count), key=lambda node: (node != first, entered[node]))
    on_way, done, back = [False] * count, [False] * count, set()
    for root in roots:
        if not done[root]:
            back.update(_walk(root, links, leaving, on_way, done))
    return frozenset(back)


def _walk(
    root: int, links: Sequence[tuple[int, int]], leaving: Sequence[Sequence[int]], on_way: list[bool], done: list[bool]
) -> set[int]:
    back: set[int] = set()
    on_way[root] = True
    way = [(root, iter(leaving[root]))]
    while way:
        node, rest = way[-1]
        for index in rest:
            target = links[index][1]
            if on_way[target]:
                back.add(index)
            elif not done[target]:
                on_way[target] = True
                way.append((target, iter(leaving[target])))
                break
        else:
            on_way[node], done[node] = False, True
            way.pop()
    return back
