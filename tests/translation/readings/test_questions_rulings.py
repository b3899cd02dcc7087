"""Rulings without a witness, and the drafts that follow them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from guardagent.policy.review.record import RecordedAnswer
from guardagent.translation.context import TranslationContext
from guardagent.translation.drafts import Ambiguity, Draft
from guardagent.translation.readings.questions import Ruling, ambiguity_question, rulings_of
from tests.translation.drafts import limit
from tests.translation.library import context as library

WHEN = "2026-05-01T10:00:00+00:00"
DOUBT = Ambiguity(4, "Do magazines count?", ("Yes.", "No."))


@pytest.fixture
def context(tmp_path: Path) -> TranslationContext:
    return library(tmp_path)


def ruling(context: TranslationContext, words: str = "", choice: int | None = 0) -> Ruling:
    question = ambiguity_question(DOUBT, context)
    answer = RecordedAnswer(question.id, None if words else choice, "Ann", WHEN, words=words)
    return next(rulings_of([question], [answer]))


def draft(*ambiguities: Ambiguity, most: int = 5) -> Draft:
    return replace(limit("lend", most, sentence=4), ambiguities=ambiguities)


def test_a_draft_follows_the_reading_that_its_author_names(context: TranslationContext) -> None:
    """Of this question: others have the same readings."""
    yes = ruling(context)
    assert yes.is_kept(draft(replace(DOUBT, follows="Yes.")), context)
    assert not yes.is_kept(draft(replace(DOUBT, follows="No.")), context)
    assert not yes.is_kept(draft(DOUBT), context)
    assert not yes.is_kept(draft(replace(DOUBT, question="Do maps count?", follows="Yes.")), context)
    assert not yes.is_kept(draft(replace(DOUBT, follows="Yes."), replace(DOUBT, follows="No.")), context)
    assert not ruling(context, words="Yes.").is_kept(draft(replace(DOUBT, follows="Yes.")), context)


def test_another_answer_is_another_ruling(context: TranslationContext) -> None:
    known = replace(draft(), rulings=(ruling(context).key,))
    assert ruling(context).is_kept(known, context)
    assert not ruling(context, choice=1).is_kept(known, context)
    assert not ruling(context, words="Only old ones.").is_kept(known, context)
