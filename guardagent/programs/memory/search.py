"""Exact k-nearest-neighbour search over many runs, with pruning by lower bounds from profiles.

A profile counts the characters of a text, and its pairs of adjacent characters, each in a fixed number of bins; that
of a run takes 792 bytes. One edit removes and adds at most one character, and removes and adds at most two pairs. If
one text has n characters (or 2n pairs) that the other lacks, their distance is at least n. Shared bins, and counts
capped at 255, can only reduce the difference, so the bound stays valid.

Candidates come in the order of their lower bounds. The distance of each is computed with a cut-off at the k-th best.
The search ends when the next lower bound exceeds the k-th best. Only this module needs numpy, which is loaded for long
lists and for stores.
"""

from __future__ import annotations

import heapq
import math
import operator
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance.Levenshtein import distance

from guardagent.programs.memory.retrieval import Demonstration, Neighbour, Query

# --- profiles

_CHARACTERS = 128
_PAIRS = 256
_FULL = 255
_AT_ONCE = 512  # profiles per batch; fits into the processor's cache with intermediate results

PROFILE = np.dtype(
    [
        ("lengths", "<u4", (2,)),  # of the input and of the output
        ("totals", "<u4", (2, 2)),  # of both, the counted characters and pairs
        ("counts", "u1", (2, _CHARACTERS + _PAIRS)),
    ]
)

Profiles = NDArray[np.void]
Numbers = NDArray[np.int64]


def profile(agent_input: str, agent_output: str) -> Profiles:
    """Returns the profile of a run, as an array of length one."""
    profile_row = np.zeros(1, PROFILE)
    for part, text in enumerate((agent_input, agent_output)):
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
        counts = np.concatenate((_counts(codes % _CHARACTERS, _CHARACTERS), _counts(_pairs(codes), _PAIRS)))
        profile_row["lengths"][0, part] = len(codes)
        profile_row["counts"][0, part] = counts
        profile_row["totals"][0, part] = counts[:_CHARACTERS].sum(), counts[_CHARACTERS:].sum()
    return profile_row


def lower_bounds(profiles: Profiles, query_profile: Profiles) -> Numbers:
    """Returns for each profile lower bounds of the distances of its input and output from those of the query."""
    bounds = np.empty((len(profiles), 2), np.int64)
    for start in range(0, len(profiles), _AT_ONCE):
        bounds[start : start + _AT_ONCE] = _bounds(profiles[start : start + _AT_ONCE], query_profile[0])
    return bounds


def upper_bounds(profiles: Profiles, query_profile: Profiles) -> Numbers:
    """Returns for each profile an upper bound of its distance: the length of the longer text."""
    greatest: Numbers = np.maximum(profiles["lengths"], query_profile["lengths"]).sum(axis=1, dtype=np.int64)
    return greatest


