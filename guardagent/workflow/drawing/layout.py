"""Lays out a directed graph in layers, top to bottom, for drawings of up to some hundred nodes (Sugiyama's method).

Existing libraries call an external program, or ignore the sizes of nodes and labels. The steps of `lay_out`:
`back_links` finds links to reverse so that no cycle is left, `layers_of` assigns each node a layer, `Chains` adds a
joint for each layer that a link passes, `ordered_layers` orders the layers with few crossings, `x_positions` assigns
the x coordinates, and `routes` draws the lines. The same graph always has the same drawing. Lengths are in pixels;
y grows downwards.
"""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

_STEP = 2  # an extra layer between layers of nodes: for labels, and to separate a link from its reverse
_SWEEPS = 24
_PATIENCE = 4  # sweeps without an improvement before it stops
_WORK = 400_000  # joints to visit in all: large graphs get fewer sweeps
_SWAPS = 3_000  # with more joints than this, neighbours are not swapped
_BETWEEN_NODES, _BESIDE_JOINT, _BETWEEN_JOINTS = 34.0, 20.0, 14.0
_CLOSEST, _STEEPEST, _FARTHEST = 18.0, 0.05, 70.0  # of the gap between two layers
_PORTS_APART, _PORTS_WIDTH = 18.0, 0.6  # the distance of links at a node, and their part of its width

_Layers = Sequence[Sequence[int]]
_Pairs = Collection[tuple[int, int]]


class Point(NamedTuple):
    x: float
    y: float


class Size(NamedTuple):
    width: float
    height: float


NO_LABEL = Size(0, 0)


@dataclass(frozen=True, slots=True)
class LayoutLink:
    """A link between two nodes, by their indices, with the size of its label; zero means no label."""

    source: int
    target: int
    label: Size = NO_LABEL


@dataclass(frozen=True, slots=True)
class Route:
    """The line of a link: pairs of points, straight within a pair and curved between pairs.

    Attributes:
        label: the middle of the label.
    """

    points: tuple[Point, ...] = ()
    label: Point | None = None


@dataclass(frozen=True, slots=True)
class GraphLayout:
    """The layout of a graph: the middle of each node, and the route of each link."""

    size: Size
    nodes: tuple[Point, ...]
    routes: tuple[Route, ...]


def lay_out(
    nodes: Sequence[Size], links: Sequence[LayoutLink], *, first: int, last: Collection[int] = ()
) -> GraphLayout:
    """Returns the positions of the nodes and links of a graph.

    Args:
        nodes: the size of each node's box.
        links: links between indices of `nodes`, with the sizes of their labels. A link from a node to itself is not
            part of the layout and has no route: its box has to be wide enough for it.
        first: the node to begin with, at the top if possible.
        last: the nodes at the bottom.
    """
    ways = [(link.source, link.target) for link in links]
    back = back_links(len(nodes), ways, first)
    chains = Chains(nodes, links, back, layers_of(len(nodes), ways, back, last))
    layers = ordered_layers(chains)
    return routes(chains, layers, x_positions(chains, layers))


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
            back.update(_back_links_from(root, links, leaving, on_way, done))
    return frozenset(back)


