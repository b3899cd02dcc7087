"""Compiles a guard request into a program: candidates, the choice among those that pass, the file and the report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from guardagent._support.files import save_text
from guardagent._support.fold import deny_on_crash, fold
from guardagent.errors import InputError, ModelError
from guardagent.models import model_name
from guardagent.programs.compile import transformations
from guardagent.programs.compile.candidate import Candidate
from guardagent.programs.compile.disagreements import disagreements, most_cautious
from guardagent.programs.compile.disputes import accepted
from guardagent.programs.compile.division import Divided, Division, division_of
from guardagent.programs.compile.examples import Example, digest_of_examples, read_examples
from guardagent.programs.compile.findings import Finding, Reading
from guardagent.programs.compile.means import Means
from guardagent.programs.compile.report import Report
from guardagent.programs.compile.subject import Subject
from guardagent.programs.compile.trial import Trial
from guardagent.programs.compile.world import CROSSHAIR, INPUTS, World
from guardagent.programs.runtime.program import program_check
from guardagent.programs.runtime.program_file import Header, Proof, header_of, write
from guardagent.sandbox import Sandbox
from guardagent.types import Check, Context, Event, Verdict


@dataclass(frozen=True)
class CompiledProgram:
    """A program that passed: a reviewed, reusable checker, which asks no model. It is a Check.

    Attributes:
        source: the text of its file, with its header.
        report: what it was tested with, and what a person should look at.
    """

    source: str
    header: Header
    report: Report
    sandbox: Sandbox

    def guard(self, input: str, output_log: str, facts: Mapping[str, Any] | None = None) -> Verdict:  # noqa: A002
        """Judges one run, with the required checks of the specification."""
        return self(Event("agent_run", args={"input": input}, output=output_log), Context(facts=facts or {}))

    def __call__(self, event: Event, context: Context) -> Verdict:
        return self._check(event, context)

    @cached_property
    def _check(self) -> Check:
        subject = self.report.world.subject
        return deny_on_crash(
            fold([program_check(self.source, self.sandbox, subject.toolbox), *subject.required_checks])
        )

    def save(self, path: Path | str) -> None:
        """Writes the program's file; a crash leaves the old one or the new one."""
        save_text(path, self.source)


@dataclass(frozen=True)
class Compilation:
    """What came of it: the report, and the program where one passed."""

    report: Report
    program: CompiledProgram | None


def compile_program(
    subject: Subject,
    examples: Path | str | Iterable[Example | Mapping[str, Any]],
    means: Means,
    *,
    candidates: int = 1,
    rounds: int = 3,
    without: Iterable[str] = (),
    inputs: int = INPUTS,
    crosshair: float = CROSSHAIR,
    divide: str = "auto",
    accept_disputes: Iterable[str] = (),
    properties: bool = True,
) -> Compilation:
    """Has a model write a program, and tests it until it passes everything or the rounds are over.

    Args:
        subject: the request and what belongs to it.
        examples: labelled runs; both labels must be among them.
        means: the model, the sandbox, the templates.
        candidates: how many programs are written and compared.
        rounds: how often a candidate that fails goes back to the model.
        without: transformations to leave out, where what they change does matter for this request.
        inputs: on how many random runs made of the examples properties are tried; 0 for none.
        crosshair: for how many seconds CrossHair, where it is installed, may look for runs that break one; 0 for none.
        divide: whether the request is compiled in parts: "always", "never", or "auto" where it has many sentences.
        accept_disputes: the ids of disputes in which the model is right: these examples and sentences are left out.
        properties: whether each clause must have a property, or a reason why it has none.

    Raises:
        InputError: an option or an example is wrong.
        ModelError: the model did not answer, and no candidate had passed before.
        SandboxError: the sandbox does not work here.
    """
    world = _world(subject, examples, without, accept_disputes)
    world = replace(world, inputs=inputs, crosshair=crosshair, needs_properties=properties)
    if candidates < 1 or rounds < 0 or inputs < 0:
        given = f"candidates is {candidates}, rounds {rounds} and inputs {inputs}"
        raise InputError(f"{given}; expected at least 1, 0 and 0")
    division = division_of(subject, means, divide, rounds)
    made = _written(world, means, candidates, rounds, division)
    passed = {one.number: Trial(one.last.program, means.sandbox, subject.toolbox) for one in made if one.last.passed}
    in_dispute = disagreements(passed, world)
    if not passed:
        return Compilation(_failed(world, made, means), None)
    number = most_cautious(list(passed), in_dispute)
    chosen = next(one for one in made if one.number == number)
    header = _header(passed[number].program, world, means)
    source = write(passed[number].program, header)
    offset = source.count("\n") - _lines(passed[number].program)
    reading = Reading.of(passed[number], world, offset, chosen.layout)
    report = Report(
        world,
        passed=True,
        candidates=made,
        chosen=number,
        outcomes=dict(reading.outcomes),
        clauses=reading.clauses(),
        findings=[*reading.findings(), *chosen.findings(), *_undivided(division)],
        disagreements=in_dispute,
        parts=chosen.rows(),
        usage=means.meter.usage,
    )
    return Compilation(report, CompiledProgram(source, header, report, means.sandbox))


