"""Examines the properties with counterexamples from CrossHair, confirmed in the sandbox. Last because it is slow."""

from __future__ import annotations

from collections.abc import Iterator

from guardagent.programs.compile._properties import symbolic
from guardagent.programs.compile._properties.claims import PropertyChecker
from guardagent.programs.compile.examinations_base import ExaminationResult, Failure
from guardagent.programs.compile.suite import Suite
from guardagent.programs.compile.trial import Trial

ORDER = 40

_ABOUT = "symbolic fields, for which CrossHair searched a value that makes the program violate a property"


def examine(trial: Trial, suite: Suite) -> Iterator[ExaminationResult]:
    if not trial.properties.numbers:
        return
    why = "symbolic search was skipped: '--crosshair' is 0" if suite.crosshair <= 0 else symbolic.unavailable_reason()
    if why:
        yield ExaminationResult("symbolic", why, unchecked=why)
        return
    queries = symbolic.symbolic_queries(suite)
    runs, count, stopped = symbolic.suggested_runs(trial, suite, queries, suite.crosshair)
    inquiry, found = PropertyChecker(trial, trial.properties, suite), dict[int, Failure]()
    for run, note in runs:
        for number, failure in inquiry.failures(run, note).items():
            found.setdefault(number, failure)
    yield ExaminationResult("symbolic", _ABOUT, count, list(found.values()), unchecked=stopped)
