"""One candidate: a model plans and writes a program, and mends it until it passes, for a bounded number of rounds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from guardagent.answers import read_code, read_plan
from guardagent.compile.examinations import Failure, Tried, examine
from guardagent.compile.examples import Example
from guardagent.compile.gate import problems_of, without_header
from guardagent.compile.means import Means
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
    """

    program: str = ""
    problems: list[str] = field(default_factory=list)
    tried: list[Tried] = field(default_factory=list)

    @property
    def failures(self) -> list[Failure]:
        return [failure for tried in self.tried for failure in tried.failures]

    @property
    def passed(self) -> bool:
        return bool(self.tried) and not self.problems and not self.failures

    @property
    def summary(self) -> str:
        """How it went, in a few words."""
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
    """

    def __init__(self, number: int, world: World, means: Means, rounds: int) -> None:
        self.number = number
        self.attempts: list[Attempt] = []
        self._world = world
        self._means = means
        self._rounds = rounds
        self._shown = [self._hidden(example) for example in _chosen(world.examples, means.shown)]

    @property
    def last(self) -> Attempt:
        return self.attempts[-1]

    def write(self) -> None:
        """Asks for a program, and again while it does not pass.

        Raises:
            ModelError: the model did not answer.
            SandboxError: the sandbox itself does not work here.
        """
        plan, answer = self._plan()
        for _ in range(1 + self._rounds):
            self.attempts.append(self._attempt(plan, answer))
            answer = ""
            self._means.tell(f"candidate {self.number}, version {len(self.attempts)}: {self.last.summary}")
            if self.last.passed:
                return

    def _plan(self) -> tuple[str, str]:
        """(plan, answer): a plan; or the answer, where that holds a whole program already."""
        problem = ""
        for _ in range(1 + self._rounds):
            try:
                answer = self._ask("compile_plan", {"examples": self._shown, "problem": problem})
                return ("", answer) if _holds_program(answer) else (read_plan(answer).text, "")
            except AnswerError as error:
                problem = str(error)
        return "", ""  # the request itself must do

    def _attempt(self, plan: str, answer: str) -> Attempt:
        try:
            answer = answer or self._ask("compile_mend" if self.attempts else "compile", self._data(plan))
            program = without_header(read_code(answer))
        except AnswerError as error:
            return Attempt(problems=[str(error)])
        if problems := problems_of(program, self._world.subject):
            return Attempt(program, problems)
        trial = Trial(program, self._means.sandbox, self._world.subject.toolbox)
        return Attempt(program, tried=examine(trial, self._world))

    def _data(self, plan: str) -> dict[str, Any]:
        data: dict[str, Any] = {"plan": plan, "examples": self._shown}
        if not self.attempts:
            return data
        program = next((attempt.program for attempt in reversed(self.attempts) if attempt.program), "")
        return data | {
            "program": program,
            "problems": "\n".join(self.last.problems),
            "failures": [self._told(failure) for failure in _spread(self.last.tried)],
            "count": f"{len(self.last.failures)} runs in all" if self.last.failures else "",
        }

    def _told(self, failure: Failure) -> dict[str, str]:
        changed = {"changed": f"{failure.test}: {failure.note}"} if failure.note else {"changed": ""}
        return {
            **self._hidden(failure.example),
            **changed,
            "expected": failure.expected,
            "given": self._means.redaction.hide(failure.given),
        }

    def _hidden(self, example: Example) -> dict[str, str]:
        hide, facts = self._means.redaction.hide, thaw(example.facts)
        return {
            "agent_input": hide(example.agent_input),
            "agent_output": hide(example.agent_output),
            "facts": hide(json.dumps(facts, ensure_ascii=False, default=str)) if facts else "",
            "label": f"label {example.label}",
        }

    def _ask(self, template: str, data: dict[str, Any]) -> str:
        subject = self._world.subject
        trusted = {
            "request": subject.request,
            "specification": subject.specification,
            "clauses": subject.clauses,
            "tools": list(subject.toolbox.values()),
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
