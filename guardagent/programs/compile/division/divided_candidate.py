"""A candidate for a divided request: each part is written and tried alone, then all of them together."""

from __future__ import annotations

from dataclasses import replace

from guardagent.programs.compile.candidate import Attempt, Candidate
from guardagent.programs.compile.context import CompileContext
from guardagent.programs.compile.disputes import Dispute
from guardagent.programs.compile.division.fault_localization import parts_at_fault
from guardagent.programs.compile.division.folding import fold_programs, fold_properties
from guardagent.programs.compile.division.part_candidate import PartCandidate
from guardagent.programs.compile.division.partition import Division
from guardagent.programs.compile.examinations import Failure
from guardagent.programs.compile.findings import PartReport, ProgramFinding, ProgramLayout
from guardagent.programs.compile.suite import Suite

_MOST_FAILURES = 40  # of which each is asked of every part


class DividedCandidate(Candidate):
    """Its attempts are versions of the whole program; those of its parts stand with these.

    Where a part never passes alone there is no whole program, and the last attempt says which part it was.
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
        """Has each part written, and goes back to those at fault while the whole program does not pass.

        Raises:
            ModelError: the model did not answer.
            SandboxError: the sandbox itself does not work here.
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
        """What a person should know of the division, too."""
        why = "the model took this sentence for context, which sets no rule; no part was written for it: "
        found = [ProgramFinding("context", why + one.text, clause=one.number) for one in self._division.context]
        for row in self.rows():
            if not row.denies:
                message = f"no example is denied by the code for {row.name}: write one that is"
                found.append(ProgramFinding("unexercised", message, clause=row.clauses[0]))
        return [*super().findings(), *found]

    def rows(self) -> list[PartReport]:
        return [part.row() for part in self._written_parts]

    @property
    def _written_parts(self) -> list[PartCandidate]:
        return [part for part in self._parts if part.attempts]

    def _write_part(self, part: PartCandidate) -> bool:
        """Whether a part gets written; if not, this is where it ends."""
        part.write()
        return self._require_passed(part)

    def _require_passed(self, part: PartCandidate) -> bool:
        if part.last.passed:
            return True
        why = f"the code for {part.part.name} did not pass alone ({part.last.summary}), so nothing was folded"
        self.stopped = part.stopped
        self.attempts.append(Attempt(problems=[why], proposal=part.last.proposal))
        return False

    def _mend(self) -> bool:
        """Asks the parts at fault again; whether there are any, and all of them pass alone then."""
        blamed = [part for part in self._parts if not part.last.passed]
        for part in blamed:
            part.mend()
            if not self._require_passed(part):
                return False
        return bool(blamed)

    def _blame(self) -> None:
        """Tells the parts at fault what the whole program got wrong."""
        for part, failures in self._faults().items():
            part.blame(failures)

    def _faults(self) -> dict[PartCandidate, list[Failure]]:
        """The parts at fault, with what each is at fault for."""
        found: dict[PartCandidate, list[Failure]] = {}
        for failure in self.last.failures[:_MOST_FAILURES]:
            for part in parts_at_fault(failure, self._parts, self._suite):
                found.setdefault(part, []).append(failure)
        return found

    def _fold(self) -> Attempt:
        """All parts together, tried as any program is."""
        properties = fold_properties({one.part: one.last.properties for one in self._parts})
        folded = fold_programs({one.part: one.last.program for one in self._parts}, self._suite.target.toolbox)
        if problems := [*self._problems(folded.source), *self._wrong_properties(properties)]:
            return Attempt(folded.source, problems, properties=properties)
        single = {part.numbers[0]: frozenset(lines) for part, lines in folded.lines.items() if len(part.numbers) == 1}
        self.layout = ProgramLayout(folded.host_lines, single, frozenset(one.number for one in self._division.context))
        return self._examine(folded.source, properties)
