"""One candidate: a model plans, writes and repairs a program until it passes, for a bounded number of rounds.

The candidate comes last. Before it stand the services of a compilation, the choice of the examples for a prompt, one
version of a program with its results, and the prompt data: examples, and runs that the last version failed.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

from guardagent.errors import AnswerError, ModelError
from guardagent.models import Completion
from guardagent.models.metering import Meter
from guardagent.models.prompts import ModelCall, Prompts
from guardagent.models.redaction import Redaction, Redactor
from guardagent.programs.answers import FunctionSelection, prose, read_code, read_plan, select
from guardagent.programs.compile.examinations import examine
from guardagent.programs.compile.examples import Example
from guardagent.programs.compile.findings import ProgramFinding
from guardagent.programs.compile.replies import Dispute, FunctionProposal, read_disputes, read_proposal
from guardagent.programs.compile.suite import ExaminationResult, Failure, Suite
from guardagent.programs.compile.trial import FAILED, Properties, Trial, problems_of, read_properties, without_header
from guardagent.programs.program_file import digest_of
from guardagent.sandbox import Sandbox
from guardagent.types import thaw

__all__ = ["Attempt", "Candidate"]


def _no_progress(_message: str) -> None:
    """Discards progress messages."""


@dataclass(frozen=True)
class CompileContext:
    """The services that a compilation uses.

    Attributes:
        shown: how many examples the prompts show. The model sees another one only after its program fails it.
        progress: receives progress messages.
    """

    meter: Meter
    sandbox: Sandbox
    prompts: Prompts
    redaction: Redaction = field(default_factory=lambda: Redactor().redaction())
    shown: int = 6
    progress: Callable[[str], None] = _no_progress

    def ask(self, call: ModelCall) -> str:
        """Returns the model's answer to a prompt.

        Raises:
            ModelError: no model is configured, or it gave no usable answer.
        """
        with self.meter.metered_call(call) as asking:
            if asking.needs_model and self.meter.model is not None:
                options = {"temperature": call.temperature} if call.temperature else {}
                asking.answer = self.meter.model.complete(call.prompt.messages, **options)
        if isinstance(asking.outcome, Completion):
            return asking.outcome.text
        raise (
            asking.outcome
            if isinstance(asking.outcome, ModelError)
            else ModelError("the model returned no completion; expected text")
        )


# --- examples for a prompt

HOLD_OUT, LEAST_EXAMPLES = 0.2, 20


def hold_out(examples: Sequence[Example], share: float | None) -> tuple[list[Example], list[Example]]:
    """Divides examples into those that a model may see and those that judge it at the end, by the hashes of the runs.

    Both labels have the same share. An example of each label and of each annotated sentence is never kept apart.

    Args:
        examples: all examples.
        share: the part to keep apart; None for a fifth, of 20 examples or more.
    """
    if share is None:
        share = HOLD_OUT if len(examples) >= LEAST_EXAMPLES else 0.0
    needed, apart = {example.id for example in _one_of_each(examples)}, set[str]()
    for label in (0, 1):
        rows = [example for example in examples if example.label == label]
        free = sorted((row for row in rows if row.id not in needed), key=lambda row: digest_of(row.run))
        apart |= {row.id for row in free[: round(share * len(rows))]}
    return [row for row in examples if row.id not in apart], [row for row in examples if row.id in apart]


def choose_examples(examples: Sequence[Example], count: int) -> list[Example]:
    """Selects diverse examples, in the order of the file.

    Args:
        examples: all examples.
        count: how many; more if needed to cover both labels and each annotated sentence. 0 for none.
    """
    if count <= 0:
        return []
    chosen = {example.id: example for example in _one_of_each(examples)}
    words = {
        example.id: set(re.findall(r"\w+", f"{example.agent_input} {example.agent_output}")) for example in examples
    }
    while len(chosen) < min(count, len(examples)):
        left = [example for example in examples if example.id not in chosen]
        rarer = int(2 * sum(example.label for example in chosen.values()) <= len(chosen))
        pool = [example for example in left if example.label == rarer] or left
        known = [words[name] for name in chosen]
        best = max(pool, key=lambda example: min(_distance(words[example.id], other) for other in known))
        chosen[best.id] = best
    return [example for example in examples if example.id in chosen]


def _one_of_each(examples: Sequence[Example]) -> Iterator[Example]:
    """Yields an allowed example, a denied one, and one for each sentence that examples violate."""
    yield from [example for example in examples if example.label == 0][:1]
    denied = sorted(
        (example for example in examples if example.label == 1), key=lambda example: len(example.clauses)
    )  # fewest violated sentences first
    covered: set[int] = set()
    for number in sorted({number for example in denied for number in example.clauses}):
        if number not in covered:
            best = next(example for example in denied if number in example.clauses)
            covered |= set(best.clauses)
            yield best
    if not covered:
        yield from denied[:1]


def _distance(words: set[str], others: set[str]) -> float:
    """Returns the Jaccard distance of two sets of words."""
    return len(words ^ others) / max(1, len(words | others))


# --- one version


@dataclass(slots=True)
class Attempt:
    """One version of a candidate's program.

    Attributes:
        problems: the problems that kept it from running.
        results: the results of its examinations.
        properties: the properties that it was examined with.
        proposal: a missing toolbox function that the model proposed instead.
        disputes: the examples and sentences that the model disputes.
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
        """Missing pieces, independent of any run."""
        return [tried.missing for tried in self.results if tried.missing]

    @property
    def advice(self) -> list[str]:
        """Suggested changes that no failing run supports."""
        return [tried.advice for tried in self.results if tried.advice]

    @property
    def remarks(self) -> list[str]:
        """All feedback for the model except the failing runs."""
        return [*self.problems, *self.missing, *self.advice]

    @property
    def passed(self) -> bool:
        return self._right and not self._skips_clause

    @property
    def needs_decision(self) -> bool:
        """Whether the user has to decide before another version can help."""
        return bool(self.proposal or (self.disputes and not self.program) or (self._right and self._skips_clause))

    @property
    def summary(self) -> str:
        """The outcome in one line."""
        if self.proposal:
            return f"requests a function that the toolbox lacks: {self.proposal.name!r}"
        if self.needs_decision:
            return f"disputes {', '.join(repr(dispute.id) for dispute in self.disputes)}"
        if self.problems:
            return f"cannot run: {self.problems[0]}"
        runs = sum(tried.runs for tried in self.results)
        wrong = f"fails {len(self.failures)} of {runs} runs" if self.failures else f"passes all {runs} runs"
        return "; ".join([wrong, *self.missing])

    def to_dict(self) -> dict[str, Any]:
        return {"problems": self.problems, "tried": [{"name": t.name, "failed": len(t.failures)} for t in self.results]}

    @property
    def _right(self) -> bool:
        return bool(self.results) and not (self.problems or self.failures or self.missing)

    @property
    def _skips_clause(self) -> bool:
        """Whether the model disputes a sentence as undecidable, so that the program ignores it."""
        return any(dispute.clause for dispute in self.disputes)


