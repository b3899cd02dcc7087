"""One version of a program, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from guardagent.programs.compile.disputes import Dispute
from guardagent.programs.compile.examinations import ExaminationResult, Failure
from guardagent.programs.compile.properties import Properties
from guardagent.programs.compile.proposals import FunctionProposal


@dataclass(slots=True)
class Attempt:
    """One version.

    Attributes:
        problems: why it could not run at all.
        tried: what was tried with it.
        properties: those that it was tried with.
        proposal: a function that the model asks for instead.
        disputes: what the model holds to be wrong about examples or sentences.
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
        """What is missing in it, whatever the runs."""
        return [tried.missing for tried in self.results if tried.missing]

    @property
    def advice(self) -> list[str]:
        """What should be written otherwise, though no run shows it to be wrong."""
        return [tried.advice for tried in self.results if tried.advice]

    @property
    def remarks(self) -> list[str]:
        """What the model has to know besides the runs that are answered wrongly."""
        return [*self.problems, *self.missing, *self.advice]

    @property
    def passed(self) -> bool:
        return self._right and not self._skips_clause

    @property
    def needs_decision(self) -> bool:
        """Whether a person has to decide before another version helps."""
        return bool(self.proposal or (self.disputes and not self.program) or (self._right and self._skips_clause))

    @property
    def summary(self) -> str:
        """How it went, in a few words."""
        if self.proposal:
            return f"asks for a function that the toolbox lacks: {self.proposal.name}"
        if self.needs_decision:
            return f"disputes {', '.join(one.id for one in self.disputes)}"
        if self.problems:
            return f"cannot run: {self.problems[0]}"
        runs = sum(tried.runs for tried in self.results)
        wrong = f"{len(self.failures)} of {runs} runs wrong" if self.failures else f"passes all {runs} runs"
        return "; ".join([wrong, *self.missing])

    def to_dict(self) -> dict[str, Any]:
        return {"problems": self.problems, "tried": [{"name": t.name, "failed": len(t.failures)} for t in self.results]}

    @property
    def _right(self) -> bool:
        return bool(self.results) and not (self.problems or self.failures or self.missing)

    @property
    def _skips_clause(self) -> bool:
        """Whether the model says of a sentence that no run tells it: it judges without that sentence."""
        return any(one.clause for one in self.disputes)
