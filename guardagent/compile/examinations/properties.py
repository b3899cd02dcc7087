"""Properties, one for each clause: tried by the examples' labels, then the program on runs made of the examples."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from guardagent.compile.examinations import Failure, Tried
from guardagent.compile.examples import Example
from guardagent.compile.properties import search
from guardagent.compile.properties.claims import Inquiry
from guardagent.compile.properties.shapes import changes
from guardagent.compile.trial import Trial
from guardagent.compile.world import World

ORDER = 30

_MOST_FAILURES = 3  # of properties, that are shrunk


def examine(trial: Trial, world: World) -> Iterator[Tried]:
    properties = trial.properties
    if missing := [str(one.number) for one in world.subject.clauses if one.number not in properties.numbers]:
        why = f"no property was written for {'clause' if len(missing) == 1 else 'clauses'} {', '.join(missing)}"
        yield Tried("properties", why, unchecked=why)
    if properties.numbers:
        yield from _tried(Inquiry(trial, properties, world), trial, world)


def _tried(inquiry: Inquiry, trial: Trial, world: World) -> Iterator[Tried]:
    failures = _by_labels(inquiry, world)
    hindered = "" if failures else _hindered(world)
    if not (failures or hindered):
        failures = _by_search(inquiry, trial, world)
    if hindered:
        yield Tried("properties", hindered, unchecked=hindered)
    for number, counts in inquiry.counts.items():
        about = f"clause {number}, asked about {inquiry.runs} different runs, of which it said {counts}"
        found = [failures[number]] if number in failures else []
        idle = f"the property of clause {number} said nothing about any of {inquiry.runs} runs"
        yield Tried(f"property_{number}", about, counts.runs, found, unchecked="" if counts.runs or found else idle)


def _hindered(world: World) -> str:
    if world.inputs <= 0:
        return "properties were tried by the examples alone: --inputs is 0"
    if not search.installed():
        return f"properties were tried by the examples alone: Hypothesis is not installed; {search.INSTALL}"
    return ""


def _by_labels(inquiry: Inquiry, world: World) -> dict[int, Failure]:
    """A property that contradicts an example's label is wrong, since the program agrees with all of them."""
    found: dict[int, Failure] = {}
    for example in world.examples:
        for number, failure in inquiry.failures(example, "", labelled=True).items():
            found.setdefault(number, failure)
        if len(found) == len(inquiry.counts):
            break
    return found


def _by_search(inquiry: Inquiry, trial: Trial, world: World) -> dict[int, Failure]:
    places = changes(world, [trial.program, trial.properties.source])
    failing: dict[int, None] = {}

    def never(run: Example, note: str) -> bool:
        failing.update(dict.fromkeys(inquiry.failures(run, note)))
        return False

    search.search(world.examples, places, never, world.inputs)
    found: dict[int, Failure] = {}
    for number in list(failing)[:_MOST_FAILURES]:
        # The same runs in the same order, up to the first that fails; from there on simpler ones.
        simplest = search.search(world.examples, places, partial(_fails, inquiry, number), world.inputs)
        if simplest is not None:
            found[number] = inquiry.failures(*simplest)[number]
    return found


def _fails(inquiry: Inquiry, number: int, run: Example, note: str) -> bool:
    return number in inquiry.failures(run, note)
