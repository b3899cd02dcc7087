"""Properties, one for each clause: tried by the examples' labels, then the program on runs made of the examples."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice

from guardagent.programs.compile.examinations import ExaminationResult, Failure
from guardagent.programs.compile.examples import Example
from guardagent.programs.compile.properties import Properties, search
from guardagent.programs.compile.properties.changes import changes, kind_changes, limit_changes
from guardagent.programs.compile.properties.claims import PropertyChecker
from guardagent.programs.compile.properties.search import (
    apply_changes,
    paired_changes,
    random_changes,
    shrink,
    single_changes,
)
from guardagent.programs.compile.suite import Suite
from guardagent.programs.compile.trial import Trial

ORDER = 30

_MOST_FAILURES = 3  # of properties, that are shrunk
_TOGETHER = 25  # runs that the properties are asked about at once
_EXPECTED = (
    "expected property_N for each clause; for one that sets no rule, one that only returns None under a docstring with "
    "the reason"
)


def examine(trial: Trial, suite: Suite) -> Iterator[ExaminationResult]:
    yield _completeness(trial.properties, suite)
    if trial.properties.numbers:
        yield from _examine(PropertyChecker(trial, trial.properties, suite), trial, suite)


def _completeness(properties: Properties, suite: Suite) -> ExaminationResult:
    """Whether each clause has a property, or a reason why it has none."""
    wanted = [number for number in suite.ruling_clauses if number not in suite.undecidable]
    missing = [number for number in wanted if number not in properties.numbers]
    silent = [number for number in wanted if properties.no_rule_reasons.get(number) == ""]
    lacks = [f"no property was written for {_clauses(missing)}"] if missing else []
    lacks += [f"the property of {_clauses([one])} only returns None, and gives no reason" for one in silent]
    why = "; ".join(lacks)
    if not why:
        return ExaminationResult("properties", "each clause has a property, or a reason why it has none", len(wanted))
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
        why = "properties were tried by the examples alone: --inputs is 0"
        yield ExaminationResult("properties_search", why, unchecked=why)
    for number, counts in inquiry.counts.items():
        about = f"clause {number}, asked about {inquiry.runs} different runs, of which it said {counts}"
        if reason := trial.properties.no_rule_reasons.get(number):
            yield ExaminationResult(
                f"property_{number}", f"clause {number} sets no rule, the model says: {reason}", no_rule_reason=reason
            )
            continue
        found = [failures[number]] if number in failures else []
        idle = f"the property of clause {number} said nothing about any of {inquiry.runs} runs"
        yield ExaminationResult(
            f"property_{number}", about, counts.runs, found, unchecked="" if counts.runs or found else idle
        )


def _by_labels(inquiry: PropertyChecker, suite: Suite) -> dict[int, Failure]:
    """A property that contradicts an example's label is wrong, since the program agrees with all of them."""
    found: dict[int, Failure] = {}
    for example in suite.examples:
        for number, failure in inquiry.failures(example, "", labelled=True).items():
            found.setdefault(number, failure)
        if len(found) == len(inquiry.counts):
            break
    return found


def _by_search(inquiry: PropertyChecker, suite: Suite) -> dict[int, Failure]:
    """The first runs that break a property: of the sweep, then of those at random."""
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
    """Asks about runs until the time is over, and notes the first that fails for each clause."""
    while (batch := list(islice(runs, _TOGETHER))) and not clock.over:
        made = [apply_changes(*run) for run in batch]
        inquiry.prepare([run for run, _ in made])
        for run, one in zip(batch, made, strict=True):
            for number in inquiry.failures(*one):
                failing.setdefault(number, run)


def _fails(inquiry: PropertyChecker, number: int, run: Example, note: str) -> bool:
    return number in inquiry.failures(run, note)
