"""Assigns layers: each node is below its predecessors and close to its neighbours."""

from __future__ import annotations

from collections.abc import Collection, Sequence

STEP = 2  # an extra layer between layers of nodes: for labels, and to separate a link from its reverse


def layers_of(
    count: int, links: Sequence[tuple[int, int]], back: Collection[int], last: Collection[int] = ()
) -> list[int]:
    """Returns the layer of each node, from 0; every link leads down, except the links of `back`."""
    above: list[list[int]] = [[] for _ in range(count)]
    below: list[list[int]] = [[] for _ in range(count)]
    for index, (source, target) in enumerate(links):
        if source != target:
            upper, lower = (target, source) if index in back else (source, target)
            above[lower].append(upper)
            below[upper].append(lower)
    order = _downwards(above, below)
    layers = [0] * count
    for node in order:
        layers[node] = max((layers[upper] + STEP for upper in above[node]), default=0)
    _draw_near(layers, order, above, below)
    _to_bottom(layers, below, last)
    return layers


def _downwards(above: Sequence[Sequence[int]], below: Sequence[Sequence[int]]) -> list[int]:
    waiting = [len(uppers) for uppers in above]
    order = [node for node, count in enumerate(waiting) if not count]
    for node in order:
        for lower in below[node]:
            waiting[lower] -= 1
            if not waiting[lower]:
                order.append(lower)
    return order


def _draw_near(
    layers: list[int], order: Sequence[int], above: Sequence[Sequence[int]], below: Sequence[Sequence[int]]
) -> None:
    # Each node is as high as possible; a node with more links down than up moves down to shorten them.
    for node in reversed(order):
        if below[node] and len(below[node]) > len(above[node]):
            layers[node] = min(layers[lower] for lower in below[node]) - STEP
    lowest = min(layers, default=0)
    layers[:] = [layer - lowest for layer in layers]


def _to_bottom(layers: list[int], below: Sequence[Sequence[int]], last: Collection[int]) -> None:
    bottom = max(layers, default=0)
    for node in last:
        if not below[node]:
            layers[node] = bottom