def _world(
    subject: Subject,
    examples: Path | str | Iterable[Example | Mapping[str, Any]],
    without: Iterable[str],
    accept_disputes: Iterable[str],
) -> World:
    left_out = frozenset(without)
    transformations.load(left_out)
    if not any(name.startswith("check_") for name in subject.toolbox):
        raise InputError(
            "the toolbox has no check_… function; expected one, since a program that calls none never allows"
        )
    _ = subject.toolbox.functions  # a toolbox file that fails must fail now, not in a test
    kept, aside, undecidable = accepted(accept_disputes, read_examples(examples), subject.clauses)
    names = tuple(one.id for one in aside)
    world = World(subject, read_examples(kept), left_out, set_aside=names, undecidable=undecidable)
    for example in world.examples:
        if odd := set(example.clauses) - {clause.number for clause in subject.clauses}:
            expected = f"numbers from 1 to {len(subject.clauses)}"
            raise InputError(
                f"example {example.id!r} breaks sentence {min(odd)}, which is not there; expected {expected}"
            )
        if example.label == 0 and world.must_deny(example):
            raise InputError(
                f"example {example.id!r} has label 0, but a required check of the specification denies it; expected "
                "label 1, or another check"
            )
    return world


def _written(world: World, means: Means, candidates: int, rounds: int, division: Division) -> list[Candidate]:
    made: list[Candidate] = []
    for number in range(1, candidates + 1):
        divided = Divided(number, division, world, means, rounds) if division.parts else None
        candidate = divided or Candidate(number, world, means, rounds)
        try:
            candidate.write()
        except ModelError:
            if not any(one.last.passed for one in made):
                raise
            break
        made.append(candidate)
    return made


def _undivided(division: Division) -> list[Finding]:
    return [Finding("undivided", f"the request stayed whole: {division.undivided}")] if division.undivided else []


def _failed(world: World, made: Sequence[Candidate], means: Means) -> Report:
    report = Report(world, passed=False, candidates=made, usage=means.meter.usage)
    report = replace(report, parts=report.candidate.rows())
    if report.attempt.tried:
        trial = Trial(report.attempt.program, means.sandbox, world.subject.toolbox)
        report.outcomes.update({example.id: trial.outcome(example) for example in world.examples})
    return report


def _header(program: str, world: World, means: Means) -> Header:
    subject, count = world.subject, len(world.examples)
    proof = Proof(digest_of_examples(world.examples), count, count)
    model = model_name(means.meter.model)
    return header_of(program, subject.request, subject.whole_specification, subject.toolbox, proof, model=model)


def _lines(program: str) -> int:
    return (program.rstrip("\n") + "\n").count("\n")
