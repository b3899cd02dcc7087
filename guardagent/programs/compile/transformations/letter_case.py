"""Values in other letters: a role in capitals is no other role, so a denial stands."""

from __future__ import annotations

from collections.abc import Iterator

from guardagent.programs.compile.examples import Example
from guardagent.programs.compile.fields import places_of
from guardagent.programs.compile.transformations import Variant
from guardagent.programs.compile.world import TEXTS, World

ABOUT = "a value is written in capitals, in small letters, or with a capital; a denial stands"


def variants(example: Example, world: World) -> Iterator[Variant]:
    if example.label == 0:
        return
    for part in TEXTS:
        text = getattr(example, part)
        for place in places_of(text):
            if not place.path and (part, place.name) in world.kinds:
                for value in sorted(
                    {place.value.upper(), place.value.lower(), place.value.capitalize()} - {place.value}
                ):
                    changed = example.with_text(part, place.put(text, value))
                    yield Variant(changed, "denied", f"{place.name} of {part}: {value}")
