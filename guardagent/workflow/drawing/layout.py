"""Assigns x coordinates: long links are straight, nodes are centred on neighbours (Brandes and Köpf, 2001)."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise

from guardagent.workflow.drawing._layout.chains import Chains

_BETWEEN_NODES, _BESIDE_JOINT, _BETWEEN_JOINTS = 34.0, 20.0, 14.0

_Layers = Sequence[Sequence[int]]
_Pairs = Collection[tuple[int, int]]


def x_positions(chains: Chains, layers: _Layers) -> list[float]:
    """Returns the x coordinate of the middle of each node and joint.

    Computes four drawings, aligned left or right, with straight lines from above or from below. Each x is the mean of
    the two middle ones, which keeps the distances.
    """
    crossed = _crossing_pieces(chains, layers)
    found = [
        _to_one_side(chains, layers, crossed, upwards=upwards, mirrored=mirrored)
        for upwards in (False, True)
        for mirrored in (False, True)
    ]
    _align(found, chains)
    middles = [sum(sorted(xs)[1:3]) / 2 for xs in zip(*found, strict=True)]
    _ease(middles, chains, layers)
    left = min((x - size.width / 2 for x, size in zip(middles, chains.sizes, strict=True)), default=0.0)
    return [x - left for x in middles]


def _ease(xs: list[float], chains: Chains, layers: _Layers) -> None:
    """Moves the only joint of a short link between its nodes, as far as there is room, to avoid detours."""
    for layer in layers:
        for index, one in enumerate(layer):
            ends = [*chains.above[one], *chains.below[one]]
            if chains.is_joint(one) and not any(map(chains.is_joint, ends)):
                wanted = sorted([xs[one], *(xs[end] for end in ends)])[1]
                left, right = layer[index - 1 : index], layer[index + 1 : index + 2]
                least = max((xs[other] + _distance(chains, other, one) for other in left), default=-math.inf)
                most = min((xs[other] - _distance(chains, one, other) for other in right), default=math.inf)
                xs[one] = max(least, min(most, wanted))


def _crossing_pieces(chains: Chains, layers: _Layers) -> set[tuple[int, int]]:
    """Returns the link segments that cross a segment between two joints; they bend to keep long links straight."""
    crossing: set[tuple[int, int]] = set()
    for upper, lower in pairwise(layers):
        place = {one: index for index, one in enumerate(upper)}
        begin, scanned = 0, 0
        for index, one in enumerate(lower):
            inner = [place[above] for above in chains.above[one] if _joints(chains, above, one)]
            if not inner and index < len(lower) - 1:
                continue
            end = inner[0] if inner else len(upper)
            for other in lower[scanned : index + 1]:
                away = [above for above in chains.above[other] if not begin <= place[above] <= end]
                crossing.update((above, other) for above in away if not _joints(chains, above, other))
            begin, scanned = end, index + 1
    return crossing | {(lower, upper) for upper, lower in crossing}


def _joints(chains: Chains, one: int, other: int) -> bool:
    return chains.is_joint(one) and chains.is_joint(other)


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
        place = {one: index for index, one in enumerate(previous)}
        last = -1
        for one in layer:
            for other in _in_the_middle(neighbours[one], place):
                if place[other] > last and (other, one) not in crossed:
                    heads[one], last = heads[other], place[other]
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
    order = _left_to_right(apart)
    xs = dict.fromkeys(order, 0.0)
    for head in order:
        for right, distance in apart[head].items():
            xs[right] = max(xs[right], xs[head] + distance)
    for head in reversed(order):
        if apart[head]:
            xs[head] = min(xs[right] - distance for right, distance in apart[head].items())
    return xs


def _left_to_right(apart: dict[int, dict[int, float]]) -> list[int]:
    waiting = dict.fromkeys(apart, 0)
    for beside in apart.values():
        for right in beside:
            waiting[right] += 1
    order = [head for head, count in waiting.items() if not count]
    for head in order:
        for right in apart[head]:
            waiting[right] -= 1
            if not waiting[right]:
                order.append(right)
    return order


def _distance(chains: Chains, left: int, right: int) -> float:
    joints = chains.is_joint(left) + chains.is_joint(right)
    gap = (_BETWEEN_NODES, _BESIDE_JOINT, _BETWEEN_JOINTS)[joints]
    return (chains.sizes[left].width + chains.sizes[right].width) / 2 + gap


def _align(found: list[list[float]], chains: Chains) -> None:
    """Aligns the four drawings with the narrowest one: at its left end or at its right end."""
    ends = [_ends(xs, chains) for xs in found]
    left, right = min(ends, key=lambda end: end[1] - end[0])
    for index, xs in enumerate(found):
        shift = right - ends[index][1] if index % 2 else left - ends[index][0]
        found[index] = [x + shift for x in xs]


def _ends(xs: Sequence[float], chains: Chains) -> tuple[float, float]:
    halves = [(x, size.width / 2) for x, size in zip(xs, chains.sizes, strict=True)]
    return min((x - half for x, half in halves), default=0.0), max((x + half for x, half in halves), default=0.0)
