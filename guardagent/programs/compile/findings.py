"""What a person should know of a program, and no reason to refuse it: lines that never ran, sentences without code."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, field
from typing import Any

from guardagent._support import syntax
from guardagent.programs.compile.citations import citations_in
from guardagent.programs.compile.clauses import marked_lines
from guardagent.programs.compile.coverage import statement_lines
from guardagent.programs.compile.examinations import Failure
from guardagent.programs.compile.suite import Suite
from guardagent.programs.compile.trial import RunOutcome, Trial

_CITATION_LENGTH = 20  # characters of an example that a program may hold by chance


@dataclass(frozen=True, slots=True)
class ProgramFinding:
    """One of them.

    Attributes:
        kind: `unexecuted` (a line that no example runs), `uncovered` (a sentence that no code is for), `unreached`
            (code for a sentence that no example runs), `undecided` (an example that is denied because the program could
            not decide), `quoted` (words of one example in the program), `unmeasured` (nothing told which lines run),
            `skipped` (a transformation left out), `unchecked` (a clause or a test that nothing was tried for),
            `changed` (a property that the model wrote anew), `context` (a sentence that the model took for no rule),
            `unparsed` (a regular expression where a parser is there); of a divided request also `unexercised` (a part
            that denies no example), `undivided` (why it stayed whole).
    """

    kind: str
    message: str
    line: int | None = None
    clause: int | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class ClauseCoverage:
    """A sentence of the request, the lines of code for it, and the examples that run any of them."""

    clause: int
    text: str
    lines: tuple[int, ...]
    examples: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            "clause": self.clause,
            "text": self.text,
            "lines": list(self.lines),
            "examples": list(self.examples),
        }


@dataclass(frozen=True, slots=True)
class PartReport:
    """A part of a divided request: what it was when it was last tried alone, and the examples that it denies."""

    name: str
    clauses: tuple[int, ...]
    passed: bool
    versions: int
    problems: Sequence[str]
    failures: Sequence[Failure]
    denies: Sequence[str]

    def to_dict(self) -> dict[str, Any]:
        return {
            "clauses": list(self.clauses),
            "passed": self.passed,
            "versions": self.versions,
            "problems": list(self.problems),
            "failures": [failure.to_dict() for failure in self.failures],
            "denies": list(self.denies),
        }


@dataclass(frozen=True, slots=True)
class ProgramLayout:
    """What is known of a program's lines without its comments.

    Attributes:
        around: lines that the host wrote: not for an example to run.
        clauses: clause -> the lines that are for it, where a comment need not say so.
        context: the clauses that need no code of their own.
    """

    host_lines: frozenset[int] = frozenset()
    clauses: Mapping[int, frozenset[int]] = field(default_factory=dict)
    context: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class CoverageAnalysis:
    """A program, read together with what the examples run of it. `offset`: lines that the file has above it."""

    trial: Trial
    suite: Suite
    lines_run: Mapping[str, frozenset[int]]
    outcomes: Mapping[str, RunOutcome]
    offset: int = 0
    layout: ProgramLayout = field(default_factory=ProgramLayout)

    @classmethod
    def of(cls, trial: Trial, suite: Suite, offset: int = 0, layout: ProgramLayout | None = None) -> CoverageAnalysis:
        ran = {example.id: trial.lines_run(example) for example in suite.examples}
        outcomes = {example.id: trial.outcome(example) for example in suite.examples}
        return cls(trial, suite, ran, outcomes, offset, layout or ProgramLayout())

    def clauses(self) -> list[ClauseCoverage]:
        """The table of the request's sentences."""
        marked, program = marked_lines(self.trial.program), self.trial.program
        starts = _starts(program)
        rows = []
        for clause in self.suite.target.clauses:
            lines, own = marked.get(clause.number, set()), self.layout.clauses.get(clause.number, frozenset())
            lines |= own if lines.isdisjoint(own) else set()  # another part may name the sentence too
            first = {starts[line] for line in lines if line in starts}
            rows.append(ClauseCoverage(clause.number, clause.text, self._shifted(lines), self._running(first)))
        return rows

    def findings(self) -> list[ProgramFinding]:
        return [*self._unexecuted(), *self._of_clauses(), *self._undecided(), *self._quoted(), *self._skipped()]

    def _running(self, lines: AbstractSet[int]) -> tuple[str, ...]:
        """The examples that run any of these lines. What stands outside of functions always runs."""
        inside = set(statement_lines(self.trial.program))
        always = bool(lines - inside)
        return tuple(example.id for example in self.suite.examples if always or lines & self.lines_run[example.id])

    def _shifted(self, lines: AbstractSet[int]) -> tuple[int, ...]:
        return tuple(sorted(line + self.offset for line in lines))

    def _unexecuted(self) -> Iterator[ProgramFinding]:
        ran = frozenset[int]().union(*self.lines_run.values())
        if not ran:
            yield ProgramFinding("unmeasured", "which lines run could not be measured: none told")
            return
        code = self.trial.program.split("\n")
        for line in sorted(set(statement_lines(self.trial.program)) - ran - self.layout.host_lines):
            yield ProgramFinding("unexecuted", f"no example runs: {code[line - 1].strip()}", line + self.offset)

    def _of_clauses(self) -> Iterator[ProgramFinding]:
        for row in self.clauses():
            if not row.lines and row.clause not in self.layout.context:
                yield ProgramFinding("uncovered", f"no code says that it is for: {row.text}", clause=row.clause)
            elif row.lines and not row.examples:
                yield ProgramFinding("unreached", f"no example runs the code for: {row.text}", row.lines[0], row.clause)

    def _undecided(self) -> Iterator[ProgramFinding]:
        for name, outcome in self.outcomes.items():
            if outcome.undecided:
                yield ProgramFinding(
                    "undecided", f"{name} is denied because it could not be decided: {outcome.undecided}"
                )

    def _quoted(self) -> Iterator[ProgramFinding]:
        """Words of a single example are a sign that the program knows it by heart."""
        for node, text, example in citations_in(syntax.parse(self.trial.program), self.suite, _CITATION_LENGTH):
            message = f"these words stand in example {example.id} alone: {text[:60]!r}"
            yield ProgramFinding("quoted", message, node.lineno + self.offset)

    def _skipped(self) -> Iterator[ProgramFinding]:
        for name in sorted(self.suite.excluded):
            yield ProgramFinding("skipped", f"the transformation {name!r} was left out")


def _starts(program: str) -> dict[int, int]:
    """Line -> the line on which the innermost statement that it belongs to begins."""
    found: dict[int, int] = {}
    statements = [node for node in ast.walk(syntax.parse(program)) if isinstance(node, ast.stmt)]
    for node in sorted(statements, key=lambda node: (node.lineno, -(node.end_lineno or 0))):
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
            found[line] = node.lineno
    return found
