"""The answer of every example: unchanged where the run is allowed, and none where it is denied."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from guardagent.programs.compile.examinations import Failure, Tried
from guardagent.programs.compile.examples import Example
from guardagent.programs.compile.fields import places_of
from guardagent.programs.compile.trial import Outcome, Trial
from guardagent.programs.compile.world import World

ORDER = 12

ABOUT = "the answer of an allowed run is made of words of its output alone; a denied run has none"


def examine(trial: Trial, world: World) -> Iterator[Tried]:
    tried = Tried("answers", ABOUT)
    for example in world.examples:
        outcome = trial.outcome(example)
        tried.runs += 1
        if wrong := _wrong(example, outcome):
            tried.failures.append(Failure(tried.name, example, "its answer", *wrong))
    yield tried


def _wrong(example: Example, outcome: Outcome) -> tuple[str, str] | None:
    """(expected, given), where they differ."""
    if outcome.leaks:
        return "an answer of None with label 1", "label 1 with an answer"
    said = f"{example.agent_output}\n" + "\n".join(str(place.value) for place in places_of(example.agent_output))
    if added := [word for word in _words(outcome.answer or "") if word not in set(_words(said))]:
        return "the run's answer, unchanged", f"an answer with words that the output has not: {', '.join(added[:5])}"
    return None


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", unicodedata.normalize("NFKC", text))
