"""The standing of rules and sentences, and the exit status."""

from __future__ import annotations

import pytest

from guardagent.policy.review.record import Review, ReviewFinding
from guardagent.translation.report import RuleStanding, Settlement, outcome
from tests.translation.report.reviews import ANSWERED, made, question, rule, sentence

TWO = (sentence(1, "rule", ("a",)), sentence(2, "rule", ("a", "b")))
RULES = (rule("a", "agree", 1, 2), rule("b", "single", 2))


@pytest.mark.parametrize(
    ("review", "rules", "sentences"),
    [
        pytest.param(made(*TWO, rules=RULES), "settled single", "settled single", id="readings"),
        pytest.param(
            made(*TWO, rules=RULES, questions=(question(sentences=("h2",), rules=("b",)),)),
            "settled open", "settled open", id="a question about a rule",
        ),
        pytest.param(
            made(*TWO, rules=RULES, questions=(question(sentences=("h1",)),)),
            "open single", "open open", id="a question about a sentence is about all its rules",
        ),
        pytest.param(
            made(*TWO, rules=RULES, questions=(question(sentences=("h1",)),), answers=(ANSWERED,)),
            "settled single", "settled single", id="an answered question",
        ),
        pytest.param(
            made(*TWO, rules=RULES, findings=(ReviewFinding("case", "", (), ("a",)),)),
            "open single", "open open", id="a blocking finding",
        ),
        pytest.param(
            made(*TWO, rules=RULES, findings=(ReviewFinding("case", "", (), ("a",), blocking=False),)),
            "settled single", "settled single", id="another finding",
        ),
        pytest.param(made(*TWO, rules=RULES[:1]), "settled", "settled open", id="a missing rule"),
    ],
)  # fmt: skip
def test_the_standing_is_that_of_the_readings_questions_and_findings(
    review: Review, rules: str, sentences: str
) -> None:
    """Of each rule, and of each sentence with rules."""
    settlement = Settlement(review)
    standings: list[RuleStanding] = [settlement.of_rule(rule) for rule in review.rules]
    assert " ".join(standings) == rules
    assert " ".join(settlement.of_sentence(sentence) for sentence in review.sentences) == sentences


@pytest.mark.parametrize(
    ("review", "status"),
    [
        pytest.param(made(), 0, id="empty"),
        pytest.param(made(*TWO, rules=RULES), 0, id="settled or single"),
        pytest.param(made(sentence(1, "implied"), questions=(question(),)), 1, id="an open question"),
        pytest.param(made(questions=(question(),), answers=(ANSWERED,)), 0, id="an answered question"),
        pytest.param(made(findings=(ReviewFinding("hidden", ""),)), 1, id="a blocking finding"),
        pytest.param(made(findings=(ReviewFinding("hidden", "", blocking=False),)), 0, id="another finding"),
        pytest.param(made(sentence(1, "rule", ("a",)), rules=(rule("a", "open"),)), 1, id="open readings"),
        pytest.param(made(sentence(1, "rule")), 1, id="a sentence without its rule"),
        pytest.param(made(sentence(1, "open"), questions=(question(),)), 3, id="an undecided sentence"),
        pytest.param(made(sentence(1, "open", kind="heading")), 3, id="an undecided heading"),
    ],
)
def test_the_exit_status_says_whether_a_person_or_a_model_has_to_go_on(review: Review, status: int) -> None:
    """3 comes before 1."""
    assert outcome(review) == status
