"""The report of a compilation, as text and as a dict."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from guardagent.errors import GuardError
from guardagent.programs.compile.candidate import Attempt, Candidate
from guardagent.programs.compile.examples import Example
from guardagent.programs.compile.findings import ClauseCoverage, ProgramFinding
from guardagent.programs.compile.replies import CandidateDisagreement, Dispute, FunctionProposal
from guardagent.programs.compile.suite import Failure, Suite
from guardagent.programs.compile.trial import RunOutcome
from guardagent.types import Usage

_SHOWN = 10  # rows of each kind in the text
_CUT = 300


_FAR = 0.1  # below the share of the shown examples


@dataclass(frozen=True, slots=True)
class ExampleScore:
    """The number of examples that get their label from a program; an unknown run is denied.

    Attributes:
        n: the number of examples.
        right: those with their label.
        unknown: those that the program cannot decide.
        right_decided: the right ones among the others.
    """

    n: int
    right: int
    unknown: int
    right_decided: int

    @classmethod
    def of(cls, examples: Sequence[Example], outcomes: Mapping[str, RunOutcome]) -> ExampleScore:
        pairs = [(example.label, outcomes[example.id]) for example in examples if example.id in outcomes]
        right = [outcome for label, outcome in pairs if outcome.label == label and not outcome.crash]
        decided = [outcome for _, outcome in pairs if outcome.decided]
        return cls(len(pairs), len(right), len(pairs) - len(decided), sum(outcome.decided for outcome in right))

    @property
    def share(self) -> float:
        """The share of right ones, 0 if there are no examples."""
        return self.right / max(1, self.n)

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the share of all runs, by Wilson."""
        n, square = max(1, self.n), 1.96**2
        middle = (self.share + square / (2 * n)) / (1 + square / n)
        half = 1.96 / (1 + square / n) * math.sqrt(self.share * (1 - self.share) / n + square / (4 * n * n))
        return max(0.0, middle - half), min(1.0, middle + half)

    def is_far_below(self, other: ExampleScore) -> bool:
        """Whether another score is better by more than chance, and by much."""
        return self.n > 0 and self.interval[1] < other.share and self.share < other.share - _FAR

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "share": self.share, "interval": list(self.interval)}

    def __str__(self) -> str:
        decided, (low, high) = self.n - self.unknown, self.interval
        return (
            f"{self.right} of {self.n} right ({100 * self.share:.0f} %, 95 % interval {100 * low:.0f} to "
            f"{100 * high:.0f} %); {self.unknown} unknown, {self.right_decided} of {decided} decided right"
        )


