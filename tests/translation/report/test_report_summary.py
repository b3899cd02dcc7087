"""The figures and lists of a report."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given

from guardagent.policy.review.record import Confirmation, ModelCost, Review, ReviewFinding
from guardagent.translation.report import CoverageFigure, DocumentChanges, RuleGround, TranslationCost, summarize
from tests.translation.report.reviews import ANSWERED, made, question, reviews, rule, sentence


def test_coverage_counts_sentences_with_settled_single_and_open_rules() -> None:
    """A heading without a rule is counted apart, unless it is undecided; the worst rule of a sentence counts."""
    review = made(
        sentence(1, "definition", kind="heading"),
        sentence(2, "rule", ("agreed",), kind="heading"),
        sentence(3, "rule", ("agreed", "one"), reason="except at night"),
        sentence(4, "rule", ("one", "two")),
        sentence(5, "open", kind="heading"),
        sentence(6, "not_enforceable"),
        sentence(7, "rule"),
        rules=(rule("agreed", "edited", 2, 3), rule("one", "single", 3, 4), rule("two", "open", 4)),
    )
    coverage = summarize(review).coverage
    assert (coverage.sentences, coverage.headings, coverage.enforceable) == (6, 1, 5)
    assert coverage.fates == {"rule": 4, "definition": 0, "fact": 0, "implied": 0, "not_enforceable": 1, "open": 1}
    assert coverage.covered == CoverageFigure(3, 3 / 6, 3 / 5)
    figures = (coverage.settled, coverage.single, coverage.open, coverage.undecided, coverage.partial)
    assert [figure.count for figure in figures] == [1, 1, 2, 1, 1]


def test_a_rule_has_its_grounds() -> None:
    """Its sentences by number, with the quoted words; a sentence that appears twice has two numbers."""
    review = made(
        sentence(1, "rule", ("r",)), sentence(2, "rule", ("r",), hash="h1"), sentence(3, "rule", ("r",)),
        rules=(rule("r", "agree", 1, 9), rule("own", "edited")),
    )  # fmt: skip
    first, second = summarize(review).rules
    assert first.grounds == (
        RuleGround(1, "words of 1"), RuleGround(2, "words of 1"), RuleGround("h9", "words of 9"), RuleGround(3, ""),
    )  # fmt: skip
    assert second.grounds == ()


def test_what_is_open_or_blocks_comes_first() -> None:
    """Then the findings by kind; an answered question names its choice and person."""
    findings = (ReviewFinding("b", ""), ReviewFinding("a", "", blocking=False), ReviewFinding("a", "x"))
    questions = (question(sentences=("h1",)), question(id="other"))
    summary = summarize(made(sentence(1), questions=questions, answers=(ANSWERED,), findings=findings))
    assert [(finding.kind, finding.blocking) for finding in summary.findings] == [
        ("a", True),
        ("b", True),
        ("a", False),
    ]
    assert [(question.id, question.answer, question.by) for question in summary.questions] == [
        ("other", None, None),
        ("q", 0, "Ada"),
    ]
    assert summary.questions[1].sentences == (1,)


def confirmation(sentence: str, fate: Any, rules: dict[str, str], by: str) -> Confirmation:
    return Confirmation(sentence, fate, rules, by, "2026-01-31T09:00:00+01:00")


def test_a_confirmation_counts_for_exactly_what_was_confirmed() -> None:
    """Another fate, another rule or another hash is to be confirmed again."""
    review = made(
        sentence(1, "rule", ("r",)), sentence(2, "rule", ("r",)), sentence(3, "implied"), sentence(4, "implied"),
        rules=(rule("r"), rule("own"), rule("new")),
        confirmations=(
            confirmation("h1", "rule", {"r": "hash of r"}, "Ada"),
            confirmation("h1", "rule", {"r": "hash of r"}, "Bob"),
            confirmation("h2", "rule", {"r": "old hash"}, "Ada"), confirmation("h3", "implied", {}, "Ada"),
            confirmation("h4", "definition", {}, "Eve"), confirmation("", "rule", {"own": "hash of own"}, "Bob"),
        ),
    )  # fmt: skip
    signatures = summarize(review).signatures
    assert (signatures.confirmed, signatures.sentences, signatures.rules, signatures.void) == (3, (2, 4), ("new",), 2)
    assert signatures.by == {"Ada": 2, "Bob": 2}


@pytest.mark.parametrize(
    ("cost", "dollars"), [(None, None), (0.0, 0.0), (1.5, 1.5), (math.nan, None), (math.inf, None), (10**400, None)]
)
def test_cost_is_unknown_or_a_number(cost: float | None, dollars: float | None) -> None:
    """Calls are also divided by the enforceable sentences."""
    review = made(sentence(1), sentence(2, "open"), sentence(3, "implied"), cost=ModelCost(5, 6, 7, cost))
    assert summarize(review).cost == TranslationCost(5, 6, 7, dollars, 2.5)


def test_the_changes_have_the_command_for_recorded_calls() -> None:
    """Paths are quoted for a shell."""
    changes = DocumentChanges((), (), (), ("a",), (), "new.yaml", "old's.yaml")
    expected = """guardagent replay LOG --policies new.yaml --against 'old'"'"'s.yaml'"""
    assert summarize(made(), changes).to_dict()["changes"]["replay"] == expected
    assert DocumentChanges((), (), (), (), (), "new.yaml").replay == "guardagent replay LOG --policies new.yaml"


@given(reviews())
def test_the_figures_add_up(review: Review) -> None:
    """Also for a review that contradicts itself."""
    review_summarize = summarize(review)
    coverage = review_summarize.coverage
    assert coverage.sentences + coverage.headings == len(review.sentences)
    assert sum(coverage.fates.values()) == coverage.sentences
    parts = (coverage.settled, coverage.single, coverage.open, coverage.undecided)
    assert sum(part.count for part in parts) == coverage.enforceable
    shares = [share for part in (*parts, coverage.covered) for share in (part.of_sentences, part.of_enforceable)]
    assert all(share is None or 0 <= share <= 1 for share in shares)
    free = {rule.id for rule in review.rules} - {name for sentence in review.sentences for name in sentence.rules}
    signed = review_summarize.signatures
    counted = signed.confirmed + len(signed.sentences) + len(signed.rules)
    settled = sum(sentence.hash in review.settled_headings for sentence in review.sentences)
    everything = len(review.sentences) + len(free)
    assert everything - settled <= counted <= everything
    assert (review_summarize.outcome == 3) == (coverage.undecided.count > 0)
    open_items = coverage.open.count + len(review_summarize.open_questions) + len(review_summarize.blocking)
    assert review_summarize.outcome or not open_items
