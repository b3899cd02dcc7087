"""Examines the details of every annotated example: the program returns at least these."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from guardagent.programs.compile.examinations_base import ExaminationResult, Failure
from guardagent.programs.compile.suite import Suite
from guardagent.programs.compile.trial import Trial
from guardagent.types import thaw

ORDER = 11

ABOUT = "the program returns the details of every example that has some"

_MOST_NAMED = 5


def examine(trial: Trial, suite: Suite) -> Iterator[ExaminationResult]:
    result = ExaminationResult("details", ABOUT)
    for example in suite.examples:
        if example.details is None:
            continue
        result.runs += 1
        actual = trial.outcome(example).details
        wrong = {
            name: actual.get(name) for name, value in example.details.items() if not _equal(value, actual.get(name))
        }
        if wrong:
            expected = {name: thaw(example.details[name]) for name in wrong}
            result.failures.append(
                Failure(result.name, example, "its details", f"details {_shown(expected)}", f"details {_shown(wrong)}")
            )
    result.unchecked = _of_labels_alone(suite)
    yield result


def _of_labels_alone(suite: Suite) -> str:
    """Returns a note on the examples without details; empty if all have some."""
    names = [example.id for example in suite.examples if example.details is None]
    if len(names) == len(suite.examples):
        return "no example has details, so all test the label only"
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return (
        f"these examples have no details and test the label only: {', '.join(names[:_MOST_NAMED])}{more}"
        if names
        else ""
    )


def _equal(expected: Any, actual: Any) -> bool:
    """Whether two values are equal, with lists compared as multisets."""
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        return expected.keys() == actual.keys() and all(_equal(expected[key], actual[key]) for key in expected)
    if isinstance(expected, list | tuple) and isinstance(actual, list | tuple):
        rest = list(actual)
        return len(expected) == len(actual) and all(_remove_equal(one, rest) for one in expected)
    return (type(expected) is type(actual) and expected == actual) or (
        _are_numbers(expected, actual) and expected == actual
    )


def _remove_equal(value: Any, among: list[Any]) -> bool:
    """Removes an equal value from a list, and returns whether there was one."""
    for at, one in enumerate(among):
        if _equal(value, one):
            del among[at]
            return True
    return False


def _are_numbers(*values: Any) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _shown(details: Mapping[str, Any]) -> str:
    return json.dumps(details, ensure_ascii=False, default=str)
