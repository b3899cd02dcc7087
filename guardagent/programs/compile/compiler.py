"""Compiles a guard request: writes candidates, chooses among those that pass, builds the file and the report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from guardagent._support.execution import deny_on_crash, fold
from guardagent._support.files import save_text
from guardagent.errors import InputError, ModelError
from guardagent.models import model_name
from guardagent.programs.compile import transformations
from guardagent.programs.compile.candidate import Candidate, CompileContext
from guardagent.programs.compile.candidate import hold_out as divided
from guardagent.programs.compile.examples import CompileTarget, Example, digest_of_examples, read_examples
from guardagent.programs.compile.findings import CoverageAnalysis
from guardagent.programs.compile.replies import disagreements, most_cautious, resolve_disputes
from guardagent.programs.compile.report import CompileReport
from guardagent.programs.compile.suite import INPUTS, Suite
from guardagent.programs.compile.trial import Trial
from guardagent.programs.program import program_check
from guardagent.programs.program_file import ExampleEvidence, Header, header_of, write
from guardagent.sandbox import Sandbox
from guardagent.types import Check, Context, Event, Verdict

_MOST_HELD_OUT = 0.5


@dataclass(frozen=True)
class CompiledProgram:
    """A program that passed all tests: a reusable Check that calls no model.

    Attributes:
        source: the text of its file, with the header.
        report: the tests that it passed, and findings for review.
    """

    source: str
    header: Header
    report: CompileReport
    sandbox: Sandbox

    def guard(self, input: str, output_log: str, facts: Mapping[str, Any] | None = None) -> Verdict:  # noqa: A002
        """Judges one run, including the required checks of the specification."""
        return self(Event("agent_run", args={"input": input}, output=output_log), Context(facts=facts or {}))

    def __call__(self, event: Event, context: Context) -> Verdict:
        return self._check(event, context)

    @cached_property
    def _check(self) -> Check:
        target = self.report.suite.target
        return deny_on_crash(fold([program_check(self.source, self.sandbox, target.toolbox), *target.required_checks]))

    def save(self, path: Path | str) -> None:
        """Writes the program's file atomically."""
        save_text(path, self.source)


@dataclass(frozen=True)
class Compilation:
    """The result of compiling: the report, and the program if one passed."""

    report: CompileReport
    program: CompiledProgram | None


def compile_program(
    target: CompileTarget,
    examples: Path | str | Iterable[Example | Mapping[str, Any]],
    context: CompileContext,
    *,
    candidates: int = 1,
    rounds: int = 3,
    without: Iterable[str] = (),
    inputs: int = INPUTS,
    accept_disputes: Iterable[str] = (),
    properties: bool = True,
    hold_out: float | None = None,
) -> Compilation:
    """Has a model write programs, and tests each until it passes everything or the rounds are over.

    Args:
        target: the guard request with its specification and toolbox.
        examples: labelled runs with both labels among them.
        context: the model, the sandbox, the templates.
        candidates: how many programs are written and compared.
        rounds: how often a failing candidate goes back to the model.
        without: transformations to exclude because their change matters to this request.
        inputs: how many random runs, derived from the examples, test the properties; 0 for none.
        accept_disputes: the ids of disputes in which the model is right; these examples and sentences are excluded.
        properties: whether each clause must have a property, or a reason for having none.
        hold_out: the share of the examples that only judge the program at the end; None for a fifth of 20 or more.

    Raises:
        InputError: an option or an example is invalid.
        ModelError: the model did not answer, and no earlier candidate had passed.
        SandboxError: the sandbox does not work on this machine.
    """
    suite = _suite_of(target, examples, without, accept_disputes)
    suite = replace(suite, inputs=inputs, needs_properties=properties)
    if candidates < 1 or rounds < 0 or inputs < 0:
        counts = f"candidates is {candidates}, rounds {rounds} and inputs {inputs}"
        raise InputError(f"{counts}; expected at least 1, 0 and 0")
    if hold_out is not None and not 0 <= hold_out <= _MOST_HELD_OUT:
        raise InputError(f"the share held out is {hold_out}; expected 0 to {_MOST_HELD_OUT}")
    shown, held_out = divided(suite.examples, hold_out)
    suite = replace(suite, examples=shown, held_out=tuple(held_out))
    written = _write_candidates(suite, context, candidates, rounds)
    passed = {
        candidate.number: Trial(candidate.last.program, context.sandbox, target.toolbox)
        for candidate in written
        if candidate.last.passed
    }
    disputed = disagreements(passed, suite)
    if not passed:
        return Compilation(_failure_report(suite, written, context), None)
    number = most_cautious(list(passed), disputed)
    chosen = next(candidate for candidate in written if candidate.number == number)
    header = _header(passed[number].program, suite, context)
    source = write(passed[number].program, header)
    offset = source.count("\n") - _lines(passed[number].program)
    reading = CoverageAnalysis.of(passed[number], suite, offset)
    report = CompileReport(
        suite,
        passed=True,
        candidates=written,
        chosen=number,
        outcomes=dict(reading.outcomes) | {each.id: passed[number].outcome(each) for each in suite.held_out},
        clauses=reading.clauses(),
        findings=[*reading.findings(), *chosen.findings()],
        disagreements=disputed,
        usage=context.meter.usage,
    )
    return Compilation(report, CompiledProgram(source, header, report, context.sandbox))


