"""Joins an output that the program denies to the output of an allowed example."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from guardagent.programs.compile.examples import Example
from guardagent.programs.compile.suite import Suite
from guardagent.programs.compile.transformations import Variant

ABOUT = "the log contains a second attempt; if that one alone is denied, the run is denied"

_MOST = 6  # outputs that are joined to an example


def variants(example: Example, suite: Suite) -> Iterator[Variant]:
    if example.label == 1:
        return
    own = example.agent_output
    for denied in [one for one in suite.examples if one.label == 1 and one.agent_output != own][:_MOST]:
        more, other = denied.agent_output, replace(example, agent_output=denied.agent_output)
        for text, note in ((f"{more}\n{own}", "above"), (f"{own}\n{more}", "below")):
            joined = replace(example, agent_output=text, label=1)
            yield Variant(joined, "conflicting", f"the output of another run {note} the output", other)
