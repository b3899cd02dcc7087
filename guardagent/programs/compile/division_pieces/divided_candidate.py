"""A candidate for a divided request: each part is written and tested alone, then all parts together."""

from __future__ import annotations

from dataclasses import replace

from guardagent.programs.compile.candidate import Attempt, Candidate
from guardagent.programs.compile.context import CompileContext
from guardagent.programs.compile.division import PartCandidate
from guardagent.programs.compile.division_pieces.fault_localization import parts_at_fault
from guardagent.programs.compile.division_pieces.partition import Division
from guardagent.programs.compile.examinations_base import Failure
from guardagent.programs.compile.findings import PartReport, ProgramFinding, ProgramLayout
from guardagent.programs.compile.folding import fold_programs, fold_properties
from guardagent.programs.compile.replies import Dispute
from guardagent.programs.compile.suite import Suite

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
