"""Derives runs from the examples: each single change, pairs, then random changes; always the same ones."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import product, zip_longest

from guardagent.programs.compile.examples import Example
from guardagent.programs.compile.properties import Change, sum_changes

_SEED = 20260131
_SECONDS = 120.0  # per search, since a program may run into its limits on each run
_MOST_CHANGES = 4

Run = tuple[Example, Sequence[Change]]
"""An example and the changes to apply."""


def single_changes(
    examples: Sequence[Example], places: Sequence[Sequence[Change]], limits: Sequence[int | float]
) -> Iterator[Run]:
    """Yields every example unchanged, with sums at the limits, and with every single change.

    The changes alternate between the locations: the first value of each, then the second.
    """
    for example in examples:
        yield example, ()
        yield from ((example, (change,)) for change in sum_changes(example, limits))
    for rank in zip_longest(*places):
        for change in rank:
            if change is not None:
                yield from ((example, (change,)) for example in examples)


def paired_changes(
    examples: Sequence[Example], limits: Sequence[Sequence[Change]], kinds: Sequence[Change]
) -> Iterator[Run]:
    """Yields every example with a number at a limit and another word, shuffled: a limit may hold for one kind only."""
    numbers = [change for place in limits for change in place]
    pairs = [(kind, number) for kind, number in product(kinds, numbers) if kind.name != number.name]
    every = list(product(examples, pairs))
    random.Random(_SEED).shuffle(every)  # noqa: S311 - the caller takes a sample of them
    for example, (kind, number) in every:
        first = kind.apply(example)
        if example != first != number.apply(first):
            yield example, (kind, number)


def random_changes(examples: Sequence[Example], places: Sequence[Sequence[Change]], count: int) -> Iterator[Run]:
    """Yields `count` random runs: an example with a few changes at different locations."""
    source = random.Random(_SEED)  # noqa: S311 - reproducible on purpose
    for _ in range(count):
        among = source.sample(places, min(len(places), source.randint(1, _MOST_CHANGES)))
        yield source.choice(examples), tuple(source.choice(place) for place in among)


def shrink(run: Run, fails: Callable[[Example, str], bool]) -> tuple[Example, str]:
    """Removes changes while the run still fails, and returns the run with a description of the rest."""
    example, changes = run
    for change in changes:
        fewer = tuple(one for one in changes if one != change)
        if fails(*apply_changes(example, fewer)):
            changes = fewer
    return apply_changes(example, changes)


def apply_changes(example: Example, changes: Sequence[Change]) -> tuple[Example, str]:
    """Returns the changed run, and a description of the effective changes. Whole texts change before their fields."""
    notes = []
    for change in sorted(changes, key=lambda change: bool(change.name)):
        before, example = example, change.apply(example)
        if example != before:
            notes.append(str(change))
    return example, "; ".join(notes)


class SearchDeadline:
    """The time limit of one search."""

    def __init__(self) -> None:
        self._ends = time.monotonic() + _SECONDS

    @property
    def over(self) -> bool:
        return time.monotonic() > self._ends
