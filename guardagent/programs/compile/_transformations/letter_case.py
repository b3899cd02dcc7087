"""Changes the letter case of values: a role in capitals is the same role, so a denied run stays denied."""

from __future__ import annotations

from collections.abc import Iterator

from guardagent.programs.compile.examples import Example
from guardagent.programs.compile.fields import value_locations
from guardagent.programs.compile.suite import RUN_TEXTS, Suite
from guardagent.programs.compile.transformations import Variant

ABOUT = "a value is in upper case, lower case or capitalized; a denied run stays denied"


def variants(example: Example, suite: Suite) -> Iterator[Variant]:
    if example.label == 0:
        return
    for origin in RUN_TEXTS:
        text = getattr(example, origin)
        for location in value_locations(text):
            if not location.path and (origin, location.name) in suite.kinds:
                for value in sorted(
                    {location.value.upper(), location.value.lower(), location.value.capitalize()} - {location.value}
                ):
                    changed = example.with_text(origin, location.put(text, value))
                    yield Variant(changed, "denied", f"{location.name} of {origin}: {value}")