def _back_links_from(
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


def layers_of(
    count: int, links: Sequence[tuple[int, int]], back: Collection[int], last: Collection[int] = ()
) -> list[int]:
    """Returns the layer of each node, from 0; every link leads down, except the links of `back`.

    Each node is below its predecessors and close to its neighbours.
    """
    above: list[list[int]] = [[] for _ in range(count)]
    below: list[list[int]] = [[] for _ in range(count)]
    for index, (source, target) in enumerate(links):
        if source != target:
            upper, lower = (target, source) if index in back else (source, target)
            above[lower].append(upper)
            below[upper].append(lower)
    order = _topological_order(dict(enumerate(below)))
    layers = [0] * count
    for node in order:
        layers[node] = max((layers[upper] + _STEP for upper in above[node]), default=0)
    _draw_near(layers, order, above, below)
    _to_bottom(layers, below, last)
    return layers


def _draw_near(
    layers: list[int], order: Sequence[int], above: Sequence[Sequence[int]], below: Sequence[Sequence[int]]
) -> None:
    # Each node is as high as possible; a node with more links down than up moves down to shorten them.
    for node in reversed(order):
        if below[node] and len(below[node]) > len(above[node]):
            layers[node] = min(layers[lower] for lower in below[node]) - _STEP
    lowest = min(layers, default=0)
    layers[:] = [layer - lowest for layer in layers]


def _to_bottom(layers: list[int], below: Sequence[Sequence[int]], last: Collection[int]) -> None:
    bottom = max(layers, default=0)
    for node in last:
        if not below[node]:
            layers[node] = bottom


def _topological_order(following: Mapping[int, Iterable[int]]) -> list[int]:
    """Returns the keys of a graph without cycles, each before those that follow it."""
    waiting = dict.fromkeys(following, 0)
    for targets in following.values():
        for target in targets:
            waiting[target] += 1
    order = [key for key, count in waiting.items() if not count]
    for key in order:  # grows during the loop
        for target in following[key]:
            waiting[target] -= 1
            if not waiting[target]:
                order.append(target)
    return order


class Chains:
    """The layered graph: each link is a chain with a joint in every layer that it passes.

    Nodes and joints have indices: first the nodes in their original order, then the joints.

    Attributes:
        count: the number of nodes.
        sizes: the sizes of nodes and joints; a joint with a label has the size of the label.
        layer_of: the layer of each node and joint.
        above, below: the neighbours in the adjacent layers.
        chains: for each link its nodes and joints from top to bottom; empty for a link from a node to itself.
        labelled: for each link the joint with its label.
        back: the back links, which lead up.
    """

    def __init__(
        self, nodes: Sequence[Size], links: Sequence[LayoutLink], back: Collection[int], layers: Sequence[int]
    ) -> None:
        self.count = len(nodes)
        self.back = back
        self.sizes = list(nodes)
        self.layer_of = list(layers)
        self.above: list[list[int]] = [[] for _ in nodes]
        self.below: list[list[int]] = [[] for _ in nodes]
        self.labelled: dict[int, int] = {}
        self.chains = [self._chain(index, link) for index, link in enumerate(links)]

    def is_joint(self, index: int) -> bool:
        return index >= self.count

    def _chain(self, index: int, link: LayoutLink) -> list[int]:
        if link.source == link.target:
            return []
        upper, lower = (link.target, link.source) if index in self.back else (link.source, link.target)
        layers = range(self.layer_of[upper] + 1, self.layer_of[lower])
        # A condition belongs to the source: its label is next to it, however long the link is.
        label_layer = layers[-1] if index in self.back else layers[0]
        chain = [upper, *(self._joint(layer) for layer in layers), lower]
        if link.label.width:
            self.labelled[index] = joint = chain[label_layer - layers[0] + 1]
            self.sizes[joint] = link.label
        for node, other in pairwise(chain):
            self.below[node].append(other)
            self.above[other].append(node)
        return chain

    def _joint(self, layer: int) -> int:
        self.sizes.append(Size(0, 0))
        self.layer_of.append(layer)
        self.above.append([])
        self.below.append([])
        return len(self.sizes) - 1


def ordered_layers(chains: Chains) -> list[list[int]]:
    """Returns the nodes and joints of each layer, from left to right, so that few links cross.

    These are Sugiyama's barycentres, then swaps of neighbours.
    """
    layers = best = _depth_first(chains)
    fewest, waited = crossings(chains, best), 0
    for sweep in range(max(2, min(_SWEEPS, _WORK // (len(chains.sizes) + 1)))):
        layers = _swept(chains, layers, down=sweep % 2 == 0)
        if len(chains.sizes) <= _SWAPS:
            _swap_neighbours(chains, layers)
        least = crossings(chains, layers)
        waited += 1
        if least < fewest:
            best, fewest, waited = layers, least, 0
        if not fewest or waited == _PATIENCE:
            break
    return best


def crossings(chains: Chains, layers: Sequence[Sequence[int]]) -> int:
    """Returns the number of crossings."""
    total = 0
    place = _places(layers)
    for layer in layers:
        ends: list[int] = []
        for upper in layer:
            lowers = [place[lower] for lower in chains.below[upper]]
            total += sum(len(ends) - bisect_right(ends, lower) for lower in lowers)
            for lower in lowers:
                insort(ends, lower)
    return total


def _depth_first(chains: Chains) -> list[list[int]]:
    # Depth-first order from the top keeps connected nodes close to each other.
    layers: list[list[int]] = [[] for _ in range(max(chains.layer_of, default=0) + 1)]
    seen = [False] * len(chains.sizes)
    for top in sorted(range(chains.count), key=lambda node: chains.layer_of[node]):
        waiting = [top]
        while waiting:
            current_node = waiting.pop()
            if not seen[current_node]:
                seen[current_node] = True
                layers[chains.layer_of[current_node]].append(current_node)
                waiting.extend(reversed(chains.below[current_node]))
    return layers


def _swept(chains: Chains, layers: Sequence[Sequence[int]], *, down: bool) -> list[list[int]]:
    neighbours = chains.above if down else chains.below
    done: list[list[int]] = [list(layer) for layer in layers]
    place = _places(done)
    for layer in done if down else reversed(done):
        wanted = {node: _middle(neighbours[node], place, place[node]) for node in layer}
        layer.sort(key=wanted.__getitem__)
        place.update((node, index) for index, node in enumerate(layer))
    return done


def _middle(neighbours: Sequence[int], place: dict[int, int], otherwise: int) -> float:
    return sum(place[neighbour] for neighbour in neighbours) / len(neighbours) if neighbours else otherwise


def _places(layers: Sequence[Sequence[int]]) -> dict[int, int]:
    return {node: index for layer in layers for index, node in enumerate(layer)}


def _swap_neighbours(chains: Chains, layers: Sequence[list[int]]) -> None:
    place = _places(layers)
    for layer in layers:
        for index in range(len(layer) - 1):
            left, right = layer[index], layer[index + 1]
            if _gain(chains, place, left, right) > 0:
                layer[index], layer[index + 1] = right, left
                place[left], place[right] = index + 1, index


def _gain(chains: Chains, place: dict[int, int], left: int, right: int) -> int:
    gain = 0
    for side in (chains.above, chains.below):
        lefts, rights = [place[neighbour] for neighbour in side[left]], [place[neighbour] for neighbour in side[right]]
        gain += sum((left_place > other) - (left_place < other) for left_place in lefts for other in rights)
    return gain


def x_positions(chains: Chains, layers: _Layers) -> list[float]:
    """Returns the x coordinate of the middle of each node and joint (Brandes and Köpf, 2001).

    Long links are straight, and nodes are centred on neighbours. Computes four drawings, aligned left or right, with
    straight lines from above or from below. Each x is the mean of the two middle ones, which keeps the distances.
    """
    crossed = _crossing_pieces(chains, layers)
    positions = [
        _to_one_side(chains, layers, crossed, upwards=upwards, mirrored=mirrored)
        for upwards in (False, True)
        for mirrored in (False, True)
    ]
    _align(positions, chains)
    middles = [sum(sorted(xs)[1:3]) / 2 for xs in zip(*positions, strict=True)]
    _ease(middles, chains, layers)
    left = min((x - size.width / 2 for x, size in zip(middles, chains.sizes, strict=True)), default=0.0)
    return [x - left for x in middles]


def _ease(xs: list[float], chains: Chains, layers: _Layers) -> None:
    """Moves the only joint of a short link between its nodes, as far as there is room, to avoid detours."""
    for layer in layers:
        for index, node in enumerate(layer):
            ends = [*chains.above[node], *chains.below[node]]
            if chains.is_joint(node) and not any(map(chains.is_joint, ends)):
                wanted = sorted([xs[node], *(xs[end] for end in ends)])[1]
                left, right = layer[index - 1 : index], layer[index + 1 : index + 2]
                least = max((xs[other] + _distance(chains, other, node) for other in left), default=-math.inf)
                most = min((xs[other] - _distance(chains, node, other) for other in right), default=math.inf)
                xs[node] = max(least, min(most, wanted))


def _crossing_pieces(chains: Chains, layers: _Layers) -> set[tuple[int, int]]:
    """Returns the link segments that cross a segment between two joints; they bend to keep long links straight."""
    crossing: set[tuple[int, int]] = set()
    for upper, lower in pairwise(layers):
        place = {node: index for index, node in enumerate(upper)}
        begin, scanned = 0, 0
        for index, node in enumerate(lower):
            inner = [place[above] for above in chains.above[node] if _joints(chains, above, node)]
            if not inner and index < len(lower) - 1:
                continue
            end = inner[0] if inner else len(upper)
            for other in lower[scanned : index + 1]:
                away = [above for above in chains.above[other] if not begin <= place[above] <= end]
                crossing.update((above, other) for above in away if not _joints(chains, above, other))
            begin, scanned = end, index + 1
    return crossing | {(lower, upper) for upper, lower in crossing}


def _joints(chains: Chains, node: int, other: int) -> bool:
    return chains.is_joint(node) and chains.is_joint(other)


def _to_one_side(chains: Chains, layers: _Layers, crossed: _Pairs, *, upwards: bool, mirrored: bool) -> list[float]:
    turned = [layer[::-1] if mirrored else layer for layer in (layers[::-1] if upwards else layers)]
    heads = _straightened(turned, chains.below if upwards else chains.above, crossed)
    sign = -1 if mirrored else 1
    xs = _compacted(turned, heads, chains)
    return [sign * xs[head] for head in heads]


def _straightened(layers: _Layers, neighbours: Sequence[Sequence[int]], crossed: _Pairs) -> list[int]:
    """Returns the head of the line of each node and joint; each joins the line of a median neighbour."""
    heads = list(range(len(neighbours)))
    for previous, layer in pairwise(layers):
        place = {node: index for index, node in enumerate(previous)}
        last = -1
        for node in layer:
            for other in _in_the_middle(neighbours[node], place):
                if place[other] > last and (other, node) not in crossed:
                    heads[node], last = heads[other], place[other]
                    break
    return heads


def _in_the_middle(neighbours: Sequence[int], place: Mapping[int, int]) -> Sequence[int]:
    if len(neighbours) < 2:
        return neighbours
    near = sorted(neighbours, key=place.__getitem__)
    return near[(len(near) - 1) // 2 : len(near) // 2 + 1]


def _compacted(layers: _Layers, heads: Sequence[int], chains: Chains) -> dict[int, float]:
    """Returns the x of each line: as far left as possible, then as far right as its right neighbours allow."""
    apart: dict[int, dict[int, float]] = {head: {} for head in heads}
    for layer in layers:
        for left, right in pairwise(layer):
            beside = apart[heads[left]]
            beside[heads[right]] = max(beside.get(heads[right], 0.0), _distance(chains, left, right))
    order = _topological_order(apart)
    xs = dict.fromkeys(order, 0.0)
    for head in order:
        for right, distance in apart[head].items():
            xs[right] = max(xs[right], xs[head] + distance)
    for head in reversed(order):
        if apart[head]:
            xs[head] = min(xs[right] - distance for right, distance in apart[head].items())
    return xs


def _distance(chains: Chains, left: int, right: int) -> float:
    joints = chains.is_joint(left) + chains.is_joint(right)
    gap = (_BETWEEN_NODES, _BESIDE_JOINT, _BETWEEN_JOINTS)[joints]
    return (chains.sizes[left].width + chains.sizes[right].width) / 2 + gap


def _align(positions: list[list[float]], chains: Chains) -> None:
    """Aligns the four drawings with the narrowest one: at its left end or at its right end."""
    ends = [_ends(xs, chains) for xs in positions]
    left, right = min(ends, key=lambda end: end[1] - end[0])
    for index, xs in enumerate(positions):
        shift = right - ends[index][1] if index % 2 else left - ends[index][0]
        positions[index] = [x + shift for x in xs]


def _ends(xs: Sequence[float], chains: Chains) -> tuple[float, float]:
    halves = [(x, size.width / 2) for x, size in zip(xs, chains.sizes, strict=True)]
    return min((x - half for x, half in halves), default=0.0), max((x + half for x, half in halves), default=0.0)


class _Row(NamedTuple):
    top: float
    bottom: float


def routes(chains: Chains, layers: Sequence[Sequence[int]], columns: Sequence[float]) -> GraphLayout:
    """Returns the drawing for given x coordinates.

    A line leads from the border of a node through joints to another node, never through a third one.
    """
    rows = _rows(chains, layers, columns)
    middle = [Point(columns[number], sum(rows[chains.layer_of[number]]) / 2) for number in range(len(columns))]
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
        bottom = top + max((chains.sizes[node].height for node in layer), default=0.0)
        rows.append(_Row(top, bottom))
    return rows


def _gap(chains: Chains, layer: Sequence[int], columns: Sequence[float]) -> float:
    # A line with a large horizontal extent needs height, or it crosses its neighbours at a flat angle.
    sideways = [abs(columns[node] - columns[above]) for node in layer for above in chains.above[node]]
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
            for index, neighbour in enumerate(near):
                shifts[node, neighbour] = columns[node] + step * (index - (len(near) - 1) / 2)
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
