"""Metamorphic testing: every transformation of every example, compared with the expected relation."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, zip_longest

from guardagent.programs.compile import transformations
from guardagent.programs.compile.examinations_base import ExaminationResult, Failure
from guardagent.programs.compile.examples import Example
from guardagent.programs.compile.suite import Suite
from guardagent.programs.compile.transformations import Transformation, Variant
from guardagent.programs.compile.trial import Trial

ORDER = 20

_MOST_VARIANTS = 1000  # per transformation, to bound the time
_ABOUT_DECIDING = "irrelevant changes do not leave all allowed examples undecided"


def examine(trial: Trial, suite: Suite) -> Iterator[ExaminationResult]:
    decisions = _DecisionExamination()
    for transformation in transformations.load(suite.excluded):
        yield _examine(transformation, trial, suite, decisions)
    yield decisions.result()


def variants_of(example: Example, suite: Suite) -> Iterator[tuple[str, Variant]]:
    """Yields (transformation, variant) for all transformations of an example."""
    for transformation in transformations.load(suite.excluded):
        for variant in transformation.variants(example, suite):
            yield transformation.name, variant


def _examine(
    transformation: Transformation, trial: Trial, suite: Suite, decisions: _DecisionExamination
) -> ExaminationResult:
    result = ExaminationResult(transformation.name, transformation.about)
    for example, variant in islice(_in_turn(transformation, suite), _MOST_VARIANTS):
        outcome = trial.outcome(variant.example)
        other = trial.outcome(variant.other) if variant.other else None
        result.runs += 1
        decisions.note(example, variant, decided=outcome.decided)
        if not variant.holds(outcome, other):
            expected = variant.expected(other)
            result.failures.append(Failure(result.name, variant.example, variant.note, expected, str(outcome)))
    return result


def _in_turn(transformation: Transformation, suite: Suite) -> Iterator[tuple[Example, Variant]]:
    """Yields the variants of all examples in turn: the first of each, then the second."""
    rows = ([(example, variant) for variant in transformation.variants(example, suite)] for example in suite.examples)
    for rank in zip_longest(*rows):
        yield from (one for one in rank if one is not None)


class _DecisionExamination:
    """Examines whether a program decides changed examples; one that memorized the examples does not.

    Counts changed inputs and changed outputs separately, since a program may have memorized either.
    """

    def __init__(self) -> None:
        self._runs = 0
        self._undecided: dict[str, list[Variant]] = {"input": [], "output": []}
        self._decided = {"input": 0, "output": 0}

    def note(self, example: Example, variant: Variant, *, decided: bool) -> None:
        if variant.relation != "steady" or example.label == 1:
            return
        self._runs += 1
        for origin in self._undecided:
            now, before = (getattr(one, f"agent_{origin}").split() for one in (variant.example, example))
            if now != before:
                self._decided[origin] += decided
                self._undecided[origin] += [] if decided else [variant]

    def result(self) -> ExaminationResult:
        result = ExaminationResult("deciding", _ABOUT_DECIDING, self._runs)
        for origin, variants in self._undecided.items():
            if variants and not self._decided[origin]:
                actual = f"undecided, like all {len(variants)} runs of allowed examples with a changed {origin}"
                result.failures.append(Failure(result.name, variants[0].example, variants[0].note, "label 0", actual))
        return result
