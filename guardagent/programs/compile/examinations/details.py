"""The details of every example that names some: the program gives the same, whatever it gives beside them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from guardagent.programs.compile.examinations import Failure, Tried
from guardagent.programs.compile.trial import Trial
from guardagent.programs.compile.world import World
from guardagent.types import thaw

ORDER = 11

ABOUT = "every example that names details gets them"

_MOST_NAMED = 5


def examine(trial: Trial, world: World) -> Iterator[Tried]:
    tried = Tried("details", ABOUT)
    for example in world.examples:
        if example.details is None:
            continue
        tried.runs += 1
        given = trial.outcome(example).details
        wrong = {name: given.get(name) for name, value in example.details.items() if not _equal(value, given.get(name))}
        if wrong:
            expected = {name: thaw(example.details[name]) for name in wrong}
            tried.failures.append(
                Failure(tried.name, example, "its details", f"details {_shown(expected)}", f"details {_shown(wrong)}")
            )
    tried.unchecked = _of_labels_alone(world)
    yield tried


def _of_labels_alone(world: World) -> str:
    """Which examples test the label only, for a person to know."""
    names = [example.id for example in world.examples if example.details is None]
    if len(names) == len(world.examples):
        return "no example names details, so all test the label only"
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return (
        f"these examples name no details, and test the label only: {', '.join(names[:_MOST_NAMED])}{more}"
        if names
        else ""
    )


def _equal(expected: Any, given: Any) -> bool:
    """Whether two values are the same; the order of a list does not count."""
    if isinstance(expected, Mapping) and isinstance(given, Mapping):
        return expected.keys() == given.keys() and all(_equal(expected[key], given[key]) for key in expected)
    if isinstance(expected, list | tuple) and isinstance(given, list | tuple):
        rest = list(given)
        return len(expected) == len(given) and all(_taken(one, rest) for one in expected)
    return (type(expected) is type(given) and expected == given) or (
        _are_numbers(expected, given) and expected == given
    )


def _taken(value: Any, among: list[Any]) -> bool:
    """Takes a value that is the same out of a list; whether there was one."""
    for at, one in enumerate(among):
        if _equal(value, one):
            del among[at]
            return True
    return False


def _are_numbers(*values: Any) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _shown(details: Mapping[str, Any]) -> str:
    return json.dumps(details, ensure_ascii=False, default=str)
