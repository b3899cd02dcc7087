"""Candidates for a divided request (the paper's Appendix Q): one program per part, folded into one program file.

The program of a part is written like any other, and tested alone in its folded form. Then all parts are tested
together. If the folded program fails, the outcomes of the parts for the same run tell which of them to repair.
The partition and the folding are in `folding.py`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from guardagent.programs.answers import FunctionSelection
from guardagent.programs.compile.candidate import Attempt, Candidate, CompileContext
from guardagent.programs.compile.examinations_base import ExaminationResult, Failure
from guardagent.programs.compile.examples import Example
from guardagent.programs.compile.findings import PartReport, ProgramFinding, ProgramLayout
from guardagent.programs.compile.folding import Division, RequestPart, fold_programs, fold_properties, problem_of
from guardagent.programs.compile.replies import Dispute
from guardagent.programs.compile.suite import Suite
from guardagent.programs.compile.trial import Properties, RunOutcome, Trial

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


# --- fault localization

_PROPERTY = re.compile(r"property_(\d+)\Z")


def parts_at_fault(failure: Failure, parts: Sequence[PartCandidate], suite: Suite) -> list[PartCandidate]:
    """Returns the parts to repair for a failure; all parts if none is distinguished."""
    outcomes = [(part, part.outcome(failure.example)) for part in parts]
    crashed = [part for part, outcome in outcomes if outcome.crash]
    return crashed or _by_property(failure, outcomes) or _by_label(failure.example, outcomes, suite) or list(parts)


def _by_property(failure: Failure, outcomes: Sequence[tuple[PartCandidate, RunOutcome]]) -> list[PartCandidate]:
    """Returns the part that owns the property, and those that deny a run that the property allows."""
    match = _PROPERTY.match(failure.test)
    if match is None:
        return []
    owners = [part for part, _ in outcomes if int(match[1]) in part.part.numbers]
    deny = [part for part, outcome in outcomes if outcome.label == 1 and part not in owners]
    return owners if failure.expected == "label 1" else [*owners, *deny]


def _by_label(
    example: Example, outcomes: Sequence[tuple[PartCandidate, RunOutcome]], suite: Suite
) -> list[PartCandidate]:
    if example.label == 0:
        return [part for part, outcome in outcomes if outcome.label == 1] or _by_answer(outcomes)
    named = [part for part, _ in outcomes if set(example.clauses) & set(part.part.numbers)]
    return named or _by_flip(example, outcomes, suite)


def _by_flip(
    example: Example, outcomes: Sequence[tuple[PartCandidate, RunOutcome]], suite: Suite
) -> list[PartCandidate]:
    """Returns the parts that deny the original example but allow the changed one."""
    base = next((one for one in suite.examples if one.id == example.id), example)
    allow = [part for part, outcome in outcomes if outcome.label == 0]
    return [part for part in allow if part.outcome(base).label == 1]


def _by_answer(outcomes: Sequence[tuple[PartCandidate, RunOutcome]]) -> list[PartCandidate]:
    """Returns the parts with another answer than the most common one."""
    answers = Counter(outcome.answer for _, outcome in outcomes)
    most = max(answers, key=lambda answer: (answers[answer], answer is not None), default=None)
    return [part for part, outcome in outcomes if outcome.answer != most]


# --- the whole request

_MOST_FAILURES = 40  # each runs on every part


class DividedCandidate(Candidate):
    """A candidate whose attempts are versions of the folded program; each part keeps its own attempts.

    If a part never passes alone, nothing is folded, and the last attempt names that part.
    """

    def __init__(self, number: int, division: Division, suite: Suite, context: CompileContext, rounds: int) -> None:
        ruling = tuple(clause for part in division.parts for clause in part.numbers)
        super().__init__(number, replace(suite, ruling=ruling), context, rounds)
        self._parts = [
            PartCandidate(number, part, division, suite, context, rounds, self._functions) for part in division.parts
        ]
        self._division = division

    @property
    def disputes(self) -> list[Dispute]:
        return [dispute for part in self._parts for dispute in part.disputes]

    @property
    def changed_properties(self) -> list[int]:
        return sorted(number for part in self._written_parts for number in part.changed_properties)

    def write(self) -> None:
        """Writes each part, then repairs the parts at fault until the folded program passes or the rounds are over.

        Raises:
            ModelError: the model did not answer.
            SandboxError: the sandbox does not work on this machine.
        """
        if not all(self._write_part(part) for part in self._parts):
            return
        for left in range(self._rounds, -1, -1):
            self.attempts.append(self._fold())
            self._context.progress(f"{self._name}, all parts together: {self.last.summary}")
            if self.last.passed:
                return
            self._blame()
            if not left or not self._mend():
                return

    def findings(self) -> list[ProgramFinding]:
        """Returns the findings, including those on the division."""
        why = "the model classified this sentence as context, which sets no rule; no code was written for it: "
        found = [ProgramFinding("context", why + one.text, clause=one.number) for one in self._division.context]
        for row in self.rows():
            if not row.denies:
                message = f"the code for {row.name} denies no example; add an example that it denies"
                found.append(ProgramFinding("unexercised", message, clause=row.clauses[0]))
        return [*super().findings(), *found]

    def rows(self) -> list[PartReport]:
        return [part.row() for part in self._written_parts]

    @property
    def _written_parts(self) -> list[PartCandidate]:
        return [part for part in self._parts if part.attempts]

    def _write_part(self, part: PartCandidate) -> bool:
        """Writes a part, and returns whether it passes alone."""
        part.write()
        return self._require_passed(part)

    def _require_passed(self, part: PartCandidate) -> bool:
        if part.last.passed:
            return True
        why = f"the code for {part.part.name} did not pass alone ({part.last.summary}), so no program was folded"
        self.stopped = part.stopped
        self.attempts.append(Attempt(problems=[why], proposal=part.last.proposal))
        return False

    def _mend(self) -> bool:
        """Repairs the parts at fault, and returns whether there were any and all pass alone now."""
        blamed = [part for part in self._parts if not part.last.passed]
        for part in blamed:
            part.mend()
            if not self._require_passed(part):
                return False
        return bool(blamed)

    def _blame(self) -> None:
        """Assigns the failures of the folded program to the parts at fault."""
        for part, failures in self._faults().items():
            part.blame(failures)

    def _faults(self) -> dict[PartCandidate, list[Failure]]:
        """Returns each part at fault with its failures."""
        found: dict[PartCandidate, list[Failure]] = {}
        for failure in self.last.failures[:_MOST_FAILURES]:
            for part in parts_at_fault(failure, self._parts, self._suite):
                found.setdefault(part, []).append(failure)
        return found

    def _fold(self) -> Attempt:
        """Folds all parts into one program and examines it."""
        properties = fold_properties({one.part: one.last.properties for one in self._parts})
        folded = fold_programs({one.part: one.last.program for one in self._parts}, self._suite.target.toolbox)
        if problems := [*self._problems(folded.source), *self._wrong_properties(properties)]:
            return Attempt(folded.source, problems, properties=properties)
        single = {part.numbers[0]: frozenset(lines) for part, lines in folded.lines.items() if len(part.numbers) == 1}
        self.layout = ProgramLayout(folded.host_lines, single, frozenset(one.number for one in self._division.context))
        return self._examine(folded.source, properties)
