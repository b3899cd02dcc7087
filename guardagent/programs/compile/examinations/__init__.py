"""Examinations of a program, one file each, found by listing this folder: what it must pass before it is written.

A module here has

- `ORDER`: a number; those with a lower one come first, and where one fails, the later ones are not made;
- `examine(trial, world)`: what was tried, as `Tried`, one for each kind of test.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from guardagent._support.plugins import Plugins
from guardagent.programs.compile.examples import Example
from guardagent.programs.compile.suite import Suite
from guardagent.programs.compile.trial import Trial
from guardagent.types import thaw

_KIND = Plugins("examination", __name__, ("ORDER", "examine"))


@dataclass(frozen=True, slots=True)
class Failure:
    """A run that a program answers wrongly.

    Attributes:
        note: what was done to the example; empty for the example itself.
    """

    test: str
    example: Example
    note: str
    expected: str
    actual: str

    def to_dict(self) -> dict[str, Any]:
        return {
            "test": self.test,
            "example": self.example.id,
            "note": self.note,
            "expected": self.expected,
            "given": self.actual,
            "agent_input": self.example.agent_input,
            "agent_output": self.example.agent_output,
            "facts": thaw(self.example.facts),
        }


@dataclass(slots=True)
class ExaminationResult:
    """One kind of test: how many runs it took, and which were answered wrongly.

    Attributes:
        unchecked: what it could not try, and why: for a person to know.
        lacks: what is missing in the answer, whatever the runs: it goes back to the model, as a failure does.
        advice: what the model should write otherwise, and a person know, though no run shows it to be wrong.
        idle: why there is nothing to try, as the model says.
    """

    name: str
    about: str
    runs: int = 0
    failures: list[Failure] = field(default_factory=list)
    unchecked: str = ""
    missing: str = ""
    advice: str = ""
    no_rule_reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        failures = [failure.to_dict() for failure in self.failures]
        row = {"name": self.name, "about": self.about, "runs": self.runs, "failures": failures}
        return row | ({"lacks": self.missing} if self.missing else {})


def examine(trial: Trial, suite: Suite) -> list[ExaminationResult]:
    """All that was tried with a program, up to the first examination that it fails.

    Raises:
        SandboxError: the sandbox itself does not work here.
    """
    results: list[ExaminationResult] = []
    suite = replace(suite, sources=(trial.program, trial.properties.source))
    for module in sorted((one for _, one in _KIND.load_all()), key=lambda one: (one.ORDER, one.__name__)):
        results += _run_module(module, trial, suite)
        if any(result.failures for result in results):
            break
    return results


def _run_module(module: Any, trial: Trial, suite: Suite) -> Iterator[ExaminationResult]:
    yield from module.examine(trial, suite)
