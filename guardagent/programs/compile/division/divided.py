"""A candidate for a divided request: each part is written and tried alone, then all of them together."""

from __future__ import annotations

from dataclasses import replace

from guardagent.programs.compile.candidate import Attempt, Candidate
from guardagent.programs.compile.disputes import Dispute
from guardagent.programs.compile.division.faults import at_fault
from guardagent.programs.compile.division.folding import fold_programs, fold_properties
from guardagent.programs.compile.division.part import PartProgram
from guardagent.programs.compile.division.parts import Division
from guardagent.programs.compile.examinations import Failure
from guardagent.programs.compile.findings import Finding, Layout, PartRow
from guardagent.programs.compile.means import Means
from guardagent.programs.compile.world import World

_MOST_FAILURES = 40  # of which each is asked of every part


class Divided(Candidate):
    """Its attempts are versions of the whole program; those of its parts stand with these.

    Where a part never passes alone there is no whole program, and the last attempt says which part it was.
    """

    def __init__(self, number: int, division: Division, world: World, means: Means, rounds: int) -> None:
        ruling = tuple(clause for part in division.parts for clause in part.numbers)
        super().__init__(number, replace(world, ruling=ruling), means, rounds)
        self._parts = [
            PartProgram(number, part, division, world, means, rounds, self._functions) for part in division.parts
        ]
        self._division = division

    @property
    def disputes(self) -> list[Dispute]:
        return [dispute for part in self._parts for dispute in part.disputes]

    @property
    def changed_properties(self) -> list[int]:
        return sorted(number for part in self._written for number in part.changed_properties)

    def write(self) -> None:
        """Has each part written, and goes back to those at fault while the whole program does not pass.

        Raises:
            ModelError: the model did not answer.
            SandboxError: the sandbox itself does not work here.
        """
        if not all(self._passes(part) for part in self._parts):
            return
        for left in range(self._rounds, -1, -1):
            self.attempts.append(self._folded())
            self._means.tell(f"{self._name}, all parts together: {self.last.summary}")
            if self.last.passed:
                return
            self._blame()
            if not left or not self._mended():
                return

    def findings(self) -> list[Finding]:
        """What a person should know of the division, too."""
        why = "the model took this sentence for context, which sets no rule; no part was written for it: "
        found = [Finding("context", why + one.text, clause=one.number) for one in self._division.context]
        for row in self.rows():
            if not row.denies:
                message = f"no example is denied by the code for {row.name}: write one that is"
                found.append(Finding("unexercised", message, clause=row.clauses[0]))
        return [*super().findings(), *found]

    def rows(self) -> list[PartRow]:
        return [part.row() for part in self._written]

    @property
    def _written(self) -> list[PartProgram]:
        return [part for part in self._parts if part.attempts]

    def _passes(self, part: PartProgram) -> bool:
        """Whether a part gets written; if not, this is where it ends."""
        part.write()
        return self._stands(part)

    def _stands(self, part: PartProgram) -> bool:
        if part.last.passed:
            return True
        why = f"the code for {part.part.name} did not pass alone ({part.last.summary}), so nothing was folded"
        self.stopped = part.stopped
        self.attempts.append(Attempt(problems=[why], proposal=part.last.proposal))
        return False

    def _mended(self) -> bool:
        """Asks the parts at fault again; whether there are any, and all of them pass alone then."""
        blamed = [part for part in self._parts if not part.last.passed]
        for part in blamed:
            part.mend()
            if not self._stands(part):
                return False
        return bool(blamed)

    def _blame(self) -> None:
        """Tells the parts at fault what the whole program got wrong."""
        for part, failures in self._faults().items():
            part.blame(failures)

    def _faults(self) -> dict[PartProgram, list[Failure]]:
        """The parts at fault, with what each is at fault for."""
        found: dict[PartProgram, list[Failure]] = {}
        for failure in self.last.failures[:_MOST_FAILURES]:
            for part in at_fault(failure, self._parts, self._world):
                found.setdefault(part, []).append(failure)
        return found

    def _folded(self) -> Attempt:
        """All parts together, tried as any program is."""
        properties = fold_properties({one.part: one.last.properties for one in self._parts})
        folded = fold_programs({one.part: one.last.program for one in self._parts}, self._world.subject.toolbox)
        if problems := [*self._problems(folded.source), *self._wrong_properties(properties)]:
            return Attempt(folded.source, problems, properties=properties)
        single = {part.numbers[0]: frozenset(lines) for part, lines in folded.lines.items() if len(part.numbers) == 1}
        self.layout = Layout(folded.around, single, frozenset(one.number for one in self._division.context))
        return self._examined(folded.source, properties)
