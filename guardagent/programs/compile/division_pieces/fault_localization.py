"""Fault localization: the parts responsible for a failure of the folded program, by their own outcomes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from guardagent.programs.compile.division import PartCandidate
from guardagent.programs.compile.examinations_base import Failure
from guardagent.programs.compile.examples import Example
from guardagent.programs.compile.suite import Suite
from guardagent.programs.compile.trial import RunOutcome

_PROPERTY = re.compile(r"property_(\d+)\Z")


def parts_at_fault(failure: Failure, parts: Sequence[PartCandidate], suite: Suite) -> list[PartCandidate]:
    """Returns the parts to repair for a failure; all parts if none is distinguished."""
    outcomes = [(part, part.outcome(failure.example)) for part in parts]
    crashed = [part for part, outcome in outcomes if outcome.crash]
    return crashed or _by_property(failure, outcomes) or _by_label(failure.example, outcomes, suite) or list(parts)


def _by_property(failure: Failure, outcomes: Sequence[tuple[PartCandidate, RunOutcome]]) -> list[PartCandidate]:
    """Returns the part that owns the property, and those that deny a run that the property allows."""
    match = _PROPERTY.match(failure.test)
    if match is None:
        return []
    owners = [part for part, _ in outcomes if int(match[1]) in part.part.numbers]
    deny = [part for part, outcome in outcomes if outcome.label == 1 and part not in owners]
    return owners if failure.expected == "label 1" else [*owners, *deny]


def _by_label(
    example: Example, outcomes: Sequence[tuple[PartCandidate, RunOutcome]], suite: Suite
) -> list[PartCandidate]:
    if example.label == 0:
        return [part for part, outcome in outcomes if outcome.label == 1] or _by_answer(outcomes)
    named = [part for part, _ in outcomes if set(example.clauses) & set(part.part.numbers)]
    return named or _by_flip(example, outcomes, suite)


def _by_flip(
    example: Example, outcomes: Sequence[tuple[PartCandidate, RunOutcome]], suite: Suite
) -> list[PartCandidate]:
    """Returns the parts that deny the original example but allow the changed one."""
    base = next((one for one in suite.examples if one.id == example.id), example)
    allow = [part for part, outcome in outcomes if outcome.label == 0]
    return [part for part in allow if part.outcome(base).label == 1]


def _by_answer(outcomes: Sequence[tuple[PartCandidate, RunOutcome]]) -> list[PartCandidate]:
    """Returns the parts with another answer than the most common one."""
    answers = Counter(outcome.answer for _, outcome in outcomes)
    most = max(answers, key=lambda answer: (answers[answer], answer is not None), default=None)
    return [part for part, outcome in outcomes if outcome.answer != most]
