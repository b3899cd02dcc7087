"""The paths of a place in a scenario. A computed key, such as an argument, stands for the values that it has there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from guardagent.policy.equivalence.places import ITEMS, KEY, Place
from guardagent.policy.equivalence.scenario import Scenario, value_at
from guardagent.policy.equivalence.witness import Path

MAX_DEPTH = 4  # of keys that are values at places with keys

Keys = Mapping[Place, Sequence[Place]]
"""The places of each computed key, by the place that ends with it."""


def paths_of_place(scenario: Scenario, place: Place, keys: Keys, depth: int = MAX_DEPTH) -> list[Path]:
    """The paths of a place, once each. A key that has no string as its value has none."""
    return list(dict.fromkeys(_paths(scenario, place, keys, depth)))


def _paths(scenario: Scenario, place: Place, keys: Keys, depth: int) -> Iterator[Path]:
    found, begun = _roots(scenario, place)
    for at in range(begun, len(place)):
        if place[at] == KEY:
            names = _key_values(scenario, keys.get(place[: at + 1], ()), keys, depth)
            found = [(*path, name) for path in found for name in names]
        elif place[at] == ITEMS:
            found = [(*path, number) for path in found for number in range(_length(value_at(scenario, path)))]
        else:
            found = [(*path, place[at]) for path in found]
    yield from found


def _roots(scenario: Scenario, place: Place) -> tuple[list[Path], int]:
    """The paths at which a place begins, and the number of its keys that they cover."""
    if place[0] in ("args", "output"):
        calls: list[tuple[Path, str]] = [(("history", at), one["tool"]) for at, one in enumerate(scenario["history"])]
        if scenario["proposed"] is not None and place[0] == "args":
            calls.append((("proposed",), scenario["proposed"]["tool"]))
        return [(*path, place[0]) for path, tool in calls if tool == place[1]], 2
    return [("facts" if place[0] == "fact" else place[0],)], 1


def _key_values(scenario: Scenario, places: Sequence[Place], keys: Keys, depth: int) -> list[str]:
    if not depth:
        return []
    paths = (path for place in places for path in paths_of_place(scenario, place, keys, depth - 1))
    values = (value_at(scenario, path) for path in paths)
    return list(dict.fromkeys(one for one in values if isinstance(one, str)))


def _length(value: object) -> int:
    return len(value) if isinstance(value, list) else 0
