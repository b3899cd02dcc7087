"""Findings on a program for review, none of which fails it: lines that never ran, sentences without code."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from guardagent._support import syntax
from guardagent.programs.compile.request import marked_lines
from guardagent.programs.compile.suite import Suite, citations_in
from guardagent.programs.compile.trial import RunOutcome, Trial, statement_lines

_CITATION_LENGTH = 20  # characters; shorter matches may be chance


@dataclass(frozen=True, slots=True)
class ProgramFinding:
    """One finding.

    Attributes:
        kind: `unexecuted` (a line that no example runs), `uncovered` (a sentence without code), `unreached` (code for a
            sentence that no example runs), `undecided` (an example denied because the program could not decide),
            `quoted` (words of one example in the program), `unmeasured` (no line coverage), `skipped` (an excluded
            transformation), `unchecked` (a clause or test without any run), `changed` (a property that the model
            rewrote), `context` (a sentence that sets no rule, according to the model), `unparsed` (a regular expression
            although a parser exists).
    """

    kind: str
    message: str
    line: int | None = None
    clause: int | None = None


@dataclass(frozen=True, slots=True)
class ClauseCoverage:
    """A sentence of the request, its lines of code, and the examples that run any of these lines."""

    clause: int
    text: str
    lines: tuple[int, ...]
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CoverageAnalysis:
    """Relates a program to the lines that the examples run. `offset`: the number of lines above it in the file."""

    trial: Trial
    suite: Suite
    lines_run: Mapping[str, frozenset[int]]
    outcomes: Mapping[str, RunOutcome]
    offset: int = 0

    @classmethod
    def of(cls, trial: Trial, suite: Suite, offset: int = 0) -> CoverageAnalysis:
        ran = {example.id: trial.lines_run(example) for example in suite.examples}
        outcomes = {example.id: trial.outcome(example) for example in suite.examples}
        return cls(trial, suite, ran, outcomes, offset)

    def clauses(self) -> list[ClauseCoverage]:
        """Returns the coverage of each sentence of the request."""
        marked, program = marked_lines(self.trial.program), self.trial.program
        starts = _starts(program)
        rows = []
        for clause in self.suite.target.clauses:
            lines = marked.get(clause.number, set())
            first = {starts[line] for line in lines if line in starts}
            rows.append(ClauseCoverage(clause.number, clause.text, self._shifted(lines), self._running(first)))
        return rows

    def findings(self) -> list[ProgramFinding]:
        return [*self._unexecuted(), *self._of_clauses(), *self._undecided(), *self._quoted(), *self._skipped()]

    def _running(self, lines: AbstractSet[int]) -> tuple[str, ...]:
        """Returns the examples that run any of these lines. Lines outside functions always run."""
        inside = set(statement_lines(self.trial.program))
        always = bool(lines - inside)
        return tuple(example.id for example in self.suite.examples if always or lines & self.lines_run[example.id])

    def _shifted(self, lines: AbstractSet[int]) -> tuple[int, ...]:
        return tuple(sorted(line + self.offset for line in lines))

    def _unexecuted(self) -> Iterator[ProgramFinding]:
        ran = frozenset[int]().union(*self.lines_run.values())
        if not ran:
            yield ProgramFinding("unmeasured", "line coverage could not be measured: no example reported a line")
            return
        code = self.trial.program.split("\n")
        for line in sorted(set(statement_lines(self.trial.program)) - ran):
            yield ProgramFinding(
                "unexecuted", f"no example runs this line: {code[line - 1].strip()}", line + self.offset
            )

    def _of_clauses(self) -> Iterator[ProgramFinding]:
        for row in self.clauses():
            if not row.lines:
                yield ProgramFinding("uncovered", f"no code is marked with the sentence: {row.text}", clause=row.clause)
            elif row.lines and not row.examples:
                yield ProgramFinding(
                    "unreached", f"no example runs the code for the sentence: {row.text}", row.lines[0], row.clause
                )

    def _undecided(self) -> Iterator[ProgramFinding]:
        for name, outcome in self.outcomes.items():
            if outcome.undecided:
                yield ProgramFinding(
                    "undecided", f"example {name!r} is denied because the program could not decide: {outcome.undecided}"
                )

    def _quoted(self) -> Iterator[ProgramFinding]:
        """Yields literals from a single example, a sign of memorization."""
        for node, text, example in citations_in(syntax.parse(self.trial.program), self.suite, _CITATION_LENGTH):
            message = f"these words occur in example {example.id!r} only: {text[:60]!r}"
            yield ProgramFinding("quoted", message, node.lineno + self.offset)

    def _skipped(self) -> Iterator[ProgramFinding]:
        for name in sorted(self.suite.excluded):
            yield ProgramFinding("skipped", f"the transformation {name!r} was excluded")


def _starts(program: str) -> dict[int, int]:
    """Returns line -> first line of the innermost statement around it."""
    first_lines: dict[int, int] = {}
    statements = [node for node in ast.walk(syntax.parse(program)) if isinstance(node, ast.stmt)]
    for node in sorted(statements, key=lambda node: (node.lineno, -(node.end_lineno or 0))):
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
            first_lines[line] = node.lineno
    return first_lines
