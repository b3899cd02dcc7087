"""Examinations that a program must pass before it is written: one file each, found by listing this folder.

A module here has

- `ORDER`: a number; examinations run in ascending order, up to the first that fails;
- `examine(trial, suite)`: yields an `ExaminationResult` per kind of test.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from guardagent._support.plugins import Plugins
from guardagent.programs.compile.examples import Example
from guardagent.programs.compile.suite import Suite
from guardagent.programs.compile.trial import Trial
from guardagent.types import thaw

_KIND = Plugins("examination", "guardagent.programs.compile._examinations", ("ORDER", "examine"))


@dataclass(frozen=True, slots=True)
class Failure:
    """A run with an unexpected outcome.

    Attributes:
        note: the change to the example; empty for the example itself.
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
    """The result of one kind of test: the number of runs, and the failures.

    Attributes:
        unchecked: what could not be tested, and why; for the report.
        missing: a missing piece of the answer; goes back to the model like a failure.
        advice: a suggested change that no failing run supports; for the model and the report.
        no_rule_reason: the model's reason why the clause sets no rule.
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
    """Runs the examinations of a program, up to the first that fails.

    Raises:
        SandboxError: the sandbox does not work on this machine.
    """
    results: list[ExaminationResult] = []
    suite = replace(suite, sources=(trial.program, trial.properties.source))
    modules = [one for _, one in _KIND.load_all()]
    modules.append(importlib.import_module("guardagent.programs.compile.examinations"))
    for module in sorted(modules, key=lambda one: (one.ORDER, one.__name__)):
        results += _run_module(module, trial, suite)
        if any(result.failures for result in results):
            break
    return results


def _run_module(module: Any, trial: Trial, suite: Suite) -> Iterator[ExaminationResult]:
    yield from module.examine(trial, suite)
