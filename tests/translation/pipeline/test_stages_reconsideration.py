"""Confirmations that stand after another translation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from guardagent.policy.review.record import ReviewFinding
from guardagent.translation.stages import kept_confirmations
from tests.policy.review.reviews import review_of, shop

FINDING = ReviewFinding("contradictory", "Two rules contradict each other.", rules=("refunds",))


@pytest.mark.parametrize(
    ("new", "voided"),
    [
        (FINDING, set()),
        (replace(FINDING, rules=("managers",)), {"managers"}),
        (replace(FINDING, rules=("managers",), blocking=False), set()),
        (replace(FINDING, message="Others do."), {"refunds"}),
    ],
)
def test_a_finding_with_the_same_words_about_another_rule_is_new(
    tmp_path: Path, new: ReviewFinding, voided: set[str]
) -> None:
    review = replace(review_of(shop(tmp_path)), findings=(FINDING,))
    now = replace(review, findings=(FINDING, new))
    confirmed = {rule for confirmation in kept_confirmations(review, now).confirmations for rule in confirmation.rules}
    assert {"refunds", "managers", "own"} - confirmed == voided
