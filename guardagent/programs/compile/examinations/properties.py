"""Properties, one for each clause: tried by the examples' labels, then the program on runs made of the examples."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice

from guardagent.programs.compile.examinations import Failure, Tried
from guardagent.programs.compile.examples import Example
from guardagent.programs.compile.properties import Properties, search
from guardagent.programs.compile.properties.claims import Inquiry
from guardagent.programs.compile.properties.search import changed, drawn, paired, simplest, swept
from guardagent.programs.compile.properties.shapes import at_limits, changes, of_kinds
from guardagent.programs.compile.trial import Trial
from guardagent.programs.compile.world import World

ORDER = 30

_MOST_FAILURES = 3  # of properties, that are shrunk
_TOGETHER = 25  # runs that the properties are asked about at once
_EXPECTED = (
    "expected property_N for each clause; for one that sets no rule, one that only returns None under a docstring with "
    "the reason"
)


def examine(trial: Trial, world: World) -> Iterator[Tried]:
    yield _complete(trial.properties, world)
    if trial.properties.numbers:
        yield from _tried(Inquiry(trial, trial.properties, world), trial, world)


def _complete(properties: Properties, world: World) -> Tried:
    """Whether each clause has a property, or a reason why it has none."""
    wanted = [number for number in world.ruling_clauses if number not in world.undecidable]
    missing = [number for number in wanted if number not in properties.numbers]
    silent = [number for number in wanted if properties.idle.get(number) == ""]
    lacks = [f"no property was written for {_clauses(missing)}"] if missing else []
    lacks += [f"the property of {_clauses([one])} only returns None, and gives no reason" for one in silent]
    why = "; ".join(lacks)
    if not why:
        return Tried("properties", "each clause has a property, or a reason why it has none", len(wanted))
    if not world.needs_properties:
        return Tried("properties", why, unchecked=why)
    return Tried("properties", why, lacks=f"{why}; {_EXPECTED}")


def _clauses(numbers: list[int]) -> str:
    return f"clause{'s' * (len(numbers) != 1)} {', '.join(map(str, numbers))}"


def _tried(inquiry: Inquiry, trial: Trial, world: World) -> Iterator[Tried]:
    failures = _by_labels(inquiry, world)
    if not failures and world.inputs:
        failures = _by_search(inquiry, world)
    if not world.inputs:
        why = "properties were tried by the examples alone: --inputs is 0"
        yield Tried("properties_search", why, unchecked=why)
    for number, counts in inquiry.counts.items():
        about = f"clause {number}, asked about {inquiry.runs} different runs, of which it said {counts}"
        if reason := trial.properties.idle.get(number):
            yield Tried(f"property_{number}", f"clause {number} sets no rule, the model says: {reason}", idle=reason)
            continue
        found = [failures[number]] if number in failures else []
        idle = f"the property of clause {number} said nothing about any of {inquiry.runs} runs"
        yield Tried(f"property_{number}", about, counts.runs, found, unchecked="" if counts.runs or found else idle)


def _by_labels(inquiry: Inquiry, world: World) -> dict[int, Failure]:
    """A property that contradicts an example's label is wrong, since the program agrees with all of them."""
    found: dict[int, Failure] = {}
    for example in world.examples:
        for number, failure in inquiry.failures(example, "", labelled=True).items():
            found.setdefault(number, failure)
        if len(found) == len(inquiry.counts):
            break
    return found


def _by_search(inquiry: Inquiry, world: World) -> dict[int, Failure]:
    """The first runs that break a property: of the sweep, then of those at random."""
    places, clock, examples = changes(world), search.Clock(), world.examples
    failing: dict[int, search.Run] = {}
    for runs in (
        swept(examples, places, world.limits),
        paired(examples, at_limits(places, world.limits), of_kinds(world)),
        drawn(examples, places, world.inputs),
    ):
        _ask_all(inquiry, islice(runs, world.inputs), failing, clock)
    found: dict[int, Failure] = {}
    for number, run in list(failing.items())[:_MOST_FAILURES]:
        found[number] = inquiry.failures(*simplest(run, partial(_fails, inquiry, number)))[number]
    return found


def _ask_all(inquiry: Inquiry, runs: Iterator[search.Run], failing: dict[int, search.Run], clock: search.Clock) -> None:
    """Asks about runs until the time is over, and notes the first that fails for each clause."""
    while (batch := list(islice(runs, _TOGETHER))) and not clock.over:
        made = [changed(*run) for run in batch]
        inquiry.prepare([run for run, _ in made])
        for run, one in zip(batch, made, strict=True):
            for number in inquiry.failures(*one):
                failing.setdefault(number, run)


def _fails(inquiry: Inquiry, number: int, run: Example, note: str) -> bool:
    return number in inquiry.failures(run, note)