@dataclass(frozen=True, slots=True)
class CompileReport:
    """The report on compiling one program.

    Attributes:
        passed: whether a program passed everything.
        outcomes: example id -> outcome of the chosen program, also for the held-out ones; of the last one that ran if
            none passed.
        chosen: the number of the chosen candidate; 0 if none passed.
    """

    suite: Suite
    passed: bool
    candidates: Sequence[Candidate]
    chosen: int = 0
    outcomes: dict[str, RunOutcome] = field(default_factory=dict)
    clauses: Sequence[ClauseCoverage] = ()
    findings: Sequence[ProgramFinding] = ()
    disagreements: Sequence[CandidateDisagreement] = ()
    usage: Usage = field(default_factory=Usage)

    @property
    def candidate(self) -> Candidate:
        """The reported candidate: the chosen one, else the one with the fewest failures."""
        if self.chosen:
            return next(candidate for candidate in self.candidates if candidate.number == self.chosen)
        written = [candidate for candidate in self.candidates if candidate.attempts]
        ran = [candidate for candidate in written if candidate.last.results]
        return min(ran, key=lambda candidate: len(candidate.last.failures)) if ran else written[-1]

    @property
    def attempt(self) -> Attempt:
        """The last version of the reported candidate."""
        return self.candidate.last

    @property
    def disputes(self) -> list[Dispute]:
        """The disputes of all candidates, without duplicates."""
        return list(dict.fromkeys(dispute for candidate in self.candidates for dispute in candidate.disputes))

    @property
    def proposals(self) -> list[FunctionProposal]:
        """The functions that the candidates propose, one per name."""
        proposals = {
            candidate.last.proposal.name: candidate.last.proposal
            for candidate in self.candidates
            if candidate.last.proposal
        }
        return list(proposals.values())

    @property
    def shown(self) -> ExampleScore:
        """The score on the examples that examine the program."""
        return ExampleScore.of(self.suite.examples, self.outcomes)

    @property
    def held_out(self) -> ExampleScore:
        """The score on the examples that were kept apart."""
        return ExampleScore.of(self.suite.held_out, self.outcomes)

    @property
    def warning(self) -> str:
        """The reason to doubt the program; empty if there is none."""
        if not self.held_out.is_far_below(self.shown):
            return ""
        return "the program is far less often right about examples that the model did not see: it may know the others"

    def to_dict(self) -> dict[str, Any]:
        return {
            "passed": self.passed,
            "agent": self.suite.target.name or None,
            "chosen": self.chosen or None,
            "problems": self.attempt.problems,
            "examples": [self._row(example.id, example.label) for example in self.suite.examples],
            "held_out": {
                "score": self.held_out.to_dict(),
                "shown": self.shown.to_dict(),
                "examples": [self._row(example.id, example.label) for example in self.suite.held_out],
            },
            "warning": self.warning or None,
            "tests": [tried.to_dict() for tried in self.attempt.results],
            "proposals": [asdict(proposal) for proposal in self.proposals],
            "disputes": [asdict(dispute) for dispute in self.disputes],
            "set_aside": self._set_aside,
            "properties": self.attempt.properties.source or None,
            "clauses": [asdict(row) for row in self.clauses],
            "findings": [asdict(finding) for finding in self.findings],
            "candidates": [candidate.to_dict() for candidate in self.candidates],
            "disagreements": [disagreement.to_dict() for disagreement in self.disagreements],
            "model_calls": self.usage.calls,
            "usage": {**asdict(self.usage), "seconds": round(self.usage.seconds, 3)},
        }

    def to_text(self) -> str:
        return "\n".join(self._lines()) + "\n"

    @property
    def _set_aside(self) -> list[str]:
        """The ids of the accepted disputes."""
        return [*self.suite.set_aside, *(f"clause-{number}" for number in sorted(self.suite.undecidable))]

    def _row(self, name: str, label: int) -> dict[str, Any]:
        outcome = self.outcomes.get(name)
        actual = None if outcome is None else outcome.label
        right = outcome is not None and not outcome.crash and actual == label
        error = (outcome.crash or outcome.undecided) if outcome else "no program ran"
        return {"id": name, "expected": label, "given": actual, "passed": right, "error": error or None}

    def _lines(self) -> Iterator[str]:
        rounds = sum(len(candidate.attempts) for candidate in self.candidates)
        counts = f"{_counted(len(self.candidates), 'candidate')}, {_counted(rounds, 'version')}"
        yield f"{'PASSED' if self.passed else 'FAILED'}: {counts}"
        for problem in self.attempt.problems:
            yield f"  could not run: {_cut(problem)}"
        for proposal in self.proposals:
            yield f"  the toolbox lacks the function {proposal.name!r}: {_cut(proposal.why)}"
        if self.candidate.stopped:
            yield f"  stopped early: {self.candidate.stopped}"
        yield from self._dispute_lines()
        yield from self._test_lines()
        yield from self._example_lines()
        yield from self._disagreement_lines()
        yield from self._clause_lines()
        for finding in self.findings:
            where = f" line {finding.line}" if finding.line else f" clause {finding.clause}" if finding.clause else ""
            yield f"finding: {finding.kind}{where}: {_cut(finding.message)}"

    def _dispute_lines(self) -> Iterator[str]:
        if self._set_aside:
            yield f"set aside by '--accept-dispute', not tested: {', '.join(self._set_aside)}"
        if self.disputes:
            yield "disputed by the model; decide for each:"
        for dispute in self.disputes:
            yield f"  {dispute.id}, {_cut(dispute.about)}: {_cut(dispute.why)}"
            yield f"    if the model is right: {dispute.remedy}; otherwise change nothing"

    def _test_lines(self) -> Iterator[str]:
        idle = [tried.name for tried in self.attempt.results if not (tried.runs or tried.missing)]
        for tried in self.attempt.results:
            if tried.name in idle:
                continue
            yield f"  {tried.runs - len(tried.failures):>6} of {tried.runs:<6} {tried.name}: {tried.about}"
            if tried.missing:
                yield f"    missing: {_cut(tried.missing)}"
            yield from _failures(tried.failures)
        if idle:
            yield f"  nothing to try for {', '.join(idle)}"

    def _example_lines(self) -> Iterator[str]:
        yield f"examples: {self.shown}"
        if self.held_out.n:
            yield f"held out, not seen by the model: {self.held_out}"
        if self.warning:
            yield f"WARNING: {self.warning}"
        yield "examples with expected and actual label:"
        for example in (*self.suite.examples, *self.suite.held_out):
            outcome = self.outcomes.get(example.id)
            name = f"{example.id}{' (held out)' if example in self.suite.held_out else ''}"
            yield f"  {name}: {example.label}, {_cut(str(outcome)) if outcome else 'not run'}"

    def _disagreement_lines(self) -> Iterator[str]:
        if self.disagreements:
            yield "inputs on which the passing candidates disagree:"
        for case in self.disagreements:
            what = f" ({case.note})" if case.note else ""
            yield f"  {case.example.id}{what}: " + ", ".join(f"{n}: {_cut(str(v))}" for n, v in case.outcomes.items())
            yield f"    input: {_cut(case.example.agent_input)}"
            yield f"    output: {_cut(case.example.agent_output)}"

    def _clause_lines(self) -> Iterator[str]:
        if self.clauses:
            yield "sentences of the request, their lines in the program, and the examples that run these:"
        for row in self.clauses:
            lines, examples = _ranges(row.lines) or "none", len(row.examples)
            yield f"  {row.clause}. {_cut(row.text, 100)}: lines {lines}, {examples} examples"


class NotCompiledError(GuardError):
    """No candidate passed its tests; `report` holds the failures."""

    def __init__(self, report: CompileReport) -> None:
        super().__init__(f"no program passed its tests, so nothing was compiled\n{report.to_text()}".rstrip())
        self.report = report


def _failures(failures: Sequence[Failure]) -> Iterator[str]:
    for failure in failures[:_SHOWN]:
        where = f"{failure.example.id} ({failure.note})" if failure.note else failure.example.id
        yield f"    {where}: expected {failure.expected}, got {_cut(failure.actual)}"
    if len(failures) > _SHOWN:
        yield f"    … and {len(failures) - _SHOWN} more"


def _cut(text: str, most: int = _CUT) -> str:
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _ranges(lines: Sequence[int]) -> str:
    """Formats line numbers, with consecutive ones as a range such as 3-7."""
    runs: list[list[int]] = []
    for line in lines:
        if runs and line == runs[-1][1] + 1:
            runs[-1][1] = line
        else:
            runs.append([line, line])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def _counted(number: int, thing: str) -> str:
    return f"{number} {thing}{'s' * (number != 1)}"
