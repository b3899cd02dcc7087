"""One version of a program, with its examination results."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from guardagent.programs.compile.examinations_base import ExaminationResult, Failure
from guardagent.programs.compile.replies import Dispute, FunctionProposal
from guardagent.programs.compile.trial import Properties


@dataclass(slots=True)
class Attempt:
    """One version of a candidate's program.

    Attributes:
        problems: the problems that kept it from running.
        results: the results of its examinations.
        properties: the properties that it was examined with.
        proposal: a missing toolbox function that the model proposed instead.
        disputes: the examples and sentences that the model disputes.
    """

    program: str = ""
    problems: list[str] = field(default_factory=list)
    results: list[ExaminationResult] = field(default_factory=list)
    properties: Properties = field(default_factory=Properties)
    proposal: FunctionProposal | None = None
    disputes: list[Dispute] = field(default_factory=list)

    @property
    def failures(self) -> list[Failure]:
        return [failure for tried in self.results for failure in tried.failures]

    @property
    def missing(self) -> list[str]:
        """Missing pieces, independent of any run."""
        return [tried.missing for tried in self.results if tried.missing]

    @property
    def advice(self) -> list[str]:
        """Suggested changes that no failing run supports."""
        return [tried.advice for tried in self.results if tried.advice]

    @property
    def remarks(self) -> list[str]:
        """All feedback for the model except the failing runs."""
        return [*self.problems, *self.missing, *self.advice]

    @property
    def passed(self) -> bool:
        return self._right and not self._skips_clause

    @property
    def needs_decision(self) -> bool:
        """Whether the user has to decide before another version can help."""
        return bool(self.proposal or (self.disputes and not self.program) or (self._right and self._skips_clause))

    @property
    def summary(self) -> str:
        """The outcome in one line."""
        if self.proposal:
            return f"requests a function that the toolbox lacks: {self.proposal.name!r}"
        if self.needs_decision:
            return f"disputes {', '.join(repr(one.id) for one in self.disputes)}"
        if self.problems:
            return f"cannot run: {self.problems[0]}"
        runs = sum(tried.runs for tried in self.results)
        wrong = f"fails {len(self.failures)} of {runs} runs" if self.failures else f"passes all {runs} runs"
        return "; ".join([wrong, *self.missing])

    def to_dict(self) -> dict[str, Any]:
        return {"problems": self.problems, "tried": [{"name": t.name, "failed": len(t.failures)} for t in self.results]}

    @property
    def _right(self) -> bool:
        return bool(self.results) and not (self.problems or self.failures or self.missing)

    @property
    def _skips_clause(self) -> bool:
        """Whether the model disputes a sentence as undecidable, so that the program ignores it."""
        return any(one.clause for one in self.disputes)