def _bounds(profiles: Profiles, query_profile: Any) -> Numbers:
    either = np.maximum(profiles["counts"], query_profile["counts"])
    sums = np.add.reduceat(either, (0, _CHARACTERS), axis=-1, dtype=np.uint16)  # 256 times 255 fits
    lacking = sums - np.minimum(profiles["totals"], query_profile["totals"]).astype(np.int64)
    lengths = np.abs(profiles["lengths"].astype(np.int64) - query_profile["lengths"].astype(np.int64))
    greatest: Numbers = np.maximum(np.maximum(lacking[..., 0], (lacking[..., 1] + 1) // 2), lengths)
    return greatest


def _counts(bins: NDArray[np.uint32], size: int) -> NDArray[Any]:
    return np.minimum(np.bincount(bins, minlength=size), _FULL)


def _pairs(codes: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Returns a bin per adjacent pair: the upper bits of a product, which depend on all bits of both."""
    mixed = codes[:-1] * np.uint32(0x9E3779B1) + codes[1:] * np.uint32(0x85EBCA6B)
    return mixed >> np.uint32(24)


# --- search

Texts = tuple[str, str]
Read = Callable[[Sequence[int]], Mapping[int, Texts]]
"""Returns the input and output of runs by position, without deleted ones."""

_FIRST, _MOST = 16, 256


@dataclass(frozen=True, slots=True)
class _NearRun:
    """A run that may be among the best. `bound` and `outputs` are lower bounds of its score and output distance."""

    position: int
    bound: int
    outputs: int
    greatest: int
    texts: Texts


def search(query: Query, profiles: Profiles, read: Read) -> list[tuple[int, int]]:
    """Returns (distance, position) of the k best, best first; ties by position."""
    return _NearestSearch(query).over(profiles, read)


@dataclass(frozen=True, slots=True)
class _NearestSearch:
    query: Query

    def over(self, profiles: Profiles, read: Read) -> list[tuple[int, int]]:
        """Scans the candidates until the next lower bound exceeds the k-th best score."""
        best: list[tuple[int, int]] = []  # negated, so that the worst is the root of the heap
        for candidate in self._candidates(profiles, read, best):
            limit = -best[0][0] if len(best) == self.query.k else None
            if limit is not None and candidate.bound > limit:
                break
            score = self._score(candidate, limit)
            if score is None:
                continue
            entry = (-score, -candidate.position)
            if len(best) < self.query.k:
                heapq.heappush(best, entry)
            else:
                heapq.heappushpop(best, entry)
        return [(abs(score), -position) for score, position in sorted(best, reverse=True)]

    def _candidates(self, profiles: Profiles, read: Read, best: Sequence[tuple[int, int]]) -> Iterator[_NearRun]:
        """Yields the candidates within the limits, lowest bounds first."""
        scores, outputs, greatest = self._bounds(profiles)
        order = np.argsort(scores, kind="stable")
        if self.query.max_distance is not None:
            order = order[scores[order] <= np.ceil(self.query.max_distance * greatest[order])]
        start, size = 0, min(max(_FIRST, self.query.k), _MOST)
        while self.query.k and start < len(order):
            chosen = order[start : start + size]
            if len(best) == self.query.k:  # skips reading candidates beyond the k-th best
                chosen = chosen[scores[chosen] <= -best[0][0]]
            texts = read(chosen.tolist())
            for at in chosen.tolist():
                if at in texts:
                    yield _NearRun(at, int(scores[at]), int(outputs[at]), int(greatest[at]), texts[at])
            if len(chosen) < size:
                return
            start, size = start + size, _MOST

    def _bounds(self, profiles: Profiles) -> tuple[Numbers, Numbers, Numbers]:
        """Returns for each run bounds: least score, least output distance, greatest distance.

        A score is a distance, or a negated distance for `least_similar`.
        """
        query_profile = profile(self.query.agent_input, self.query.agent_output)
        greatest = upper_bounds(profiles, query_profile)
        if self.query.least_similar:
            return -greatest, greatest, greatest
        bounds = lower_bounds(profiles, query_profile)
        return bounds.sum(axis=1), bounds[:, 1], greatest

    def _score(self, candidate: _NearRun, limit: int | None) -> int | None:
        """Returns the score; None if it exceeds the limit or `max_distance`."""
        if self.query.max_distance is not None and not self.query.least_similar:
            most = math.ceil(self.query.max_distance * candidate.greatest)
            limit = most if limit is None else min(limit, most)
        total = self._distance(candidate, None if self.query.least_similar else limit)
        if total is None or not self.query.admits(total, candidate.greatest):
            return None
        return -total if self.query.least_similar else total

    def _distance(self, candidate: _NearRun, limit: int | None) -> int | None:
        """Returns the distance, computed with a cut-off; None if it exceeds the limit."""
        texts, query_texts = candidate.texts, (self.query.agent_input, self.query.agent_output)
        if limit is None:
            return distance(texts[0], query_texts[0]) + distance(texts[1], query_texts[1])
        rest = limit - candidate.outputs
        inputs = distance(texts[0], query_texts[0], score_cutoff=max(rest, 0))
        if inputs > rest:
            return None
        total = inputs + distance(texts[1], query_texts[1], score_cutoff=limit - inputs)
        return total if total <= limit else None


# --- lists

_KEPT = 4

_lists: OrderedDict[tuple[int, ...], tuple[tuple[Demonstration, ...], Profiles]] = OrderedDict()
_lists_lock = threading.Lock()


def search_list(items: tuple[Demonstration, ...], query: Query) -> list[Neighbour]:
    """Returns the k best of a list. Caches the profiles of the last lists, identified by their items."""
    ranked = search(query, _profiles(items), lambda chosen: {at: _texts(items[at]) for at in chosen})
    return [query.neighbour(items[at], total) for total, at in ranked]


def _profiles(items: tuple[Demonstration, ...]) -> Profiles:
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