def _suite_of(
    target: CompileTarget,
    examples: Path | str | Iterable[Example | Mapping[str, Any]],
    without: Iterable[str],
    accept_disputes: Iterable[str],
) -> Suite:
    left_out = frozenset(without)
    transformations.load(left_out)
    if not any(name.startswith("check_") for name in target.toolbox):
        raise InputError(
            "the toolbox has no check_… function; expected at least one, since a program must call one to allow"
        )
    _ = target.toolbox.functions  # loads the toolbox, so that an error shows here and not in a test
    kept, aside, undecidable = resolve_disputes(accept_disputes, read_examples(examples), target.clauses)
    names = tuple(aside_example.id for aside_example in aside)
    suite = Suite(target, read_examples(kept), left_out, set_aside=names, undecidable=undecidable)
    for example in suite.examples:
        if odd := set(example.clauses) - {clause.number for clause in target.clauses}:
            expected = f"numbers from 1 to {len(target.clauses)}"
            raise InputError(
                f"example {example.id!r}: key 'clauses' has the unknown sentence {min(odd)}; expected {expected}"
            )
        if example.label == 0 and suite.must_deny(example):
            raise InputError(
                f"example {example.id!r} has label 0, but a required check of the specification denies it; expected "
                "label 1, or a change of the check"
            )
    return suite


def _write_candidates(suite: Suite, context: CompileContext, candidates: int, rounds: int) -> list[Candidate]:
    attempts: list[Candidate] = []
    for number in range(1, candidates + 1):
        candidate = Candidate(number, suite, context, rounds)
        try:
            candidate.write()
        except ModelError:
            if not any(attempt.last.passed for attempt in attempts):
                raise
            break
        attempts.append(candidate)
    return attempts


def _failure_report(suite: Suite, candidates: Sequence[Candidate], context: CompileContext) -> CompileReport:
    report = CompileReport(suite, passed=False, candidates=candidates, usage=context.meter.usage)
    if report.attempt.results:
        trial = Trial(report.attempt.program, context.sandbox, suite.target.toolbox)
        report.outcomes.update({example.id: trial.outcome(example) for example in suite.examples})
    return report


def _header(program: str, suite: Suite, context: CompileContext) -> Header:
    target, count = suite.target, len(suite.examples)
    proof = ExampleEvidence(digest_of_examples(suite.examples), count, count)
    model = model_name(context.meter.model)
    return header_of(program, target.request, target.whole_specification, target.toolbox, proof, model=model)


def _lines(program: str) -> int:
    return (program.rstrip("\n") + "\n").count("\n")
