"""Orders each layer so that few links cross (Sugiyama's barycentres, then swaps of neighbours)."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence

from guardagent.workflow.drawing._layout.chains import Chains

_SWEEPS = 24
_PATIENCE = 4  # sweeps without an improvement before it stops
_WORK = 400_000  # joints to visit in all: large graphs get fewer sweeps
_SWAPS = 3_000  # with more joints than this, neighbours are not swapped


def ordered_layers(chains: Chains) -> list[list[int]]:
    """Returns the nodes and joints of each layer, from left to right."""
    layers = best = _depth_first(chains)
    fewest, waited = crossings(chains, best), 0
    for sweep in range(max(2, min(_SWEEPS, _WORK // (len(chains.sizes) + 1)))):
        layers = _swept(chains, layers, down=sweep % 2 == 0)
        if len(chains.sizes) <= _SWAPS:
            _swap_neighbours(chains, layers)
        found = crossings(chains, layers)
        waited += 1
        if found < fewest:
            best, fewest, waited = layers, found, 0
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
            one = waiting.pop()
            if not seen[one]:
                seen[one] = True
                layers[chains.layer_of[one]].append(one)
                waiting.extend(reversed(chains.below[one]))
    return layers


def _swept(chains: Chains, layers: Sequence[Sequence[int]], *, down: bool) -> list[list[int]]:
    neighbours = chains.above if down else chains.below
    done: list[list[int]] = [list(layer) for layer in layers]
    place = _places(done)
    for layer in done if down else reversed(done):
        wanted = {one: _middle(neighbours[one], place, place[one]) for one in layer}
        layer.sort(key=wanted.__getitem__)
        place.update((one, index) for index, one in enumerate(layer))
    return done


def _middle(neighbours: Sequence[int], place: dict[int, int], otherwise: int) -> float:
    return sum(place[one] for one in neighbours) / len(neighbours) if neighbours else otherwise


def _places(layers: Sequence[Sequence[int]]) -> dict[int, int]:
    return {one: index for layer in layers for index, one in enumerate(layer)}


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
        lefts, rights = [place[one] for one in side[left]], [place[one] for one in side[right]]
        gain += sum((one > other) - (one < other) for one in lefts for other in rights)
    return gain
