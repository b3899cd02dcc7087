"""Searches for a conversation on which two drafts differ, among values next to the constants of both."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from random import Random

from guardagent.policy.equivalence.draft import ComparedDraft
from guardagent.policy.equivalence.replay import difference_of, rank_of
from guardagent.policy.equivalence.results import Different
from guardagent.policy.equivalence.scenario import Scenario, witness_of
from guardagent.policy.equivalence.variations import Variations
from guardagent.policy.equivalence.witness import Witness

MORE = 400  # conversations that are judged after the first difference, for a clearer one


class Search:
    """A search that goes on where it stopped.

    Args:
        first, second: the drafts.
        variations: the values of their places.

    Attributes:
        judged: the number of conversations that both drafts judged.
        best: the clearest difference.
    """

    def __init__(self, first: ComparedDraft, second: ComparedDraft, variations: Variations) -> None:
        self._drafts = first.policies, second.policies
        self._scenarios = self._all(variations)
        self.judged = 0
        self.best: Different | None = None

    @staticmethod
    def _all(variations: Variations) -> Iterator[Scenario]:
        random = Random(0)  # noqa: S311 - a reproducible search
        while True:
            scenario = variations.scenario(random)
            yield scenario
            yield from variations.neighbours(scenario)

    def run(self, count: int, until: float) -> Different | None:
        """Judges more conversations, and returns the clearest difference so far.

        Args:
            count: the number of conversations.
            until: the time of `time.monotonic` at which the search ends.
        """
        end = self.judged + count
        while self.judged < end and time.monotonic() < until and not self._is_clear:
            if self._take(witness_of(next(self._scenarios))):
                end = min(end, self.judged + MORE)
        return self.best

    def take(self, witnesses: Iterable[Witness]) -> Different | None:
        """Judges given conversations, and returns the clearest difference so far."""
        for one in witnesses:
            if self._is_clear:
                break
            self._take(one)
        return self.best

    @property
    def _is_clear(self) -> bool:
        return self.best is not None and rank_of(self.best) == 0

    def _take(self, witness: Witness) -> bool:
        """Judges a conversation; returns whether it is the clearest one."""
        self.judged += 1
        found = difference_of(*self._drafts, witness)
        if found is None or (self.best is not None and rank_of(found) >= rank_of(self.best)):
            return False
        self.best = found
        return True
