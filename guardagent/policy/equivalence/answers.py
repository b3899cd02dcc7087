"""The answers of the drafts to a question, and that of a person as a case that is kept with the policy."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from guardagent.policy.equivalence.results import Different, Outcome
from guardagent.policy.equivalence.witness import Witness
from guardagent.types import Verdict

ANSWERS: Mapping[Outcome, str] = {
    "allowed": "allowed",
    "warned": "allowed, with a warning",
    "escalated": "only with the approval of a person",
    "denied": "not allowed",
    "ended": "not allowed, and the conversation ends",
    "unchecked": "not allowed as long as something is unknown",
}
"""The answers to "Allowed?" in natural language, the most lenient first."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The answer of one draft.

    Attributes:
        answer: in natural language.
        allowed: whether the call may run, or the conversation may end.
        why: the first reason of a denial; empty if there is none.
    """

    answer: str
    allowed: bool
    why: str = ""


@dataclass(frozen=True, slots=True)
class ReviewerAnswer:
    """The answer of a person to the question about a witness."""

    witness: Witness
    allowed: bool


def choices(difference: Different) -> tuple[Choice, Choice]:
    """The answers of the first and the second draft."""
    first, second = difference.outcomes
    return _choice(first, difference.first), _choice(second, difference.second)


def _choice(outcome: Outcome, verdict: Verdict) -> Choice:
    return Choice(ANSWERS[outcome], verdict.label == 0, next(iter((*verdict.reasons, *verdict.errors)), ""))


def with_answer(cases: Sequence[Mapping[str, Any]], answer: ReviewerAnswer) -> list[Mapping[str, Any]]:
    """The cases of a policy with an answer added; it replaces an earlier answer to the same question.

    Args:
        cases: the cases, as records. Those whose end is judged are traces.
        answer: the answer.
    """
    record = case_of(answer)
    return [*(one for one in cases if one.get("id") != record["id"]), record]


def case_of(answer: ReviewerAnswer) -> dict[str, Any]:
    """The case of an answer: its id depends on the conversation only."""
    return labelled(answer.witness.record(), allowed=answer.allowed)


def labelled(record: Mapping[str, Any], *, allowed: bool) -> dict[str, Any]:
    """The case of an answer about the record of a witness, whatever the id of that record is."""
    content = json.dumps({**record, "id": ""}, sort_keys=True)
    name = f"answer-{hashlib.sha256(content.encode()).hexdigest()[:12]}"
    return {**record, "id": name, "label": 0 if allowed else 1}
