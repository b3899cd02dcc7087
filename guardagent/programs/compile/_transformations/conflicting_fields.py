"""Repeats a field with a conflicting value that the program denies.

A field with two values is unknown. If the program denies the run with the other value alone, the field matters, and the
program must not allow a run with both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from guardagent.programs.compile.examples import Example
from guardagent.programs.compile.fields import ValueLocation, value_locations
from guardagent.programs.compile.suite import RUN_TEXTS, Suite
from guardagent.programs.compile.transformations import Variant

ABOUT = "a field appears twice with conflicting values; if one value alone is denied, the run is denied"


def variants(example: Example, suite: Suite) -> Iterator[Variant]:
    if example.label == 1:
        return
    for origin in RUN_TEXTS:
        text = getattr(example, origin)
        for location in value_locations(text):
            for value in suite.alternatives(origin, location.name, location.value) if not location.path else ():
                other = example.with_text(origin, location.put(text, value))
                for repeated, note in _repeated_field(text, location, value):
                    changed = example.with_text(origin, repeated, label=1)
                    yield Variant(changed, "conflicting", f"{note} of {origin}: {location.name}: {value}", other)


def _repeated_field(text: str, location: ValueLocation, value: Any) -> Iterator[tuple[str, str]]:
    start, end = text.rfind("\n", 0, location.start) + 1, text.find("\n", location.end)
    end = len(text) if end < 0 else end
    line = text[start : location.start] + str(value) + text[location.end : end]
    yield f"{text[:end]}\n{line}{text[end:]}", "below the field"
    yield f"{text[:start]}{line}\n{text[start:]}", "above the field"
    if start and text[start : start + 1].strip():  # indented lines belong to a section
        yield f"{line}\n{text}", "at the top"
    if end < len(text) and text[start : start + 1].strip():
        yield f"{text}\n{line}", "at the end"
