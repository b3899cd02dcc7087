"""Facts that contradict the text: they win, so the verdict is that of the run in which the text says the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from guardagent.programs.compile.examples import Example
from guardagent.programs.compile.facts import typed_like_a_fact
from guardagent.programs.compile.fields import places_of
from guardagent.programs.compile.transformations import Variant
from guardagent.programs.compile.world import World

ABOUT = "a fact contradicts the text; the verdict is that of a text that says what the fact does"


def variants(example: Example, world: World) -> Iterator[Variant]:
    for name, (part, field) in world.fact_links.items():
        text = getattr(example, part)
        places = [place for place in places_of(text) if place.name == field]
        if len(places) != 1:
            continue
        rest = {fact: value for fact, value in example.facts.items() if fact != name}
        for value in world.others(part, field, places[0].value):
            said = replace(example.with_text(part, places[0].put(text, value)), facts=rest)
            known = replace(example, facts=rest | {name: typed_like_a_fact(value)})
            yield Variant(known, "alike", f"the fact {name} is {value!r}, against the text", said)
