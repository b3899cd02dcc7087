"""Search for the k nearest in a list of demonstrations."""

from __future__ import annotations

import operator
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from guardagent.programs.memory.demonstrations import Demonstration
from guardagent.programs.memory.retrieval import Neighbour, Query

if TYPE_CHECKING:
    from guardagent.programs.memory.profiles import Profiles

_FEW = 64  # scans shorter lists without loading numpy
_KEPT = 4

_lists: OrderedDict[tuple[int, ...], tuple[tuple[Demonstration, ...], Profiles]] = OrderedDict()
_lists_lock = threading.Lock()


def nearest_in_list(demonstrations: Sequence[Demonstration], query: Query) -> list[Neighbour]:
    """Implements `nearest` for a list. Caches the profiles of the last lists, identified by their items."""
    items = tuple(demonstrations)
    if len(items) < _FEW or not query.k:
        return query.best(_all_neighbours(items, query))
    from guardagent.programs.memory.search import search

    ranked = search(query, _profiles(items), lambda chosen: {at: _texts(items[at]) for at in chosen})
    return [query.neighbour(items[at], distance) for distance, at in ranked]


def _all_neighbours(items: Sequence[Demonstration], query: Query) -> Iterator[Neighbour]:
    from rapidfuzz.distance.Levenshtein import distance

    for item in items:
        far = distance(item.agent_input, query.agent_input) + distance(item.agent_output, query.agent_output)
        yield query.neighbour(item, far)


def _profiles(items: tuple[Demonstration, ...]) -> Profiles:
    import numpy as np

    from guardagent.programs.memory.profiles import profile

    key = (len(items), id(items[0]), id(items[-1]))
    with _lists_lock:
        known, profiles = _lists.get(key, ((), None))
        if profiles is not None and all(map(operator.is_, known, items)):
            _lists.move_to_end(key)
            return profiles
    result: Profiles = np.concatenate([profile(*_texts(item)) for item in items])
    with _lists_lock:
        _lists[key] = items, result
        while len(_lists) > _KEPT:
            _lists.popitem(last=False)
    return result


def _texts(item: Demonstration) -> tuple[str, str]:
    return item.agent_input, item.agent_output
