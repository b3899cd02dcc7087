"""One candidate: a model plans and writes a program, and mends it until it passes, for a bounded number of rounds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from guardagent.answers import read_code, read_plan
from guardagent.compile.examinations import Failure, Tried, examine
from guardagent.compile.examples import Example
from guardagent.compile.findings import Finding, Layout, PartRow
from guardagent.compile.gate import problems_of, without_header
from guardagent.compile.means import Means
from guardagent.compile.properties import Properties, read_properties
from guardagent.compile.proposals import Proposal, read_proposal
from guardagent.compile.trial import Trial
from guardagent.compile.world import World
from guardagent.errors import AnswerError
from guardagent.prompts import ModelCall
from guardagent.types import thaw

_SHOWN_FAILURES = 4
_TEMPERATURE = 0.7  # of the candidates after the first, so that they differ


@dataclass(slots=True)
class Attempt:
    """One version of a program, and what came of it.

    Attributes:
        problems: why it could not run at all.
        tried: what was tried with it.
        properties: those that it was tried with.
        proposal: a function that the model asks for instead.
    """

    program: str = ""
    problems: list[str] = field(default_factory=list)
    tried: list[Tried] = field(default_factory=list)
    properties: Properties = field(default_factory=Properties)
    proposal: Proposal | None = None

    @property
    def failures(self) -> list[Failure]:
        return [failure for tried in self.tried for failure in tried.failures]

    @property
    def passed(self) -> bool:
        return bool(self.tried) and not self.problems and not self.failures

    @property
    def summary(self) -> str:
        """How it went, in a few words."""
        if self.proposal:
            return f"asks for a function that the toolbox lacks: {self.proposal.name}"
        if self.problems:
            return f"cannot run: {self.problems[0]}"
        runs = sum(tried.runs for tried in self.tried)
        return f"{len(self.failures)} of {runs} runs wrong" if self.failures else f"passes all {runs} runs"

    def to_dict(self) -> dict[str, Any]:
        return {"problems": self.problems, "tried": [{"name": t.name, "failed": len(t.failures)} for t in self.tried]}


class Candidate:
    """One of the programs that a model writes for a subject.

    Attributes:
        attempts: its versions, the last one last.
        layout: what is known of its lines beforehand.
    """

    def __init__(self, number: int, world: World, means: Means, rounds: int) -> None:
        self.number = number
        self.attempts: list[Attempt] = []
        self.layout = Layout()
        self._world = world
        self._means = means
        self._rounds = rounds

    @property
    def last(self) -> Attempt:
        return self.attempts[-1]

    @property
    def changed_properties(self) -> list[int]:
        """The clauses whose property is not what it first was: the model may have mended it, or made it easier."""
        versions = [attempt.properties for attempt in self.attempts]
        return [
            number
            for number in self.last.properties.numbers
            if len({text for one in versions if (text := one.text_of(number))}) > 1
        ]

    def findings(self) -> list[Finding]:
        """What was not tried, and what was made easier, while it was written."""
        found = [Finding("unchecked", tried.unchecked) for tried in self.last.tried if tried.unchecked]
        why = "the model changed this property after it had written it; read it"
        return [*found, *(Finding("changed", why, clause=number) for number in self.changed_properties)]

    def rows(self) -> list[PartRow]:
        """The parts that it was folded of, where the request was divided."""
        return []

    @property
    def _properties(self) -> Properties:
        return self.attempts[-1].properties if self.attempts else Properties()

    def to_dict(self) -> dict[str, Any]:
        return {"number": self.number, "passed": self.last.passed, "rounds": [one.to_dict() for one in self.attempts]}

    def write(self) -> None:
        """Asks for a program, and again while it does not pass.

        Raises:
            ModelError: the model did not answer.
            SandboxError: the sandbox itself does not work here.
        """
        plan, answer = self._plan()
        self._write(plan, answer)

    def _write(self, plan: str = "", answer: str = "") -> None:
        for _ in range(1 + self._rounds):
            self.attempts.append(self._attempt(plan, answer))
            answer = ""
            self._means.tell(f"{self._name}, version {len(self.attempts)}: {self.last.summary}")
            if self.last.passed or self.last.proposal:
                return

    @property
    def _name(self) -> str:
        return f"candidate {self.number}"

    def _plan(self) -> tuple[str, str]:
        """(plan, answer): a plan; or the answer, where that holds a whole program already."""
        problem = ""
        for _ in range(1 + self._rounds):
            try:
                answer = self._ask("compile_plan", {"examples": self._shown, "problem": problem})
                whole = _holds_program(answer) or read_proposal(answer, self._world.subject)
                return ("", answer) if whole else (read_plan(answer).text, "")
            except AnswerError as error:
                problem = str(error)
        return "", ""  # the request itself must do

    def _attempt(self, plan: str, answer: str) -> Attempt:
        try:
            answer = answer or self._ask("compile_mend" if self.attempts else "compile", self._data(plan))
            if not _holds_program(answer) and (proposal := read_proposal(answer, self._world.subject)):
                return Attempt(properties=self._properties, proposal=proposal)
            program = without_header(read_code(answer))
        except AnswerError as error:
            return Attempt(problems=[str(error)], properties=self._properties)
        before, properties = self._properties, read_properties(answer)
        if problems := self._problems(program, properties):
            return Attempt(program, problems, properties=before)
        return self._examined(program, properties if properties.source else before)

    def _examined(self, program: str, properties: Properties) -> Attempt:
        trial = Trial(self._runnable(program), self._means.sandbox, self._world.subject.toolbox, properties)
        return Attempt(program, tried=examine(trial, self._world), properties=properties)

    def _problems(self, program: str, properties: Properties) -> list[str]:
        """Why they may not run."""
        subject = self._world.subject
        wrong = properties.problems(subject, self._properties) if properties.source else []
        return [*problems_of(program, subject), *wrong]

    def _runnable(self, program: str) -> str:
        """What runs of a program that was written."""
        return program

    def _data(self, plan: str) -> dict[str, Any]:
        data: dict[str, Any] = {"plan": plan, "examples": self._shown}
        if not self.attempts:
            return data
        program = next((attempt.program for attempt in reversed(self.attempts) if attempt.program), "")
        return data | {
            "program": program,
            "properties": self._properties.source,
            "problems": "\n".join(self.last.problems),
            "failures": [self._told(failure) for failure in _spread(self.last.tried)],
            "count": f"{len(self.last.failures)} runs in all" if self.last.failures else "",
        }

    def _told(self, failure: Failure) -> dict[str, str]:
        hide = self._means.redaction.hide
        return {
            **self._hidden(failure.example),
            "changed": hide(f"{failure.test}: {failure.note}") if failure.note else "",
            "expected": failure.expected,
            "given": hide(failure.given),
        }

    def _hidden(self, example: Example) -> dict[str, str]:
        hide, facts = self._means.redaction.hide, thaw(example.facts)
        return {
            "agent_input": hide(example.agent_input),
            "agent_output": hide(example.agent_output),
            "facts": hide(json.dumps(facts, ensure_ascii=False, default=str)) if facts else "",
            "label": self._label(example),
        }

    def _label(self, example: Example) -> str:
        """What the model is told of the right answer."""
        return f"label {example.label}"

    @property
    def _shown(self) -> list[dict[str, str]]:
        return [self._hidden(example) for example in _chosen(self._showable, self._means.shown)]

    @property
    def _showable(self) -> Sequence[Example]:
        return self._world.examples

    @property
    def _task(self) -> dict[str, Any]:
        """What the templates are told of the part of the request that the program is for; all of it here."""
        return {"part": (), "context": ()}

    def _ask(self, template: str, data: dict[str, Any]) -> str:
        subject = self._world.subject
        trusted = {
            "request": subject.request,
            "specification": subject.specification,
            "clauses": subject.clauses,
            "tools": list(subject.toolbox.values()),
            **self._task,
        }
        prompt = self._means.prompts.render(template, data, **trusted)
        temperature = _TEMPERATURE if self.number > 1 else 0.0
        return self._means.ask(ModelCall(prompt, temperature, self.number - 1, self._means.redaction.nonce))


def _holds_program(answer: str) -> bool:
    try:
        read_code(answer)
    except AnswerError:
        return False
    return True


def _chosen(examples: Sequence[Example], count: int) -> list[Example]:
    """The examples that the model is shown: of both labels alike, in the order of the file."""
    by_label = [[example for example in examples if example.label == label] for label in (0, 1)]
    half = count - count // 2
    taken = [*by_label[0][:half], *by_label[1][: count - min(half, len(by_label[0]))]]
    return [example for example in examples if example in taken]


def _spread(tried: Sequence[Tried]) -> list[Failure]:
    """A few failures, of as many kinds of test as possible."""
    rows = [one.failures[:_SHOWN_FAILURES] for one in tried if one.failures]
    turns = [row[at] for at in range(_SHOWN_FAILURES) for row in rows if at < len(row)]
    return turns[:_SHOWN_FAILURES]
