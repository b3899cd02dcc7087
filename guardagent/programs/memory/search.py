"""Exact k-nearest-neighbour search over many runs, with pruning by lower bounds.

Candidates come in the order of their lower bounds. The distance of each is computed with a cut-off at the k-th best.
The search ends when the next lower bound exceeds the k-th best.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from rapidfuzz.distance.Levenshtein import distance

from guardagent.programs.memory.profiles import Numbers, Profiles, lower_bounds, profile, upper_bounds
from guardagent.programs.memory.retrieval import Query

Texts = tuple[str, str]
Read = Callable[[Sequence[int]], Mapping[int, Texts]]
"""Returns the input and output of runs by position, without deleted ones."""

_FIRST, _MOST = 16, 256


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A run that may be among the best. `bound` and `outputs` are lower bounds of its score and output distance."""

    position: int
    bound: int
    outputs: int
    greatest: int
    texts: Texts


def search(query: Query, profiles: Profiles, read: Read) -> list[tuple[int, int]]:
    """Returns (distance, position) of the k best, best first; ties by position."""
    return _Search(query).over(profiles, read)


@dataclass(frozen=True, slots=True)
class _Search:
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

    def _candidates(self, profiles: Profiles, read: Read, best: Sequence[tuple[int, int]]) -> Iterator[_Candidate]:
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
                    yield _Candidate(at, int(scores[at]), int(outputs[at]), int(greatest[at]), texts[at])
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

    def _score(self, candidate: _Candidate, limit: int | None) -> int | None:
        """Returns the score; None if it exceeds the limit or `max_distance`."""
        if self.query.max_distance is not None and not self.query.least_similar:
            most = math.ceil(self.query.max_distance * candidate.greatest)
            limit = most if limit is None else min(limit, most)
        total = self._distance(candidate, None if self.query.least_similar else limit)
        if total is None or not self.query.admits(total, candidate.greatest):
            return None
        return -total if self.query.least_similar else total

    def _distance(self, candidate: _Candidate, limit: int | None) -> int | None:
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
