"""Truncates each JSON object in the output, and keeps the text around it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from guardagent.programs.compile.examples import Example
from guardagent.programs.compile.fields import objects_in
from guardagent.programs.compile.suite import Suite
from guardagent.programs.compile.transformations import Variant

ABOUT = "a record of the log is truncated; a denied run stays denied"

_KEPT = 0.6  # share of a record


def variants(example: Example, _suite: Suite) -> Iterator[Variant]:
    log = example.agent_output
    if example.label == 0:
        return
    for number, (start, end, _) in enumerate(objects_in(log), start=1):
        cut = start + int((end - start) * _KEPT)
        yield Variant(replace(example, agent_output=log[:cut] + log[end:]), "denied", f"record {number} is truncated")
