"""Routes the lines from the border of a node through joints to another node, never through a third one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from guardagent.workflow.drawing._layout.chains import Chains
from guardagent.workflow.drawing._layout.shapes import GraphLayout, Point, Route, Size

_CLOSEST, _STEEPEST, _FARTHEST = 18.0, 0.05, 70.0  # of the gap between two layers
_PORTS_APART, _PORTS_WIDTH = 18.0, 0.6  # the distance of links at a node, and their part of its width


class _Row(NamedTuple):
    top: float
    bottom: float


def routes(chains: Chains, layers: Sequence[Sequence[int]], columns: Sequence[float]) -> GraphLayout:
    """Returns the drawing for given x coordinates."""
    rows = _rows(chains, layers, columns)
    middle = [Point(columns[one], sum(rows[chains.layer_of[one]]) / 2) for one in range(len(columns))]
    ports = _Ports(chains, columns)
    lines = [
        _route(chains, index, chain, rows, middle, ports) if chain else Route()
        for index, chain in enumerate(chains.chains)
    ]
    width = max((x + size.width / 2 for x, size in zip(columns, chains.sizes, strict=True)), default=0.0)
    height = rows[-1].bottom if rows else 0.0
    return GraphLayout(Size(width, height), tuple(middle[: chains.count]), tuple(lines))


def _rows(chains: Chains, layers: Sequence[Sequence[int]], columns: Sequence[float]) -> list[_Row]:
    rows: list[_Row] = []
    bottom = 0.0
    for index, layer in enumerate(layers):
        top = bottom + (_gap(chains, layer, columns) if index else 0.0)
        bottom = top + max((chains.sizes[one].height for one in layer), default=0.0)
        rows.append(_Row(top, bottom))
    return rows


def _gap(chains: Chains, layer: Sequence[int], columns: Sequence[float]) -> float:
    # A line with a large horizontal extent needs height, or it crosses its neighbours at a flat angle.
    sideways = [abs(columns[one] - columns[above]) for one in layer for above in chains.above[one]]
    return min(_FARTHEST, _CLOSEST + _STEEPEST * max(sideways, default=0.0))


class _Ports:
    """The ends of links along the lower and upper border of a node, in the order of their other ends."""

    def __init__(self, chains: Chains, columns: Sequence[float]) -> None:
        self._below = self._shifts(chains, columns, chains.below)
        self._above = self._shifts(chains, columns, chains.above)

    def below(self, node: int, neighbour: int) -> float:
        return self._below[node, neighbour]

    def above(self, node: int, neighbour: int) -> float:
        return self._above[node, neighbour]

    @staticmethod
    def _shifts(
        chains: Chains, columns: Sequence[float], neighbours: Sequence[Sequence[int]]
    ) -> dict[tuple[int, int], float]:
        # Every link has its own joint next to the node, so a neighbour identifies the link.
        shifts: dict[tuple[int, int], float] = {}
        for node in range(chains.count):
            near = sorted(neighbours[node], key=columns.__getitem__)
            step = min(_PORTS_APART, chains.sizes[node].width * _PORTS_WIDTH / len(near)) if near else 0.0
            for index, one in enumerate(near):
                shifts[node, one] = columns[node] + step * (index - (len(near) - 1) / 2)
        return shifts


def _route(
    chains: Chains, index: int, chain: Sequence[int], rows: Sequence[_Row], middle: Sequence[Point], ports: _Ports
) -> Route:
    points = list(_points(chains, chain, rows, middle, ports))
    if index in chains.back:
        points.reverse()
    label = chains.labelled.get(index)
    return Route(tuple(points), None if label is None else middle[label])


def _points(
    chains: Chains, chain: Sequence[int], rows: Sequence[_Row], middle: Sequence[Point], ports: _Ports
) -> Iterator[Point]:
    upper, *joints, lower = chain
    x = ports.below(upper, joints[0])
    yield Point(x, middle[upper].y + chains.sizes[upper].height / 2)
    yield Point(x, rows[chains.layer_of[upper]].bottom)
    for joint in joints:
        row = rows[chains.layer_of[joint]]
        # A layer without nodes or labels needs no points: one curve passes it.
        if row.bottom > row.top:
            yield Point(middle[joint].x, row.top)
            yield Point(middle[joint].x, row.bottom)
    x = ports.above(lower, joints[-1])
    yield Point(x, rows[chains.layer_of[lower]].top)
    yield Point(x, middle[lower].y - chains.sizes[lower].height / 2)