# --- prompt data

_FAILURES = 3  # shown at least; more if they are short
_FAILURE_WORDS = 240
_FENCES = 16  # words around the run of one failure
_EXPLANATION_WORDS = 200
_CLAIM = re.compile(r"property_\d+ says (deny|allow)\b")

Hide = Callable[[Any], Any]


def example_data(example: Example, hide: Hide) -> dict[str, str]:
    """Returns the prompt data of one labelled run."""
    return {**_run(example, hide), "label": f"label {example.label}"}


def failures_data(tried: Sequence[ExaminationResult], examples: Sequence[Example], hide: Hide) -> list[dict[str, str]]:
    """Returns the prompt data of the shown failures, without repeating a shown example."""
    above = {example.id for example in examples}
    return [
        {
            **({} if _as_it_is(failure, above) else _run(failure.example, hide)),
            "changed": hide(f"{failure.test}: {failure.note}") if failure.note else "",
            "expected": _expected(failure),
            "given": hide(failure.actual),
        }
        for failure in shown_failures(tried)
    ]


def failure_places(tried: Sequence[ExaminationResult], examples: Sequence[Example]) -> list[str]:
    """Returns for each shown failure a reference to the same shown example, if any."""
    numbers = {example.id: number for number, example in enumerate(examples, start=1)}
    shown = shown_failures(tried)
    return [
        f", which is example {numbers[failure.example.id]}" if _as_it_is(failure, numbers) else "" for failure in shown
    ]


def hidden_failures(tried: Sequence[ExaminationResult]) -> str:
    """Returns the number of failures, and the kinds of those not shown."""
    tests = [failure.test for row in tried for failure in row.failures]
    more = Counter(tests) - Counter(failure.test for failure in shown_failures(tried))
    kinds = ", ".join(f"{count} of {test}" for test, count in more.items())
    return f" ({len(tests)} in all" + (f"; {more.total()} are left out here: {kinds})" if more else ")")


