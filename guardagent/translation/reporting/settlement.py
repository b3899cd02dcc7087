"""The standing of rules and sentences: settled, or what a person still has to decide."""

from __future__ import annotations

from typing import Literal

from guardagent.policy.review.record import Review, ReviewedRule, ReviewedSentence, ReviewFinding, ReviewQuestion

RuleStanding = Literal["settled", "single", "open"]
"""Two readings agree, or a person decided; only one draft could be used; a question or a blocking finding is open."""


class Settlement:
    """The standing of each rule and sentence of a review."""

    def __init__(self, review: Review) -> None:
        open_items: list[ReviewQuestion | ReviewFinding] = [*review.open_questions]
        open_items += [one for one in review.findings if one.blocking]
        self._rules = {rule for one in open_items for rule in one.rules}
        self._sentences = {sentence for one in open_items for sentence in one.sentences}
        # An item that names no rule is about all rules of its sentences.
        self._whole = {sentence for one in open_items if not one.rules for sentence in one.sentences}
        self._resting: dict[str, set[str]] = {rule.id: set(rule.quotes) for rule in review.rules}
        for sentence in review.sentences:
            for name in sentence.rules:
                self._resting.setdefault(name, set()).add(sentence.hash)
        self._known = {rule.id: self._of_rule(rule) for rule in review.rules}

    def of_rule(self, rule: ReviewedRule) -> RuleStanding:
        return self._known[rule.id]

    def of_sentence(self, sentence: ReviewedSentence) -> RuleStanding:
        """Returns the standing of a sentence with rules: the worst of theirs. A missing rule is open."""
        found = [self._known.get(name, "open") for name in sentence.rules]
        if sentence.fate == "open" or sentence.hash in self._sentences or "open" in (found or ["open"]):
            return "open"
        return "single" if "single" in found else "settled"

    def _of_rule(self, rule: ReviewedRule) -> RuleStanding:
        if rule.readings == "open" or rule.id in self._rules or self._resting[rule.id] & self._whole:
            return "open"
        return "single" if rule.readings == "single" else "settled"


def outcome(review: Review) -> Literal[0, 1, 3]:
    """Returns the exit status of a translation.

    Returns:
        3 if the fate of a sentence is open, as the model gave nothing usable; 1 if a question, a blocking finding or
        the readings of a rule are open, or a sentence lacks the rule that it should have; otherwise 0. Of a rule with
        a single reading, its finding decides.
    """
    if any(one.fate == "open" for one in review.sentences):
        return 3
    settlement = Settlement(review)
    standings = {settlement.of_rule(one) for one in review.rules}
    standings |= {settlement.of_sentence(one) for one in review.sentences if one.fate == "rule"}
    blocking = any(one.blocking for one in review.findings)
    return 1 if blocking or review.open_questions or "open" in standings else 0
