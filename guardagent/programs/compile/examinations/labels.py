"""Every example, as it is: the program gives its label, and does not crash."""

from __future__ import annotations

from collections.abc import Iterator

from guardagent.programs.compile.examinations import Failure, Tried
from guardagent.programs.compile.trial import Trial
from guardagent.programs.compile.world import World

ORDER = 10

ABOUT = "every example gets its label; a crash is no denial"


def examine(trial: Trial, world: World) -> Iterator[Tried]:
    tried = Tried("examples", ABOUT)
    for example in world.examples:
        outcome = trial.outcome(example)
        tried.runs += 1
        if outcome.crash or outcome.label != example.label:
            tried.failures.append(Failure(tried.name, example, "", f"label {example.label}", str(outcome)))
    yield tried
