"""Adds facts that contradict the text: facts win, so the label is that of a text with the same value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from guardagent.programs.compile.examples import Example
from guardagent.programs.compile.facts import fact_value
from guardagent.programs.compile.fields import value_locations
from guardagent.programs.compile.suite import Suite
from guardagent.programs.compile.transformations import Variant

ABOUT = "a fact contradicts the text; the label is that of a text with the value of the fact"


def variants(example: Example, suite: Suite) -> Iterator[Variant]:
    for name, (origin, field) in suite.fact_links.items():
        text = getattr(example, origin)
        locations = [location for location in value_locations(text) if location.name == field]
        if len(locations) != 1:
            continue
        rest = {fact: value for fact, value in example.facts.items() if fact != name}
        for value in suite.alternatives(origin, field, locations[0].value):
            in_text = replace(example.with_text(origin, locations[0].put(text, value)), facts=rest)
            known = replace(example, facts=rest | {name: fact_value(value)})
            yield Variant(known, "alike", f"the fact {name} is {value!r}, against the text", in_text)
