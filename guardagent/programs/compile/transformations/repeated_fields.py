"""Fields repeated: each field of the input once more, with another value, in text that an attacker controls.

That is the free text of the user, and all of the output.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from guardagent.programs.compile.examples import Example
from guardagent.programs.compile.fields import Field, appended, fields_of, free_text, with_value
from guardagent.programs.compile.transformations import Variant
from guardagent.programs.compile.world import World

ABOUT = "a field is given again, with another value, in the user's free text or in the output; a denial stands"

_MOST = 4  # other values of a field


def variants(example: Example, world: World) -> Iterator[Variant]:
    if example.label == 0:
        return
    free = free_text(example.agent_input)
    for field in fields_of(example.agent_input):
        if field == free:
            continue
        for value in world.others("agent_input", field.name, field.value)[:_MOST]:
            yield from _repeated(example, field.line(value).strip(), free)


def _repeated(example: Example, line: str, free: Field | None) -> Iterator[Variant]:
    said, log = example.agent_input, example.agent_output
    yield Variant(replace(example, agent_input=appended(said, line)), "denied", f"below the input: {line}")
    if free is not None:
        for joined, place in ((f"{free.value} {line}", "in"), (f"{free.value}\n{line}", "below")):
            text = with_value(said, free, joined)
            yield Variant(replace(example, agent_input=text), "denied", f"{place} the user's {free.name}: {line}")
    yield Variant(replace(example, agent_output=appended(log, line)), "denied", f"below the output: {line}")
    yield Variant(replace(example, agent_output=f"{line}\n{log}"), "denied", f"above the output: {line}")
