"""Runs that are made of the examples: first each change by itself, then some at random; always the same ones."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import product, zip_longest

from guardagent.programs.compile.examples import Example
from guardagent.programs.compile.properties.changes import Change, sum_changes

_SEED = 20260131
_SECONDS = 120.0  # for one search: a program that always runs into its limits must not take hours
_MOST_CHANGES = 4

Run = tuple[Example, Sequence[Change]]
"""An example, and what is changed in it."""


def single_changes(
    examples: Sequence[Example], places: Sequence[Sequence[Change]], limits: Sequence[int | float]
) -> Iterator[Run]:
    """Every example as it is, with sums at the limits, and with every single change.

    The changes come in turn: of all places the first of their values, then the second.
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
    """Every example with a number at a limit and another word, mixed: a limit may hold for one kind alone."""
    numbers = [change for place in limits for change in place]
    pairs = [(kind, number) for kind, number in product(kinds, numbers) if kind.name != number.name]
    every = list(product(examples, pairs))
    random.Random(_SEED).shuffle(every)  # noqa: S311 - where there are too many, some of each are taken
    for example, (kind, number) in every:
        first = kind.apply(example)
        if example != first != number.apply(first):
            yield example, (kind, number)


def random_changes(examples: Sequence[Example], places: Sequence[Sequence[Change]], count: int) -> Iterator[Run]:
    """So many runs at random: an example with a few changes in different places."""
    source = random.Random(_SEED)  # noqa: S311 - the same runs each time are the point
    for _ in range(count):
        among = source.sample(places, min(len(places), source.randint(1, _MOST_CHANGES)))
        yield source.choice(examples), tuple(source.choice(place) for place in among)


def shrink(run: Run, fails: Callable[[Example, str], bool]) -> tuple[Example, str]:
    """A run that fails, with as few of its changes as it takes, and how it was made."""
    example, changes = run
    for change in changes:
        fewer = tuple(one for one in changes if one != change)
        if fails(*apply_changes(example, fewer)):
            changes = fewer
    return apply_changes(example, changes)


def apply_changes(example: Example, changes: Sequence[Change]) -> tuple[Example, str]:
    """The run, with the changes that make a difference in words. A whole text is put in before its fields."""
    notes = []
    for change in sorted(changes, key=lambda change: bool(change.name)):
        before, example = example, change.apply(example)
        if example != before:
            notes.append(str(change))
    return example, "; ".join(notes)


class SearchDeadline:
    """The time that one search may take."""

    def __init__(self) -> None:
        self._ends = time.monotonic() + _SECONDS

    @property
    def over(self) -> bool:
        return time.monotonic() > self._ends
