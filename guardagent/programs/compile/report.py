"""The report of a compilation, as text and as a dict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from guardagent.errors import GuardError
from guardagent.programs.compile.candidate import Attempt, Candidate
from guardagent.programs.compile.findings import ClauseCoverage, ProgramFinding
from guardagent.programs.compile.replies import CandidateDisagreement, Dispute, FunctionProposal
from guardagent.programs.compile.suite import Failure, Suite
from guardagent.programs.compile.trial import RunOutcome
from guardagent.types import Usage

_SHOWN = 10  # rows of each kind in the text
_CUT = 300


@dataclass(frozen=True, slots=True)
class CompileReport:
    """The report on compiling one program.

    Attributes:
        passed: whether a program passed everything.
        outcomes: example id -> outcome of the chosen program; of the last one that ran if none passed.
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

    def to_dict(self) -> dict[str, Any]:
        return {
            "passed": self.passed,
            "agent": self.suite.target.name or None,
            "chosen": self.chosen or None,
            "problems": self.attempt.problems,
            "examples": [self._row(example.id, example.label) for example in self.suite.examples],
            "tests": [tried.to_dict() for tried in self.attempt.results],
            "proposals": [asdict(proposal) for proposal in self.proposals],
            "disputes": [asdict(dispute) for dispute in self.disputes],
            "set_aside": self._set_aside,
            "properties": self.attempt.properties.source or None,
            "clauses": [row.to_dict() for row in self.clauses],
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
        for tried in self.attempt.results:
            yield f"  {tried.runs - len(tried.failures):>6} of {tried.runs:<6} {tried.name}: {tried.about}"
            if tried.missing:
                yield f"    missing: {_cut(tried.missing)}"
            yield from _failures(tried.failures)

    def _example_lines(self) -> Iterator[str]:
        yield "examples with expected and actual label:"
        for example in self.suite.examples:
            outcome = self.outcomes.get(example.id)
            yield f"  {example.id}: {example.label}, {_cut(str(outcome)) if outcome else 'not run'}"

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
