"""The claims of properties about runs, compared with the outcomes of a program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from guardagent.errors import LimitError, ProgramError
from guardagent.programs.compile._properties.source import FAILED, Properties
from guardagent.programs.compile.examinations_base import Failure
from guardagent.programs.compile.examples import Example
from guardagent.programs.compile.suite import Suite
from guardagent.programs.compile.trial import RunOutcome, Trial

CLAIMS = ("deny", "allow")


@dataclass(slots=True)
class ClaimCounts:
    """The number of runs per claim of one clause's property."""

    claims: Counter[str] = field(default_factory=Counter)

    @property
    def runs(self) -> int:
        return sum(self.claims[claim] for claim in CLAIMS)

    def __str__(self) -> str:
        return ", ".join(f"{claim} {self.claims[claim]} times" for claim in CLAIMS)


class PropertyChecker:
    """Evaluates the properties and the program on runs, each run once.

    Attributes:
        counts: clause -> the counts of its property's claims.
        runs: the number of distinct runs.
    """

    def __init__(self, trial: Trial, properties: Properties, suite: Suite) -> None:
        self._trial, self._properties, self._suite = trial, properties, suite
        self._known: dict[str, dict[int, Failure]] = {}
        self._claims: dict[str, dict[int, str]] = {}
        self.counts = {number: ClaimCounts() for number in properties.numbers}

    @property
    def runs(self) -> int:
        return len(self._known)

    def failures(self, example: Example, note: str, *, labelled: bool = False) -> Mapping[int, Failure]:
        """Returns clause -> failure of the program, or of the property, on a run.

        Args:
            example: the run.
            note: how the run was derived from an example.
            labelled: whether the label is known; it then tests the property instead of the program.

        Raises:
            SandboxError: the sandbox does not work on this machine.
        """
        if example.run not in self._known:
            self._known[example.run] = self._check(example, note, labelled=labelled)
        return self._known[example.run]

    def prepare(self, examples: Sequence[Example]) -> None:
        """Evaluates the properties on several runs at once, for speed only."""
        new = {one.run: one for one in examples if one.run not in self._claims and "now" not in one.facts}
        returned = self._trial.return_values(self._properties.program_of_many, list(new.values()))
        for run, claims in zip(new, returned, strict=False):
            self._claims[run] = self._read(claims)

    def _check(self, example: Example, note: str, *, labelled: bool) -> dict[int, Failure]:
        by_clause = self._claims_of(example)
        for number, claim in by_clause.items():
            self.counts[number].claims[claim] += 1
        denied = "deny" in by_clause.values()
        claims = {
            n: c for n, c in by_clause.items() if c == "deny" or c.startswith(FAILED) or (c == "allow" and not denied)
        }
        if not claims:
            return {}
        outcome = RunOutcome(example.label) if labelled else self._trial.outcome(example)
        result = {n: self._failure(n, claim, outcome, example, note, labelled) for n, claim in claims.items()}
        return {number: failure for number, failure in result.items() if failure}

    def _failure(
        self,
        number: int,
        claim: str,
        outcome: RunOutcome,
        example: Example,
        note: str,
        labelled: bool,  # noqa: FBT001
    ) -> Failure | None:
        name = f"property_{number}"
        says = f"{name} says {claim}{f'; {note}' if note else ''}"
        if claim.startswith(FAILED):
            return Failure(name, example, note, "deny, allow or None", f"{name} {claim}")
        if _is_satisfied(claim, outcome):
            return None
        if labelled:
            return Failure(name, example, note, f"a claim that agrees with label {example.label}", says)
        if claim == "allow" and self._suite.must_deny(example):
            return None
        expected = "label 1" if claim == "deny" else "label 0, or undecided"
        return Failure(name, example, says, expected, str(outcome))

    def _claims_of(self, example: Example) -> dict[int, str]:
        """Returns clause -> the claim of its property: deny, allow, an empty string for None, or why it failed."""
        if example.run in self._claims:
            return self._claims[example.run]
        try:
            return self._read(self._trial.return_value(self._properties.program, example))
        except (ProgramError, LimitError) as error:
            return dict.fromkeys(self._properties.numbers, f"{FAILED}{error}")

    def _read(self, returned: object) -> dict[int, str]:
        return {number: _claim(returned, number) for number in self._properties.numbers}


def _is_satisfied(claim: str, outcome: RunOutcome) -> bool:
    if claim == "deny":
        return outcome.label == 1
    return outcome.label == 0 or bool(outcome.undecided)


def _claim(returned: object, number: int) -> str:
    claim = returned.get(str(number)) if isinstance(returned, Mapping) else None
    if claim is None or (isinstance(claim, str) and (claim in CLAIMS or claim.startswith(FAILED))):
        return claim or ""
    return f"{FAILED}it returned {claim!r}"[:200]
