"""Repeats each field of the input with another value in attacker-controlled text.

An attacker controls the free text of the user, and the whole output.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from guardagent.programs.compile.examples import Example
from guardagent.programs.compile.fields import TextField, append_text, fields_of, free_text, with_value
from guardagent.programs.compile.suite import Suite
from guardagent.programs.compile.transformations import Variant

ABOUT = "a field is repeated with another value in the user's free text or the output; a denied run stays denied"

_MOST = 4  # other values per field


def variants(example: Example, suite: Suite) -> Iterator[Variant]:
    if example.label == 0:
        return
    free = free_text(example.agent_input)
    for field in fields_of(example.agent_input):
        if field == free:
            continue
        for value in suite.alternatives("agent_input", field.name, field.value)[:_MOST]:
            yield from _repeated(example, field.line(value).strip(), free)


def _repeated(example: Example, line: str, free: TextField | None) -> Iterator[Variant]:
    agent_input, log = example.agent_input, example.agent_output
    yield Variant(replace(example, agent_input=append_text(agent_input, line)), "denied", f"below the input: {line}")
    if free is not None:
        for joined, location in ((f"{free.value} {line}", "in"), (f"{free.value}\n{line}", "below")):
            text = with_value(agent_input, free, joined)
            yield Variant(replace(example, agent_input=text), "denied", f"{location} the user's {free.name}: {line}")
    yield Variant(replace(example, agent_output=append_text(log, line)), "denied", f"below the output: {line}")
    yield Variant(replace(example, agent_output=f"{line}\n{log}"), "denied", f"above the output: {line}")
