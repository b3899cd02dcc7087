"""Inputs on which passing programs disagree: cases that the examples leave open, for the user to decide."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from guardagent.programs.compile._examinations.metamorphic import variants_of
from guardagent.programs.compile.examples import Example
from guardagent.programs.compile.fields import fields_of, with_value
from guardagent.programs.compile.suite import Suite
from guardagent.programs.compile.trial import Trial
from guardagent.types import thaw

MOST = 50
_OPPOSITES = {"True": "False", "False": "True", "true": "false", "false": "true", "yes": "no", "no": "yes"}


@dataclass(frozen=True, slots=True)
class CandidateDisagreement:
    """One such input: the change to the example, and the outcome and label of each candidate."""

    example: Example
    note: str
    outcomes: Mapping[int, str]
    labels: Mapping[int, int]

    def to_dict(self) -> dict[str, Any]:
        return {
            "example": self.example.id,
            "note": self.note,
            "given": {str(number): text for number, text in self.outcomes.items()},
            "agent_input": self.example.agent_input,
            "agent_output": self.example.agent_output,
            "facts": thaw(self.example.facts),
        }


def disagreements(trials: Mapping[int, Trial], suite: Suite) -> list[CandidateDisagreement]:
    """Returns up to `MOST` inputs on which the labels of the candidates differ."""
    found: list[CandidateDisagreement] = []
    for example, note in _inputs(suite) if len(trials) > 1 else ():
        outcomes = {number: trial.outcome(example) for number, trial in trials.items()}
        if len({outcome.label for outcome in outcomes.values()}) > 1:
            outcome_texts = {number: str(outcome) for number, outcome in outcomes.items()}
            found.append(CandidateDisagreement(example, note, outcome_texts, {n: o.label for n, o in outcomes.items()}))
        if len(found) == MOST:
            break
    return found


def most_cautious(numbers: Sequence[int], found: Sequence[CandidateDisagreement]) -> int:
    """Returns the number of the candidate that denies most of these inputs; the first of several."""
    return max(numbers, key=lambda number: (sum(one.labels[number] for one in found), -number))


def _probes(example: Example) -> Iterator[tuple[Example, str]]:
    """Yields unlabelled neighbours of an example: numbers one less and one more, booleans negated."""
    for field in fields_of(example.agent_input):
        for value in _near(field.value):
            text = with_value(example.agent_input, field, str(value))
            yield replace(example, agent_input=text), f"{field.name}: {value} instead of {field.value}"
    for name, fact in example.facts.items():
        for value in _near(fact):
            facts = {**example.facts, name: value}
            yield replace(example, facts=facts), f"fact {name}: {value} instead of {fact}"


def _near(value: object) -> list[object]:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value - 1, value + 1]
    if isinstance(value, str) and value.isdecimal() and len(value) < 16:
        return [str(number) for number in (int(value) - 1, int(value) + 1) if number >= 0]
    return [_OPPOSITES[value]] if isinstance(value, str) and value in _OPPOSITES else []


def _inputs(suite: Suite) -> Iterator[tuple[Example, str]]:
    for example in suite.examples:
        yield example, ""
        yield from _probes(example)
        for name, variant in variants_of(example, suite):
            yield variant.example, f"{name}: {variant.note}"
