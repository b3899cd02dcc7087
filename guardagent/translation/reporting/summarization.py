"""Computes the content of a report from a review."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from guardagent.policy.review.record import (
    FATES,
    ModelCost,
    Review,
    ReviewedRule,
    ReviewedSentence,
    ReviewQuestion,
)
from guardagent.translation.report import (
    ChoiceRow,
    CoverageFigure,
    FindingRow,
    QuestionRow,
    Reference,
    RuleGround,
    RuleGrounds,
    SentenceCoverage,
    SentenceRow,
    Signatures,
    TranslationCost,
    TranslationSummary,
)
from guardagent.translation.reporting.changes import DocumentChanges
from guardagent.translation.reporting.settlement import Settlement, outcome


def summarize(review: Review, changes: DocumentChanges | None = None) -> TranslationSummary:
    """Returns the content of the report on a translation.

    Args:
        review: the content of the review file.
        changes: those since the last version of the document.
    """
    return _Summarization(review).summary(changes)


class _Summarization:
    def __init__(self, review: Review) -> None:
        self._review, self._settlement = review, Settlement(review)
        self._answers = {one.question: one for one in review.answers}
        self._numbers: defaultdict[str, list[int]] = defaultdict(list)
        self._resting: defaultdict[str, list[str]] = defaultdict(list)  # sentences by rule
        for one in review.sentences:
            self._numbers[one.hash].append(one.number)
            for rule in one.rules:
                self._resting[rule].append(one.hash)

    def summary(self, changes: DocumentChanges | None) -> TranslationSummary:
        review = self._review
        sentences = tuple(map(self._sentence, review.sentences))
        coverage = _coverage(sentences)
        questions = sorted(map(self._question, review.questions), key=lambda one: one.by is not None)
        return TranslationSummary(
            document=review.document,
            document_hash=review.document_hash,
            outcome=outcome(review),
            coverage=coverage,
            sentences=sentences,
            rules=tuple(map(self._rule, review.rules)),
            facts=review.facts,
            questions=tuple(questions),
            findings=tuple(sorted(self._findings(), key=lambda one: (not one.blocking, one.kind))),
            signatures=_signatures(review),
            cost=_cost(review.cost, coverage.enforceable),
            changes=changes,
        )

    def _sentence(self, one: ReviewedSentence) -> SentenceRow:
        standing = self._settlement.of_sentence(one) if one.fate == "rule" else None
        return SentenceRow(
            one.number, one.kind, one.place, one.text, one.fate, one.reason, one.rules, one.is_bare_heading, standing
        )

    def _rule(self, one: ReviewedRule) -> RuleGrounds:
        hashes = dict.fromkeys([*one.quotes, *self._resting[one.id]])
        grounds = (RuleGround(at, one.quotes.get(found, "")) for found in hashes for at in self._places([found]))
        return RuleGrounds(one.id, self._settlement.of_rule(one), one.readings, tuple(grounds))

    def _question(self, one: ReviewQuestion) -> QuestionRow:
        answer = self._answers.get(one.id)
        return QuestionRow(
            id=one.id,
            text=one.text,
            sentences=self._places(one.sentences),
            rules=one.rules,
            choices=tuple(ChoiceRow(choice.answer, choice.allowed, choice.words) for choice in one.choices),
            answer=answer.choice if answer else None,
            by=answer.by if answer else None,
            at=answer.at if answer else None,
            words=(answer.words or None) if answer else None,
        )

    def _findings(self) -> Iterator[FindingRow]:
        for one in self._review.findings:
            yield FindingRow(one.kind, one.blocking, one.message, self._places(one.sentences), one.rules, one.example)

    def _places(self, hashes: Iterable[str]) -> tuple[Reference, ...]:
        found: list[Reference] = []
        for one in hashes:
            found += self._numbers.get(one) or [one]
        return tuple(found)


def _signatures(review: Review) -> Signatures:
    """A confirmation counts for exactly the fate and the rules that stand now. Settled headings need none."""
    settled = review.settled_headings
    headings = {one.number for one in review.sentences if one.hash in settled}
    hashes = {rule.id: rule.hash for rule in review.rules}
    resting = {rule for sentence in review.sentences for rule in sentence.rules}
    sentences = {
        one.number: _content(one.hash, one.fate, {rule: hashes.get(rule, "") for rule in one.rules})
        for one in review.sentences
    }
    rules = {name: _content("", "rule", {name: digest}) for name, digest in hashes.items() if name not in resting}
    signers: defaultdict[_Content, set[str]] = defaultdict(set)
    for one in review.confirmations:
        signers[_content(one.sentence, one.fate, one.rules)].add(one.by)
    contents = [*sentences.values(), *rules.values()]
    return Signatures(
        confirmed=sum(one in signers for one in contents),
        sentences=tuple(
            number for number, content in sentences.items() if content not in signers and number not in headings
        ),
        rules=tuple(name for name, content in rules.items() if content not in signers),
        by=dict(Counter(name for one in contents if one in signers for name in sorted(signers[one]))),
        void=len(signers.keys() - set(contents)),
    )


_Content = tuple[str, str, frozenset[tuple[str, str]]]


def _content(sentence: str, fate: str, rules: Mapping[str, str]) -> _Content:
    return sentence, fate, frozenset(rules.items())


def _coverage(sentences: Sequence[SentenceRow]) -> SentenceCoverage:
    counted = [one for one in sentences if not one.heading]
    fates = Counter(one.fate for one in counted)
    standings = Counter(one.standing for one in counted)
    enforceable = fates["rule"] + fates["open"]

    def figure(count: int) -> CoverageFigure:
        return CoverageFigure(count, _share(count, len(counted)), _share(count, enforceable))

    return SentenceCoverage(
        sentences=len(counted),
        headings=len(sentences) - len(counted),
        fates={fate: fates[fate] for fate in FATES},
        enforceable=enforceable,
        covered=figure(sum(one.fate == "rule" and bool(one.rules) for one in counted)),
        settled=figure(standings["settled"]),
        single=figure(standings["single"]),
        open=figure(standings["open"]),
        undecided=figure(fates["open"]),
        partial=figure(sum(one.fate == "rule" and bool(one.reason) for one in counted)),
    )


def _cost(cost: ModelCost, enforceable: int) -> TranslationCost:
    dollars = cost.cost if cost.cost is not None and 0 <= cost.cost <= sys.float_info.max else None
    calls = _share(cost.calls, enforceable)
    return TranslationCost(cost.calls, cost.prompt_tokens, cost.completion_tokens, dollars, calls)


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole and part <= sys.float_info.max else None
