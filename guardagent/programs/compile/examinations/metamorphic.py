"""Every transformation of every example: what holds for the example holds, or follows, for the changed run."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, zip_longest

from guardagent.programs.compile import transformations
from guardagent.programs.compile.examinations import Failure, Tried
from guardagent.programs.compile.examples import Example
from guardagent.programs.compile.transformations import Transformation, Variant
from guardagent.programs.compile.trial import Trial
from guardagent.programs.compile.world import World

ORDER = 20

_MOST_VARIANTS = 1000  # of one transformation: many examples need not take long
_ABOUT_DECIDING = "changes that mean nothing do not leave all allowed examples undecided"


def examine(trial: Trial, world: World) -> Iterator[Tried]:
    deciding = _Deciding()
    for transformation in transformations.load(world.without):
        yield _tried(transformation, trial, world, deciding)
    yield deciding.tried()


def variants_of(example: Example, world: World) -> Iterator[tuple[str, Variant]]:
    """(transformation, variant) of an example, for all transformations."""
    for transformation in transformations.load(world.without):
        for variant in transformation.variants(example, world):
            yield transformation.name, variant


def _tried(transformation: Transformation, trial: Trial, world: World, deciding: _Deciding) -> Tried:
    tried = Tried(transformation.name, transformation.about)
    for example, variant in islice(_in_turn(transformation, world), _MOST_VARIANTS):
        outcome = trial.outcome(variant.example)
        other = trial.outcome(variant.other) if variant.other else None
        tried.runs += 1
        deciding.note(example, variant, decided=outcome.decided)
        if not variant.holds(outcome, other):
            expected = variant.expected(other)
            tried.failures.append(Failure(tried.name, variant.example, variant.note, expected, str(outcome)))
    return tried


def _in_turn(transformation: Transformation, world: World) -> Iterator[tuple[Example, Variant]]:
    """The variants of all examples: the first of each, then the second."""
    rows = ([(example, variant) for variant in transformation.variants(example, world)] for example in world.examples)
    for rank in zip_longest(*rows):
        yield from (one for one in rank if one is not None)


class _Deciding:
    """Whether a program decides anything but the examples word by word: one that only knows these by heart does not.

    Asked for changed inputs and for changed outputs, since it may know either of them.
    """

    def __init__(self) -> None:
        self._runs = 0
        self._undecided: dict[str, list[Variant]] = {"input": [], "output": []}
        self._decided = {"input": 0, "output": 0}

    def note(self, example: Example, variant: Variant, *, decided: bool) -> None:
        if variant.relation != "steady" or example.label == 1:
            return
        self._runs += 1
        for part in self._undecided:
            now, before = (getattr(one, f"agent_{part}").split() for one in (variant.example, example))
            if now != before:
                self._decided[part] += decided
                self._undecided[part] += [] if decided else [variant]

    def tried(self) -> Tried:
        tried = Tried("deciding", _ABOUT_DECIDING, self._runs)
        for part, variants in self._undecided.items():
            if variants and not self._decided[part]:
                given = f"undecided, as are all {len(variants)} runs of allowed examples whose {part} was changed"
                tried.failures.append(Failure(tried.name, variants[0].example, variants[0].note, "label 0", given))
        return tried
