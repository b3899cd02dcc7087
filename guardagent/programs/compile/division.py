"""The program of one part of a request: written like any other, and tested alone in its folded form."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from guardagent.programs.compile.candidate import Candidate
from guardagent.programs.compile.context import CompileContext
from guardagent.programs.compile.division_pieces.partition import Division, RequestPart
from guardagent.programs.compile.examinations_base import ExaminationResult, Failure
from guardagent.programs.compile.examples import Example
from guardagent.programs.compile.findings import PartReport
from guardagent.programs.compile.folding import fold_programs, problem_of
from guardagent.programs.compile.suite import Suite
from guardagent.programs.compile.trial import Properties, RunOutcome, Trial
from guardagent.programs.generation_pieces.relevance import FunctionSelection

WHOLE = "whole_program"
"""The name of the examination of the folded program."""

_ABOUT = "runs that the folded program fails, for which this part is or may be at fault"
_NOT_ALONE = "substituted_profile"  # a required check may deny for the sake of another part


class PartCandidate(Candidate):
    """A candidate for one part.

    The tests of a part alone expect it to allow the allowed examples, and to deny those annotated with its sentences.
    """

    def __init__(
        self,
        number: int,
        part: RequestPart,
        division: Division,
        suite: Suite,
        context: CompileContext,
        rounds: int,
        functions: FunctionSelection,
    ) -> None:
        super().__init__(number, _suite_for(part, suite), context, rounds)
        self._functions = functions
        self.part = part
        self._division = division
        self._whole = suite
        self._trial: Trial | None = None

    def outcome(self, run: Example) -> RunOutcome:
        """Returns the outcome of the last version alone for a run."""
        source = self._runnable(self.last.program)
        if self._trial is None or self._trial.program != source:
            self._trial = Trial(source, self._context.sandbox, self._suite.target.toolbox)
        return self._trial.outcome(run)

    def row(self) -> PartReport:
        """Returns the row of the report on this part."""
        runs = [(one.id, self.outcome(one)) for one in self._whole.examples] if self.last.results else []
        denies = [name for name, outcome in runs if outcome.label == 1 and not outcome.crash]
        last, part = self.last, self.part
        return PartReport(
            part.name, part.numbers, last.passed, len(self.attempts), last.problems, last.failures, denies
        )

    def blame(self, failures: Sequence[Failure]) -> None:
        """Adds failures of the folded program for which this part may be at fault."""
        annotated = [
            replace(one, actual=f"{one.actual}; this part alone: {self.outcome(one.example)}") for one in failures
        ]
        self.last.results.append(ExaminationResult(WHOLE, _ABOUT, len(annotated), annotated))

    def mend(self) -> None:
        """Has the model repair the last version.

        Raises:
            ModelError: the model did not answer.
            SandboxError: the sandbox does not work on this machine.
        """
        self._write()

    @property
    def _name(self) -> str:
        return f"candidate {self.number}, {self.part.name}"

    @property
    def _showable(self) -> Sequence[Example]:
        return self._whole.examples

    @property
    def _clause_numbers(self) -> Collection[int]:
        return self.part.numbers

    @property
    def _part_context(self) -> dict[str, Any]:
        return {"part": self.part.clauses, "context": self._division.context}

    def _plan(self) -> tuple[str, str]:
        return "", ""  # one part needs no plan

    def _label(self, example: Example) -> str:
        if example.label == 0:
            return "label 0"
        if self._breaks(example):
            return "label 1, for a sentence of this part"
        if example.clauses:
            return f"label 1, for the sentences {', '.join(map(str, example.clauses))}: not of this part"
        return "label 1 of the whole request: perhaps for this part, perhaps for another"

    def _breaks(self, example: Example) -> bool:
        return bool(set(example.clauses) & set(self.part.numbers))

    def _runnable(self, program: str) -> str:
        return fold_programs({self.part: program}, self._suite.target.toolbox).source

    def _problems(self, program: str) -> list[str]:
        return super()._problems(program) or [problem for problem in (problem_of(program),) if problem]

    def _wrong_properties(self, properties: Properties) -> list[str]:
        if found := super()._wrong_properties(properties):
            return found
        odd = set(properties.numbers) - set(self.part.numbers)
        if odd:
            found.append(f"the properties: 'property_{min(odd)}' belongs to another part; expected {self.part.name}")
        return [*found, *(problem for problem in (_in_properties(properties),) if problem)]


def _suite_for(part: RequestPart, suite: Suite) -> Suite:
    """Returns the suite of the examples whose label for this part alone is known."""
    known = [one for one in suite.examples if one.label == 0 or set(one.clauses) & set(part.numbers)]
    examples = [replace(one, details=None) for one in known]  # details belong to the folded program
    excluded = suite.excluded | {_NOT_ALONE}
    return replace(suite, examples=examples, excluded=excluded, crosshair=0.0, ruling=part.numbers)


def _in_properties(properties: Properties) -> str:
    problem = problem_of(properties.source) if properties.source else ""
    return f"the properties: {problem}" if problem else ""
