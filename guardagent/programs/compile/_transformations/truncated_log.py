"""Truncates the output, as a size limit would."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from guardagent.programs.compile.examples import Example
from guardagent.programs.compile.suite import Suite
from guardagent.programs.compile.transformations import Variant

ABOUT = "the log is truncated; a denied run does not pass with an answer"

_PARTS = (0.1, 0.25, 0.5, 0.75, 0.9)
_LEAST = 20  # characters; a shorter prefix may be a valid answer


def variants(example: Example, _suite: Suite) -> Iterator[Variant]:
    log = example.agent_output
    if example.label == 0 or len(log) < _LEAST:
        return
    for share in _PARTS:
        cut = log[: int(len(log) * share)]
        if cut.strip():
            yield Variant(replace(example, agent_output=cut), "withheld", f"the first {share:.0%} of the output alone")
