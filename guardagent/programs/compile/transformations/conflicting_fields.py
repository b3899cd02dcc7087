"""Fields in conflict: a field once more, right above or below itself, with a value that the program denies there.

A field that is given twice is unknown. Where the program denies the run with the other value alone, the field matters,
and then it must not allow a run that gives both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from guardagent.programs.compile.examples import Example
from guardagent.programs.compile.fields import Place, places_of
from guardagent.programs.compile.transformations import Variant
from guardagent.programs.compile.world import TEXTS, World

ABOUT = "a field is given twice, in conflict; where one of the values alone is denied, the run is not allowed"


def variants(example: Example, world: World) -> Iterator[Variant]:
    if example.label == 1:
        return
    for part in TEXTS:
        text = getattr(example, part)
        for place in places_of(text):
            for value in world.others(part, place.name, place.value) if not place.path else ():
                other = example.with_text(part, place.put(text, value))
                for given_twice, note in _twice(text, place, value):
                    changed = example.with_text(part, given_twice, label=1)
                    yield Variant(changed, "conflicting", f"{note} of {part}: {place.name}: {value}", other)


def _twice(text: str, place: Place, value: Any) -> Iterator[tuple[str, str]]:
    start, end = text.rfind("\n", 0, place.start) + 1, text.find("\n", place.end)
    end = len(text) if end < 0 else end
    line = text[start : place.start] + str(value) + text[place.end : end]
    yield f"{text[:end]}\n{line}{text[end:]}", "below the field"
    yield f"{text[:start]}{line}\n{text[start:]}", "above the field"
    if start and text[start : start + 1].strip():  # not of a section, whose lines are indented
        yield f"{line}\n{text}", "at the top"
    if end < len(text) and text[start : start + 1].strip():
        yield f"{text}\n{line}", "at the end"