def shown_failures(tried: Sequence[ExaminationResult]) -> list[Failure]:
    """Selects failures within the word limit, of as many kinds of test as possible."""
    rows = [examination_result.failures for examination_result in tried]
    turns = [row[at] for at in range(max(map(len, rows), default=0)) for row in rows if at < len(row)]
    first = {turn.actual.partition(FAILED)[2] or at: at for at, turn in reversed(list(enumerate(turns)))}
    turns = [turns[at] for at in sorted(first.values())]  # a crash of all properties is shown once
    words = accumulate(
        _FENCES + len(f"{turn.example.agent_input} {turn.example.agent_output}".split()) for turn in turns
    )
    return [turn for at, turn in enumerate(turns) if next(words) <= _FAILURE_WORDS or at < _FAILURES]


def explanation(answer: str) -> str:
    """Returns the prose of an answer, truncated."""
    words = prose(answer).split(" ")
    return " ".join(words[:_EXPLANATION_WORDS]) + (" …" if len(words) > _EXPLANATION_WORDS else "")


def _run(example: Example, hide: Hide) -> dict[str, str]:
    facts = thaw(example.facts)
    return {
        "agent_input": hide(example.agent_input),
        "agent_output": hide(example.agent_output),
        "facts": hide(json.dumps(facts, ensure_ascii=False, default=str)) if facts else "",
    }


def _as_it_is(failure: Failure, above: Any) -> bool:
    return not failure.note and failure.example.id in above


def _expected(failure: Failure) -> str:
    """Returns the expected outcome, attributed to the property if it is a claim, since a property may be wrong."""
    claim = _CLAIM.match(failure.note)
    return f"{claim[1]}, as the property says: {failure.expected}" if claim else failure.expected


# --- the candidate

_TEMPERATURE = 0.7  # for the candidates after the first, so that they differ


class _RepeatedPromptError(Exception):
    """The next prompt equals one that was already sent."""


