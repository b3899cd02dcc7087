"""Examines every example unchanged: the program returns its label, and does not crash."""

from __future__ import annotations

from collections.abc import Iterator

from guardagent.programs.compile.examinations_base import ExaminationResult, Failure
from guardagent.programs.compile.suite import Suite
from guardagent.programs.compile.trial import Trial

ORDER = 10

ABOUT = "every example gets its label; a crash does not count as a denial"


def examine(trial: Trial, suite: Suite) -> Iterator[ExaminationResult]:
    result = ExaminationResult("examples", ABOUT)
    for example in suite.examples:
        outcome = trial.outcome(example)
        result.runs += 1
        if outcome.crash or outcome.label != example.label:
            result.failures.append(Failure(result.name, example, "", f"label {example.label}", str(outcome)))
    yield result
