"""Examines the properties against the labels of the examples, then the program against the properties."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice

from guardagent.programs.compile._properties import Properties, search
from guardagent.programs.compile._properties.claims import PropertyChecker
from guardagent.programs.compile._properties.search import (
    apply_changes,
    paired_changes,
    random_changes,
    shrink,
    single_changes,
)
from guardagent.programs.compile.examinations_base import ExaminationResult, Failure
from guardagent.programs.compile.examples import Example
from guardagent.programs.compile.properties import changes, kind_changes, limit_changes
from guardagent.programs.compile.suite import Suite
from guardagent.programs.compile.trial import Trial

ORDER = 30

_MOST_FAILURES = 3  # shrunk, since shrinking is slow
_TOGETHER = 25  # runs per evaluation of the properties
_EXPECTED = (
    "expected 'property_N' for each clause; for a clause that sets no rule, one that only returns None under a "
    "docstring with the reason"
)


def examine(trial: Trial, suite: Suite) -> Iterator[ExaminationResult]:
    yield _completeness(trial.properties, suite)
    if trial.properties.numbers:
        yield from _examine(PropertyChecker(trial, trial.properties, suite), trial, suite)


def _completeness(properties: Properties, suite: Suite) -> ExaminationResult:
    """Examines whether each clause has a property, or a reason for having none."""
    wanted = [number for number in suite.ruling_clauses if number not in suite.undecidable]
    missing = [number for number in wanted if number not in properties.numbers]
    silent = [number for number in wanted if properties.no_rule_reasons.get(number) == ""]
    lacks = [f"no property for {_clauses(missing)}"] if missing else []
    lacks += [f"the property of {_clauses([one])} only returns None, without a reason" for one in silent]
    why = "; ".join(lacks)
    if not why:
        return ExaminationResult("properties", "each clause has a property, or a reason for having none", len(wanted))
    if not suite.needs_properties:
        return ExaminationResult("properties", why, unchecked=why)
    return ExaminationResult("properties", why, missing=f"{why}; {_EXPECTED}")


def _clauses(numbers: list[int]) -> str:
    return f"clause{'s' * (len(numbers) != 1)} {', '.join(map(str, numbers))}"


def _examine(inquiry: PropertyChecker, trial: Trial, suite: Suite) -> Iterator[ExaminationResult]:
    failures = _by_labels(inquiry, suite)
    if not failures and suite.inputs:
        failures = _by_search(inquiry, suite)
    if not suite.inputs:
        why = "properties were tested on the examples only: '--inputs' is 0"
        yield ExaminationResult("properties_search", why, unchecked=why)
    for number, counts in inquiry.counts.items():
        about = f"clause {number}, evaluated on {inquiry.runs} distinct runs: {counts}"
        if reason := trial.properties.no_rule_reasons.get(number):
            yield ExaminationResult(
                f"property_{number}",
                f"clause {number} sets no rule according to the model: {reason}",
                no_rule_reason=reason,
            )
            continue
        found = [failures[number]] if number in failures else []
        idle = f"the property of clause {number} makes no claim about any of {inquiry.runs} runs"
        yield ExaminationResult(
            f"property_{number}", about, counts.runs, found, unchecked="" if counts.runs or found else idle
        )


def _by_labels(inquiry: PropertyChecker, suite: Suite) -> dict[int, Failure]:
    """Returns the properties that contradict a label: they are wrong, since the program matches all labels."""
    found: dict[int, Failure] = {}
    for example in suite.examples:
        for number, failure in inquiry.failures(example, "", labelled=True).items():
            found.setdefault(number, failure)
        if len(found) == len(inquiry.counts):
            break
    return found


def _by_search(inquiry: PropertyChecker, suite: Suite) -> dict[int, Failure]:
    """Returns the first run that violates each property, shrunk."""
    places, clock, examples = changes(suite), search.SearchDeadline(), suite.examples
    failing: dict[int, search.Run] = {}
    for runs in (
        single_changes(examples, places, suite.limits),
        paired_changes(examples, limit_changes(places, suite.limits), kind_changes(suite)),
        random_changes(examples, places, suite.inputs),
    ):
        _check_all(inquiry, islice(runs, suite.inputs), failing, clock)
    found: dict[int, Failure] = {}
    for number, run in list(failing.items())[:_MOST_FAILURES]:
        found[number] = inquiry.failures(*shrink(run, partial(_fails, inquiry, number)))[number]
    return found


def _check_all(
    inquiry: PropertyChecker, runs: Iterator[search.Run], failing: dict[int, search.Run], clock: search.SearchDeadline
) -> None:
    """Evaluates runs until the deadline, and records the first failure of each clause."""
    while (batch := list(islice(runs, _TOGETHER))) and not clock.over:
        changed_runs = [apply_changes(*run) for run in batch]
        inquiry.prepare([run for run, _ in changed_runs])
        for run, one in zip(batch, changed_runs, strict=True):
            for number in inquiry.failures(*one):
                failing.setdefault(number, run)


def _fails(inquiry: PropertyChecker, number: int, run: Example, note: str) -> bool:
    return number in inquiry.failures(run, note)
