"""One candidate: a model plans, writes and repairs a program until it passes, for a bounded number of rounds."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from guardagent.errors import AnswerError
from guardagent.models.prompts import ModelCall
from guardagent.programs.answers import read_code, read_plan
from guardagent.programs.compile.attempt import Attempt
from guardagent.programs.compile.context import CompileContext
from guardagent.programs.compile.examinations import examine
from guardagent.programs.compile.examinations_base import ExaminationResult
from guardagent.programs.compile.examples import Example
from guardagent.programs.compile.findings import PartReport, ProgramFinding, ProgramLayout
from guardagent.programs.compile.prompt_data import (
    example_data,
    explanation,
    failure_places,
    failures_data,
    hidden_failures,
    shown_failures,
)
from guardagent.programs.compile.replies import Dispute, read_disputes, read_proposal
from guardagent.programs.compile.selection import choose_examples
from guardagent.programs.compile.suite import Suite
from guardagent.programs.compile.trial import Properties, Trial, problems_of, read_properties, without_header
from guardagent.programs.generation_pieces.relevance import FunctionSelection, select

__all__ = ["Attempt", "Candidate"]

_TEMPERATURE = 0.7  # for the candidates after the first, so that they differ


class _RepeatedPromptError(Exception):
    """The next prompt equals one that was already sent."""


class Candidate:
    """One of the programs that a model writes for a compile target.

    Attributes:
        attempts: the versions, oldest first.
        layout: the lines whose origin is known without comments.
        stopped: the reason for stopping before the last round; empty otherwise.
    """

    def __init__(self, number: int, suite: Suite, context: CompileContext, rounds: int) -> None:
        self.number = number
        self.attempts: list[Attempt] = []
        self.layout = ProgramLayout()
        self.stopped = ""
        self._suite = suite
        self._context = context
        self._rounds = rounds
        self._functions = _functions_for(suite, context)
        self._explanation = ""  # from the last answer
        self._sent: set[str] = set()  # the prompts so far
        self._results: dict[tuple[str, Properties], list[ExaminationResult]] = {}

    @property
    def last(self) -> Attempt:
        return self.attempts[-1]

    @property
    def disputes(self) -> list[Dispute]:
        """The disputes of all versions."""
        return [dispute for attempt in self.attempts for dispute in attempt.disputes]

    @property
    def changed_properties(self) -> list[int]:
        """The clauses whose property changed between versions: the model may have corrected or weakened it."""
        versions = [attempt.properties for attempt in self.attempts]
        return [
            number
            for number in self.last.properties.numbers
            if len({text for one in versions if (text := one.text_of(number))}) > 1
        ]

    def findings(self) -> list[ProgramFinding]:
        """Returns findings about the writing: tests that did not run, and properties that changed."""
        found = [ProgramFinding("unchecked", tried.unchecked) for tried in self.last.results if tried.unchecked]
        found += [ProgramFinding("unparsed", advice) for advice in self.last.advice]
        sets_no_rule = "the model claims that this sentence sets no rule: "
        idle = self.last.properties.no_rule_reasons.items()
        found += [ProgramFinding("context", sets_no_rule + reason, clause=number) for number, reason in idle if reason]
        why = "the model changed this property after its first version; review it"
        return [*found, *(ProgramFinding("changed", why, clause=number) for number in self.changed_properties)]

    def rows(self) -> list[PartReport]:
        """Returns a row per part of a divided request; empty otherwise."""
        return []

    def to_dict(self) -> dict[str, Any]:
        rounds = [one.to_dict() for one in self.attempts]
        return {"number": self.number, "passed": self.last.passed, "stopped": self.stopped or None, "rounds": rounds}

    def write(self) -> None:
        """Has the model write a program, and repair it until it passes or the rounds are over.

        Raises:
            ModelError: the model did not answer.
            SandboxError: the sandbox itself does not work here.
        """
        plan, answer = self._plan()
        self._write(plan, answer)

    def _write(self, plan: str = "", answer: str = "") -> None:
        for _ in range(1 + self._rounds):
            try:
                self.attempts.append(self._attempt(plan, answer))
            except _RepeatedPromptError:
                self.stopped = "the next prompt would repeat one that the model has already answered"
                break
            answer = ""
            self._context.progress(f"{self._name}, version {len(self.attempts)}: {self.last.summary}")
            if (self.last.passed and not self._has_new_advice) or self._needs_decision():
                break
        if self.attempts and not self.last.passed:  # falls back to the version that passed before the advice
            self.attempts += [one for one in self.attempts if one.passed][:1]

    @property
    def _has_new_advice(self) -> bool:
        """Whether the last version has advice and no earlier one had: then the model gets one more round."""
        before = {advice for attempt in self.attempts[:-1] for advice in attempt.advice}
        return not before and bool(self.last.advice)

    def _needs_decision(self) -> bool:
        """Whether the user has to decide, also because the model disputes every example that the last version fails."""
        disputed = {one.id for one in self.disputes if not one.clause}
        failing = {one.example.id for one in self.last.failures}
        if failing and failing <= disputed:
            self.stopped = "the model disputes every example that its program fails"
        return self.last.needs_decision or bool(failing and failing <= disputed)

    @property
    def _name(self) -> str:
        return f"candidate {self.number}"

    def _plan(self) -> tuple[str, str]:
        """Returns (plan, ""), or ("", answer) if the answer already holds a program, a proposal or a dispute."""
        problem = ""
        for _ in range(1 + self._rounds):
            try:
                answer = self._ask("compile_plan", {"problem": problem})
                more = _holds_program(answer) or read_proposal(answer, self._suite.target) or self._disputed(answer)
                return ("", answer) if more else (read_plan(answer).text, "")
            except AnswerError as error:
                problem = str(error)
            except _RepeatedPromptError:
                break
        return "", ""  # the request serves as the plan

    def _attempt(self, plan: str, answer: str) -> Attempt:
        disputes: list[Dispute] = []
        try:
            answer = answer or self._ask("compile", self._data(plan), **self._prompt_context())
            self._explanation = explanation(answer)
            disputes = self._disputed(answer)
            if not _holds_program(answer):
                proposal = read_proposal(answer, self._suite.target)
                if proposal or disputes:
                    return Attempt(properties=self._properties, proposal=proposal, disputes=disputes)
            program = without_header(read_code(answer))
            problems = self._problems(program)
        except AnswerError as error:
            program, problems = "", [str(error)]
        properties = read_properties(answer)
        wrong = self._wrong_properties(properties)
        kept = properties if properties.source and not wrong else self._properties
        if problems or wrong:
            return Attempt(program, [*problems, *wrong], properties=kept, disputes=disputes)
        return replace(self._examine(program, kept), disputes=disputes)

    def _disputed(self, answer: str) -> list[Dispute]:
        """Returns the disputes in an answer, except those that the user has accepted."""
        target, show = self._suite.target, self._context.redaction.restore
        found = read_disputes(answer, self._shown, shown_failures(self._last_results), target.clauses)
        return [replace(one, why=show(one.why)) for one in found if one.clause not in self._suite.undecidable]

    def _examine(self, program: str, properties: Properties) -> Attempt:
        if (program, properties) not in self._results:  # the result is deterministic
            trial = Trial(self._runnable(program), self._context.sandbox, self._suite.target.toolbox, properties)
            self._results[program, properties] = examine(trial, self._suite)
        return Attempt(program, results=[*self._results[program, properties]], properties=properties)

    def _problems(self, program: str) -> list[str]:
        """Returns the problems that keep a program from running."""
        return problems_of(program, self._suite.target)

    def _wrong_properties(self, properties: Properties) -> list[str]:
        """Returns the problems that keep properties from running."""
        return properties.problems(self._suite.target, self._properties) if properties.source else []

    def _runnable(self, program: str) -> str:
        """Returns the source that runs for a program that the model wrote."""
        return program

    @property
    def _properties(self) -> Properties:
        return self.attempts[-1].properties if self.attempts else Properties()

    @property
    def _last_results(self) -> Sequence[ExaminationResult]:
        return self.attempts[-1].results if self.attempts else ()

    def _data(self, plan: str) -> dict[str, Any]:
        """Returns the untrusted prompt data: the last plan and code of the model, and their failures."""
        return {
            "plan": plan,
            "program": next((attempt.program for attempt in reversed(self.attempts) if attempt.program), ""),
            "properties": self._properties.source,
            "explanation": self._explanation,
            "problems": "\n".join(self.last.remarks) if self.attempts else "",
            "failures": failures_data(self._last_results, self._shown, self._context.redaction.redact),
        }

    def _prompt_context(self) -> dict[str, Any]:
        """Returns the trusted prompt data about the last version."""
        return {
            "again": bool(self.attempts),
            "places": failure_places(self._last_results, self._shown),
            "left_out": hidden_failures(self._last_results),
        }

    def _label(self, example: Example) -> str:
        """Returns the expected answer of an example, for the prompt."""
        return f"label {example.label}"

    @property
    def _shown(self) -> list[Example]:
        """The examples in the prompt."""
        return choose_examples(self._showable, self._context.shown, self._clause_numbers)

    @property
    def _showable(self) -> Sequence[Example]:
        return self._suite.examples

    @property
    def _clause_numbers(self) -> Collection[int] | None:
        """The numbers of the sentences that the program covers; None for all."""
        return None

    @property
    def _part_context(self) -> dict[str, Any]:
        """The template values that restrict the program to a part of the request; empty for the whole request."""
        return {"part": (), "context": ()}

    def _ask(self, template: str, data: dict[str, Any], **extra: Any) -> str:
        """Returns the model's answer. A request for function descriptions gets the same prompt with these added."""
        while True:
            answer = self._answer(template, data, extra)
            more = self._functions.with_requested(answer)
            if more is None:
                return answer
            self._functions = more

    def _answer(self, template: str, data: dict[str, Any], extra: dict[str, Any]) -> str:
        target, hide = self._suite.target, self._context.redaction.redact
        trusted = {
            "request": target.request,
            "specification": target.specification,
            "clauses": target.clauses,
            "undecidable": sorted(self._suite.undecidable),
            **self._functions.prompt_data,
            **self._part_context,
            **extra,
        }
        shared = {"examples": [example_data(one, self._label(one), hide) for one in self._shown]}
        prompt = self._context.prompts.render(template, data, shared, **trusted)
        if prompt.unmarked in self._sent:
            raise _RepeatedPromptError
        self._sent.add(prompt.unmarked)
        temperature = _TEMPERATURE if self.number > 1 else 0.0
        return self._context.ask(ModelCall(prompt, temperature, self.number - 1, self._context.redaction.nonce))


def _functions_for(suite: Suite, context: CompileContext) -> FunctionSelection:
    """Selects the functions that the request, specification or examples mention, or that a required check calls."""
    target = suite.target
    runs = [f"{one.agent_input}\n{one.agent_output}" for one in choose_examples(suite.examples, context.shown)]
    required = [check.text for check in target.required]
    return select(target.toolbox, (target.request, target.specification, *runs), required)


def _holds_program(answer: str) -> bool:
    try:
        read_code(answer)
    except AnswerError:
        return False
    return True
