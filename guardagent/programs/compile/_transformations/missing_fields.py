"""Removes or empties fields: if the program denies one value of a field, it must not allow a run without it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from guardagent.programs.compile.examples import Example
from guardagent.programs.compile.fields import ValueLocation, value_locations
from guardagent.programs.compile.suite import FACTS, RUN_TEXTS, Suite
from guardagent.programs.compile.transformations import Variant

ABOUT = "a field or fact is missing; if one of its values is denied, the run is denied"


def variants(example: Example, suite: Suite) -> Iterator[Variant]:
    if example.label == 1:
        return
    for origin in RUN_TEXTS:
        text = getattr(example, origin)
        locations = value_locations(text)
        counts = Counter(location.name for location in locations)
        for place in locations:
            if counts[place.name] == 1:  # one of several may be optional
                for value in suite.alternatives(origin, place.name, place.value):
                    yield from _without(_without_linked_facts(example, origin, place, suite), origin, place, value)
    yield from _without_facts(example, suite)


def _without(example: Example, origin: str, location: ValueLocation, value: Any) -> Iterator[Variant]:
    text: str = getattr(example, origin)
    other = example.with_text(origin, location.put(text, value))
    gone = example.with_text(origin, location.drop(text), label=1)
    empty = example.with_text(origin, location.put(text, None if location.path else ""), label=1)
    note = f"{location.name} of {origin}, with {value!r} denied"
    yield Variant(gone, "conflicting", f"no {note}", other)
    yield Variant(empty, "conflicting", f"an empty {note}", other)


def _without_linked_facts(example: Example, origin: str, location: ValueLocation, suite: Suite) -> Example:
    """Returns the run without the facts linked to a field, so that only the text provides it."""
    linked = [name for name, field in suite.fact_links.items() if field == (origin, location.name)]
    return replace(example, facts={name: fact for name, fact in example.facts.items() if name not in linked})


def _without_facts(example: Example, suite: Suite) -> Iterator[Variant]:
    for name, fact in example.facts.items():
        link = suite.fact_links.get(name)
        if link and any(location.name == link[1] for location in value_locations(getattr(example, link[0]))):
            continue  # the text still provides the value
        rest = {other: value for other, value in example.facts.items() if other != name}
        for value in suite.alternatives(FACTS, name, fact) if isinstance(fact, str | int | float) else ():
            other = replace(example, facts={**example.facts, name: value})
            gone = replace(example, facts=rest, label=1)
            yield Variant(gone, "conflicting", f"no fact {name}, with {value!r} denied", other)
