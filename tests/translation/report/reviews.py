"""Reviews for the tests of the report."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

from hypothesis import strategies as st

from guardagent.policy.documents import Sentence, SentenceChange
from guardagent.policy.review.record import (
    FATES,
    Confirmation,
    ModelCost,
    NeededFact,
    Readings,
    RecordedAnswer,
    Review,
    ReviewChoice,
    ReviewedRule,
    ReviewedSentence,
    ReviewFinding,
    ReviewQuestion,
)
from guardagent.translation.report import DocumentChanges

EVIL = (
    "</td><script>x</script>",
    "[a](javascript:alert) ![i](http://e.com/i)",
    "`` a | b \\| c \\",
    "a\n\n# h\n\x1b[31m\u202e @all #1",
    "half a \ud83d pair {{ 7 * 7 }}",
    "| a |\n|---|",
)
ANSWERED = RecordedAnswer("q", 0, "Ada", "2026-01-31T09:00:00+01:00")


def sentence(number: int, fate: Any = "rule", rules: tuple[str, ...] = (), **others: Any) -> ReviewedSentence:
    made = ReviewedSentence(number, f"Sentence {number}.", "sentence", (), (), f"line {number}", f"h{number}", fate)
    return replace(made, rules=rules, **others)


def rule(name: str, readings: Readings = "agree", *numbers: int) -> ReviewedRule:
    quotes = {f"h{number}": f"words of {number}" for number in numbers}
    return ReviewedRule(name, f"hash of {name}", quotes, f"{name} in words", readings=readings)


def question(**others: Any) -> ReviewQuestion:
    choices = (ReviewChoice("Yes.", True, "at most"), ReviewChoice("No.", False, "less than"))  # noqa: FBT003
    return replace(ReviewQuestion("q", (), (), "After 24 hours exactly?", choices), **others)


def made(*sentences: ReviewedSentence, **others: Any) -> Review:
    return replace(Review("policy.md", "a" * 64, sentences), **others)


_text = st.sampled_from(EVIL) | st.text(max_size=12)
_hash = st.sampled_from(["h1", "h2", "h3", "gone"])
_rule = st.sampled_from(["r1", "r2", *EVIL[:3]])
_some_rules = st.lists(_rule, max_size=3, unique=True).map(tuple)
_some_hashes = st.lists(_hash, max_size=3, unique=True).map(tuple)
_fate = st.sampled_from(FATES)
_count = st.integers(0, 2) | st.just(10**400)


def _listed(strategy: st.SearchStrategy[Any], *, by: Any = None) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(strategy, max_size=4, unique_by=by).map(tuple)


def reviews() -> st.SearchStrategy[Review]:
    """Any review, also one that contradicts itself."""
    kinds = st.sampled_from(["heading", "sentence", "row"])
    sentences = st.builds(
        ReviewedSentence, st.integers(1, 9), _text, kinds, st.just(()), st.just(()), _text, _hash, _fate, _text,
        _some_rules,
    )  # fmt: skip
    rules = st.builds(
        ReviewedRule, _rule, _text, st.dictionaries(_hash, _text, max_size=2), _text, st.just(()),
        st.sampled_from(get_args(Readings)),
    )  # fmt: skip
    choices = st.builds(ReviewChoice, _text, st.none() | st.booleans(), _text, st.just({}))
    questions = st.builds(ReviewQuestion, _text, _some_hashes, _some_rules, _text, _listed(choices))
    findings = st.builds(ReviewFinding, _text, _text, _some_hashes, _some_rules, _text, st.booleans())
    confirmations = st.builds(
        Confirmation, _hash | st.just(""), _fate, st.dictionaries(_rule, _text, max_size=2), _text, _text
    )
    return st.builds(
        Review,
        document=_text,
        document_hash=_text,
        sentences=_listed(sentences, by=lambda sentence: sentence.number),
        rules=_listed(rules, by=lambda rule: rule.id),
        facts=_listed(st.builds(NeededFact, _text, _text)),
        questions=_listed(questions),
        answers=_listed(st.builds(RecordedAnswer, _text, st.integers(-1, 3), _text, _text)),
        findings=_listed(findings),
        confirmations=_listed(confirmations),
        cost=st.builds(ModelCost, _count, _count, _count, st.none() | st.floats()),
    )


def changes() -> st.SearchStrategy[DocumentChanges]:
    builds = st.builds(Sentence, st.integers(1, 9), _text, st.just("item"), st.just(()), st.just(()), _text, _hash)
    pairs = st.builds(SentenceChange, builds, builds, st.floats(0, 1))
    return st.builds(
        DocumentChanges, _listed(pairs), _listed(builds), _listed(builds), _some_rules, _some_rules, _text, _text
    )
