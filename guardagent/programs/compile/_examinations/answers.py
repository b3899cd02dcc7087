"""Examines the answer for every example: unchanged for an allowed run, absent for a denied one."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from guardagent.programs.compile.examinations_base import ExaminationResult, Failure
from guardagent.programs.compile.examples import Example
from guardagent.programs.compile.fields import value_locations
from guardagent.programs.compile.suite import Suite
from guardagent.programs.compile.trial import RunOutcome, Trial

ORDER = 12

ABOUT = "the answer of an allowed run contains words of its output only; a denied run has no answer"


def examine(trial: Trial, suite: Suite) -> Iterator[ExaminationResult]:
    result = ExaminationResult("answers", ABOUT)
    for example in suite.examples:
        outcome = trial.outcome(example)
        result.runs += 1
        if wrong := _mismatch(example, outcome):
            result.failures.append(Failure(result.name, example, "its answer", *wrong))
    yield result


def _mismatch(example: Example, outcome: RunOutcome) -> tuple[str, str] | None:
    """Returns (expected, actual) if they differ."""
    if outcome.leaks:
        return "an answer of None with label 1", "label 1 with an answer"
    output_text = f"{example.agent_output}\n" + "\n".join(
        str(place.value) for place in value_locations(example.agent_output)
    )
    if added := [word for word in _words(outcome.answer or "") if word not in set(_words(output_text))]:
        return "the run's answer, unchanged", f"an answer with words that the output lacks: {', '.join(added[:5])}"
    return None


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", unicodedata.normalize("NFKC", text))
