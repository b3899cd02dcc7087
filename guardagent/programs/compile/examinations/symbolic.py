"""Properties once more: values that CrossHair solves for, each tried in the sandbox. Last, since it is slow."""

from __future__ import annotations

from collections.abc import Iterator

from guardagent.programs.compile.examinations import Failure, Tried
from guardagent.programs.compile.properties import symbolic
from guardagent.programs.compile.properties.claims import Inquiry
from guardagent.programs.compile.trial import Trial
from guardagent.programs.compile.world import World

ORDER = 40

_ABOUT = "fields left open, for which CrossHair looked for a value with which the program breaks a property"


def examine(trial: Trial, world: World) -> Iterator[Tried]:
    if not trial.properties.numbers:
        return
    why = "no value was looked for symbolically: --crosshair is 0" if world.crosshair <= 0 else symbolic.hindered()
    if why:
        yield Tried("symbolic", why, unchecked=why)
        return
    asked = symbolic.questions(world)
    runs, count, stopped = symbolic.suggested(trial, world, asked, world.crosshair)
    inquiry, found = Inquiry(trial, trial.properties, world), dict[int, Failure]()
    for run, note in runs:
        for number, failure in inquiry.failures(run, note).items():
            found.setdefault(number, failure)
    yield Tried("symbolic", _ABOUT, count, list(found.values()), unchecked=stopped)
