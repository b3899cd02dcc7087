"""Fields that are missing or empty: what the program denies for one value of a field, it does not allow without it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from guardagent.programs.compile.examples import Example
from guardagent.programs.compile.fields import Place, places_of
from guardagent.programs.compile.transformations import Variant
from guardagent.programs.compile.world import FACTS, TEXTS, World

ABOUT = "a field or fact is missing; where one of its values is denied, the run is not allowed"


def variants(example: Example, world: World) -> Iterator[Variant]:
    if example.label == 1:
        return
    for part in TEXTS:
        text = getattr(example, part)
        places = places_of(text)
        counts = Counter(place.name for place in places)
        for place in places:
            if counts[place.name] == 1:  # where there are several, a run may do without one
                for value in world.others(part, place.name, place.value):
                    yield from _without(_unsaid(example, part, place, world), part, place, value)
    yield from _without_facts(example, world)


def _without(example: Example, part: str, place: Place, value: Any) -> Iterator[Variant]:
    text: str = getattr(example, part)
    other = example.with_text(part, place.put(text, value))
    gone = example.with_text(part, place.drop(text), label=1)
    empty = example.with_text(part, place.put(text, None if place.path else ""), label=1)
    note = f"{place.name} of {part}, with {value!r} denied"
    yield Variant(gone, "conflicting", f"no {note}", other)
    yield Variant(empty, "conflicting", f"an empty {note}", other)


def _unsaid(example: Example, part: str, place: Place, world: World) -> Example:
    """The run without the facts that say the same: then only the text is left."""
    said = [name for name, field in world.fact_links.items() if field == (part, place.name)]
    return replace(example, facts={name: fact for name, fact in example.facts.items() if name not in said})


def _without_facts(example: Example, world: World) -> Iterator[Variant]:
    for name, fact in example.facts.items():
        said = world.fact_links.get(name)
        if said and any(place.name == said[1] for place in places_of(getattr(example, said[0]))):
            continue  # the text still says it
        rest = {other: value for other, value in example.facts.items() if other != name}
        for value in world.others(FACTS, name, fact) if isinstance(fact, str | int | float) else ():
            other = replace(example, facts={**example.facts, name: value})
            gone = replace(example, facts=rest, label=1)
            yield Variant(gone, "conflicting", f"no fact {name}, with {value!r} denied", other)