class Candidate:
    """One of the programs that a model writes for a compile target.

    Attributes:
        attempts: the versions, oldest first.
        stopped: the reason for stopping before the last round; empty otherwise.
    """

    def __init__(self, number: int, suite: Suite, context: CompileContext, rounds: int) -> None:
        self.number = number
        self.attempts: list[Attempt] = []
        self.stopped = ""
        self._suite = suite
        self._context = context
        self._rounds = rounds
        self._functions = _functions_for(suite, context)
        self._plan = ""
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
            if len({text for version in versions if (text := version.text_of(number))}) > 1
        ]

    def findings(self) -> list[ProgramFinding]:
        """Returns findings about the writing: tests that did not run, and properties that changed."""
        claimed = "the model claims that this sentence sets no rule: "
        changed = "the model changed this property after its first version; review it"
        idle = self.last.properties.no_rule_reasons.items()
        return [
            *(ProgramFinding("unchecked", tried.unchecked) for tried in self.last.results if tried.unchecked),
            *(ProgramFinding("unparsed", advice) for advice in self.last.advice),
            *(ProgramFinding("context", claimed + reason, clause=number) for number, reason in idle if reason),
            *(ProgramFinding("changed", changed, clause=number) for number in self.changed_properties),
        ]

    def to_dict(self) -> dict[str, Any]:
        rounds = [attempt.to_dict() for attempt in self.attempts]
        return {"number": self.number, "passed": self.last.passed, "stopped": self.stopped or None, "rounds": rounds}

    def write(self) -> None:
        """Has the model write a program, and repair it until it passes or the rounds are over.

        Raises:
            ModelError: the model did not answer.
            SandboxError: the sandbox itself does not work here.
        """
        answer = self._write_plan()
        self._functions = self._functions.with_plan(self._plan)
        for _ in range(1 + self._rounds):
            try:
                self.attempts.append(self._attempt(answer))
            except _RepeatedPromptError:
                self.stopped = "the next prompt would repeat one that the model has already answered"
                break
            answer = ""
            self._context.progress(f"candidate {self.number}, version {len(self.attempts)}: {self.last.summary}")
            if (self.last.passed and not self._has_new_advice) or self._needs_decision():
                break
        if self.attempts and not self.last.passed:  # falls back to the version that passed before the advice
            self.attempts += [attempt for attempt in self.attempts if attempt.passed][:1]

    @property
    def _has_new_advice(self) -> bool:
        """Whether the last version has advice and no earlier one had: then the model gets one more round."""
        before = {advice for attempt in self.attempts[:-1] for advice in attempt.advice}
        return not before and bool(self.last.advice)

    def _needs_decision(self) -> bool:
        """Whether the user has to decide, also because the model disputes every example that the last version fails."""
        disputed = {dispute.id for dispute in self.disputes if not dispute.clause}
        failing = {failure.example.id for failure in self.last.failures}
        if failing and failing <= disputed:
            self.stopped = "the model disputes every example that its program fails"
        return self.last.needs_decision or bool(failing and failing <= disputed)

    def _write_plan(self) -> str:
        """Has the model write a plan; returns its answer if that already holds a program, a proposal or a dispute."""
        problem = ""
        for _ in range(1 + self._rounds):
            try:
                answer = self._ask("compile_plan", {"problem": problem})
                if _holds_program(answer) or read_proposal(answer, self._suite.target) or self._disputed(answer):
                    return answer
                self._plan = read_plan(answer).text
                break
            except AnswerError as error:
                problem = str(error)
            except _RepeatedPromptError:
                break
        return ""  # without a plan, the request serves as one

    def _attempt(self, answer: str) -> Attempt:
        disputes: list[Dispute] = []
        try:
            answer = answer or self._ask("compile", self._data(), **self._prompt_context())
            self._explanation = explanation(answer)
            disputes = self._disputed(answer)
            if not _holds_program(answer):
                proposal = read_proposal(answer, self._suite.target)
                if proposal or disputes:
                    return Attempt(properties=self._properties, proposal=proposal, disputes=disputes)
            program = without_header(read_code(answer))
            problems = problems_of(program, self._suite.target)
        except AnswerError as error:
            program, problems = "", [str(error)]
        properties = read_properties(answer)
        wrong = properties.problems(self._suite.target, self._properties) if properties.source else []
        kept = properties if properties.source and not wrong else self._properties
        if problems or wrong:
            return Attempt(program, [*problems, *wrong], properties=kept, disputes=disputes)
        return replace(self._examine(program, kept), disputes=disputes)

    def _disputed(self, answer: str) -> list[Dispute]:
        """Returns the disputes in an answer, except those that the user has accepted."""
        target, show = self._suite.target, self._context.redaction.restore
        disputes = read_disputes(answer, self._shown, shown_failures(self._last_results), target.clauses)
        return [
            replace(dispute, why=show(dispute.why))
            for dispute in disputes
            if dispute.clause not in self._suite.undecidable
        ]

    def _examine(self, program: str, properties: Properties) -> Attempt:
        if (program, properties) not in self._results:  # the result is deterministic
            trial = Trial(program, self._context.sandbox, self._suite.target.toolbox, properties)
            self._results[program, properties] = examine(trial, self._suite)
        return Attempt(program, results=[*self._results[program, properties]], properties=properties)

    @property
    def _properties(self) -> Properties:
        return self.attempts[-1].properties if self.attempts else Properties()

    @property
    def _last_results(self) -> Sequence[ExaminationResult]:
        return self.attempts[-1].results if self.attempts else ()

    def _data(self) -> dict[str, Any]:
        """Returns the untrusted prompt data: the last code of the model, and its failures."""
        return {
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

    @property
    def _shown(self) -> list[Example]:
        """The examples in the prompt."""
        return choose_examples(self._suite.examples, self._context.shown)

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
            **extra,
        }
        shared = {"examples": [example_data(example, hide) for example in self._shown], "plan": self._plan}
        prompt = self._context.prompts.render(template, data, shared, **trusted)
        if prompt.unmarked in self._sent:
            raise _RepeatedPromptError
        self._sent.add(prompt.unmarked)
        temperature = _TEMPERATURE if self.number > 1 else 0.0
        return self._context.ask(ModelCall(prompt, temperature, self.number - 1, self._context.redaction.nonce))


def _functions_for(suite: Suite, context: CompileContext) -> FunctionSelection:
    """Selects the functions that the request, specification or examples mention, or that a required check calls."""
    target = suite.target
    runs = [
        f"{example.agent_input}\n{example.agent_output}" for example in choose_examples(suite.examples, context.shown)
    ]
    required = [check.text for check in target.required]
    return select(target.toolbox, (target.request, target.specification, *runs), required)


def _holds_program(answer: str) -> bool:
    try:
        read_code(answer)
    except AnswerError:
        return False
    return True
