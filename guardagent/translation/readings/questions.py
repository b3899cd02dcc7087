"""Differences and ambiguities as questions to the owner of the document.

The id of a question depends on its sentences and on that which its choices mean: an answer survives another run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any

from guardagent.policy.equivalence import Different, question
from guardagent.policy.equivalence.questions import ANSWERS
from guardagent.policy.review.record import ReviewChoice, ReviewQuestion
from guardagent.policy.words import policies_in_words
from guardagent.translation.context import TranslationContext
from guardagent.translation.drafts import Ambiguity, Draft, RuleDraft
from guardagent.translation.readings.comparison import DraftPart, tools_of
from guardagent.translation.readings.rulings import AMBIGUITY, CASE, FATE, LENIENT, OUTCOMES, READINGS

Drafts = tuple[Draft, Draft]


def case_question(found: Different, part: DraftPart, drafts: Drafts, context: TranslationContext) -> ReviewQuestion:
    """Asks what is to happen at the witness of a difference."""
    sentences = _hashes(part.quoted, context)
    sides = sorted(zip(found.outcomes, (0, 1), strict=True), key=lambda one: OUTCOMES.index(one[0]))
    record = found.witness.record("")
    answers = ANSWERS if found.witness.proposed is not None else {**ANSWERS, "allowed": "yes", "denied": "no"}
    name = _id(CASE, sentences, record, [outcome for outcome, _ in sides])
    return ReviewQuestion(
        name,
        sentences,
        (),
        question(found.witness, tools_of(context), _text(part.quoted, context)),
        tuple(_reading(answers[one], drafts[at], part.sides[at], context, allowed=one in LENIENT) for one, at in sides),
        {**record, "id": name},
    )


def readings_question(part: DraftPart, drafts: Drafts, context: TranslationContext) -> ReviewQuestion:
    """Asks which of two readings is meant that could not be compared."""
    sentences = _hashes(part.quoted, context)
    both = [_reading("", drafts[at], part.sides[at], context) for at in (0, 1)]
    both.sort(key=lambda one: json.dumps(one.policy, sort_keys=True, default=str))
    named = [
        ReviewChoice(f"the {name} reading", None, one.words, one.policy)
        for name, one in zip(("first", "second"), both, strict=True)
    ]
    name = _id(READINGS, sentences, [one.policy for one in both])
    text = f"{_quoted(part.quoted, context)}Which of the two readings is meant?"
    return ReviewQuestion(name, sentences, (), text, tuple(named))


def fate_question(
    declining: Draft, sentences: Sequence[int], writing: Draft, rules: Sequence[RuleDraft], context: TranslationContext
) -> ReviewQuestion:
    """Asks whether a rule is to enforce sentences for which one draft declined to write one."""
    hashes = _hashes(sentences, context)
    why = " ".join(dict.fromkeys(declining.declined[one] for one in sentences))
    return ReviewQuestion(
        _id(FATE, hashes),
        hashes,
        (),
        f"{_quoted(sentences, context)}Is a rule to enforce this?",
        (
            ReviewChoice("no rule", None, f"No rule can be written for this, because: {why}"),
            _reading("this rule", writing, rules, context),
        ),
    )


def ambiguity_questions(ambiguities: Iterable[Ambiguity], context: TranslationContext) -> tuple[ReviewQuestion, ...]:
    """Asks what is meant, once for each ambiguity in other words. One with fewer than two readings is no question."""
    found: dict[str, ReviewQuestion] = {}
    for one in ambiguities:
        readings = tuple(dict.fromkeys(" ".join(reading.split()) for reading in one.readings if reading.strip()))
        if len(readings) > 1:
            new = _ambiguity_question(one, readings, context)
            found.setdefault(new.id, new)
    return tuple(found.values())


def _ambiguity_question(one: Ambiguity, readings: Sequence[str], context: TranslationContext) -> ReviewQuestion:
    sentences, text = _hashes([one.sentence], context), " ".join(one.question.split())
    return ReviewQuestion(
        _id(AMBIGUITY, sentences, text.casefold(), [each.casefold() for each in readings]),
        sentences,
        (),
        f"{_quoted([one.sentence], context)}{text}",
        tuple(ReviewChoice(each, None, each) for each in readings),
    )


def _reading(
    answer: str, draft: Draft, rules: Sequence[RuleDraft], context: TranslationContext, *, allowed: bool | None = None
) -> ReviewChoice:
    if not rules:
        return ReviewChoice(answer, allowed, "No rule.")
    ids = [one.id for one in rules]
    words = policies_in_words(draft.policies(context, ids))
    text = " ".join(one.text for one in words.values())
    return ReviewChoice(answer, allowed, text, draft.content(context, ids))


def _hashes(numbers: Iterable[int], context: TranslationContext) -> tuple[str, ...]:
    return tuple(dict.fromkeys(context.sentence(one).hash for one in sorted(numbers)))


def _text(numbers: Iterable[int], context: TranslationContext) -> str | None:
    return " ".join(context.sentence(one).text for one in sorted(numbers)) or None


def _quoted(numbers: Iterable[int], context: TranslationContext) -> str:
    text = _text(numbers, context)
    return f'"{" ".join(text.split())}" ' if text else ""


def _id(kind: str, sentences: Iterable[str], *content: Any) -> str:
    found = json.dumps([sorted(sentences), *content], sort_keys=True, default=str)
    return f"{kind}{hashlib.sha256(found.encode()).hexdigest()[:12]}"
