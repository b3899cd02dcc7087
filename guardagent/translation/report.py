"""The report on a translation: a short document for the person who signs it.

    review file -> `summarize` -> `TranslationSummary` -> a format of `report_formats`

It has the figures and lists of a review, with sentences by number, and the standing of rules and sentences: settled, or
what a person still has to decide.
"""

from __future__ import annotations

import shlex
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from guardagent.policy.documents import Sentence, SentenceChange
from guardagent.policy.review.record import (
    FATES,
    Fate,
    ModelCost,
    NeededFact,
    Readings,
    Review,
    ReviewedRule,
    ReviewedSentence,
    ReviewFinding,
    ReviewQuestion,
)


@dataclass(frozen=True, slots=True)
class DocumentChanges:
    """The changed sentences, the answers, the rules that fell with them, and those that stay.

    Attributes:
        changed, added, removed: the sentences, as `guardagent.policy.documents.compare` finds them.
        fallen: the ids of the rules that a changed or removed sentence or an answer concerns. They are gone or
            translated again.
        kept: the ids of the other rules of the last version.
        policies: the path of the new policy file.
        against: the path of the last one; empty if it is not kept.
        answers: the ids of the questions whose answers this run applied.
    """

    changed: tuple[SentenceChange, ...]
    added: tuple[Sentence, ...]
    removed: tuple[Sentence, ...]
    fallen: tuple[str, ...]
    kept: tuple[str, ...]
    policies: str
    against: str = ""
    answers: tuple[str, ...] = ()

    @property
    def replay(self) -> str:
        """The command that shows what recorded calls would now get; `LOG` stands for the log or the traces."""
        against = ["--against", self.against] if self.against else []
        return shlex.join(["guardagent", "replay", "LOG", "--policies", self.policies, *against])


RuleStanding = Literal["settled", "single", "open"]
"""Its cases were confirmed, or a person decided; nobody read them; a question or a blocking finding is open."""


class Settlement:
    """The standing of each rule and sentence of a review.

    Attributes:
        resting: the hashes of the sentences that a rule rests on, by its id.
    """

    def __init__(self, review: Review) -> None:
        open_items: list[ReviewQuestion | ReviewFinding] = [*review.open_questions]
        open_items += [finding for finding in review.findings if finding.blocking]
        self._rules = {rule for open_item in open_items for rule in open_item.rules}
        self._sentences = {sentence for open_item in open_items for sentence in open_item.sentences}
        # An item that names no rule is about all rules of its sentences.
        self._whole = {sentence for open_item in open_items if not open_item.rules for sentence in open_item.sentences}
        self.resting = {rule.id: dict.fromkeys(rule.quotes) for rule in review.rules}
        for sentence in review.sentences:
            for name in sentence.rules:
                self.resting.setdefault(name, {})[sentence.hash] = None
        self._known = {rule.id: self._of_rule(rule) for rule in review.rules}

    def of_rule(self, rule: ReviewedRule) -> RuleStanding:
        return self._known[rule.id]

    def of_sentence(self, sentence: ReviewedSentence) -> RuleStanding:
        """Returns the standing of a sentence with rules: the worst of theirs. A missing rule is open."""
        states = [self._known.get(name, "open") for name in sentence.rules]
        if sentence.fate == "open" or sentence.hash in self._sentences or "open" in (states or ["open"]):
            return "open"
        return "single" if "single" in states else "settled"

    def _of_rule(self, rule: ReviewedRule) -> RuleStanding:
        if rule.readings == "open" or rule.id in self._rules or self.resting[rule.id].keys() & self._whole:
            return "open"
        return "single" if rule.readings == "single" else "settled"


def outcome(review: Review) -> Literal[0, 1, 3]:
    """Returns the exit status of a translation.

    Returns:
        3 if the fate of a sentence is open, as the model gave nothing usable; 1 if a question, a blocking finding or
        the readings of a rule are open, or a sentence lacks the rule that it should have; otherwise 0. Of a rule with
        a single reading, its finding decides.
    """
    if any(sentence.fate == "open" for sentence in review.sentences):
        return 3
    settlement = Settlement(review)
    standings = {settlement.of_rule(rule) for rule in review.rules}
    standings |= {settlement.of_sentence(sentence) for sentence in review.sentences if sentence.fate == "rule"}
    blocking = any(finding.blocking for finding in review.findings)
    return 1 if blocking or review.open_questions or "open" in standings else 0


Reference = int | str
"""The number of a sentence, or its hash if the review has no such sentence."""


@dataclass(frozen=True, slots=True)
class CoverageFigure:
    """A number of sentences, and its shares, from 0 to 1. A share of nothing is None."""

    count: int
    of_sentences: float | None
    of_enforceable: float | None


@dataclass(frozen=True, slots=True)
class SentenceCoverage:
    """The fates of the sentences, and the standing of those that a rule can enforce.

    Attributes:
        sentences: the number of sentences without `headings`.
        headings: the number of headings that have no rule and need none.
        fates: the number of sentences of each fate, without headings.
        enforceable: the number of sentences with a rule or an open fate.
        covered: those with a rule; they are `settled`, `single` or `open`.
        settled: those whose rules are settled: a reader confirmed their cases, or a person decided.
        single: those with a rule whose cases nobody but its author has read.
        open: those with a rule and an open question or blocking finding, or without the rule that they should have.
        undecided: those with an open fate.
        partial: those with a rule that covers a part of them only.
    """

    sentences: int
    headings: int
    fates: Mapping[Fate, int]
    enforceable: int
    covered: CoverageFigure
    settled: CoverageFigure
    single: CoverageFigure
    open: CoverageFigure
    undecided: CoverageFigure
    partial: CoverageFigure


@dataclass(frozen=True, slots=True)
class SentenceRow:
    """A sentence and what became of it.

    Attributes:
        number, kind, place, text, fate, reason, rules: as in the review.
        heading: whether it is a heading that the coverage leaves out.
        standing: the standing of its rules; None if its fate is another than `rule`.
    """

    number: int
    kind: str
    place: str
    text: str
    fate: Fate
    reason: str
    rules: tuple[str, ...]
    heading: bool
    standing: RuleStanding | None


@dataclass(frozen=True, slots=True)
class RuleGround:
    """A sentence that a rule rests on; `quote` is empty if the rule quotes no words of it."""

    sentence: Reference
    quote: str


@dataclass(frozen=True, slots=True)
class RuleGrounds:
    """A rule and its sentences. One without any was written by a person."""

    id: str
    standing: RuleStanding
    readings: Readings
    grounds: tuple[RuleGround, ...]


@dataclass(frozen=True, slots=True)
class ChoiceRow:
    """A choice of a question; `allowed` is None if the question is not about a call."""

    answer: str
    allowed: bool | None
    reading: str


@dataclass(frozen=True, slots=True)
class QuestionRow:
    """A question. `answer`, `words`, `by` and `at` are None while it is open.

    Attributes:
        answer: the position of the choice; None if the answer is in own words.
        words: the answer in own words; None if it is a choice.
    """

    id: str
    text: str
    sentences: tuple[Reference, ...]
    rules: tuple[str, ...]
    choices: tuple[ChoiceRow, ...]
    answer: int | None
    by: str | None
    at: str | None
    words: str | None = None


@dataclass(frozen=True, slots=True)
class FindingRow:
    """A finding, as in the review."""

    kind: str
    blocking: bool
    message: str
    sentences: tuple[Reference, ...]
    rules: tuple[str, ...]
    example: str


@dataclass(frozen=True, slots=True)
class Signatures:
    """The confirmations. A confirmation of other content than that of now does not count.

    Attributes:
        confirmed: the number of sentences, and of rules that rest on none, that a person confirmed.
        sentences, rules: those that are still to confirm.
        by: the number of confirmed ones by person.
        void: the number of confirmations of other content.
    """

    confirmed: int
    sentences: tuple[int, ...]
    rules: tuple[str, ...]
    by: Mapping[str, int]
    void: int


@dataclass(frozen=True, slots=True)
class TranslationCost:
    """The model usage. `dollars` is None if a price is unknown, `calls_per_sentence` if no sentence is enforceable."""

    calls: int
    prompt_tokens: int
    completion_tokens: int
    dollars: float | None
    calls_per_sentence: float | None


@dataclass(frozen=True, slots=True)
class TranslationSummary:
    """The content of a report.

    Attributes:
        outcome: the exit status: see `outcome`.
        questions: the open ones first.
        findings: the blocking ones first, then by kind.
        changes: since the last version; None if there is none.
    """

    document: str
    document_hash: str
    outcome: Literal[0, 1, 3]
    coverage: SentenceCoverage
    sentences: tuple[SentenceRow, ...]
    rules: tuple[RuleGrounds, ...]
    facts: tuple[NeededFact, ...]
    questions: tuple[QuestionRow, ...]
    findings: tuple[FindingRow, ...]
    signatures: Signatures
    cost: TranslationCost
    changes: DocumentChanges | None = None

    @property
    def open_questions(self) -> tuple[QuestionRow, ...]:
        return tuple(question for question in self.questions if question.by is None)

    @property
    def blocking(self) -> tuple[FindingRow, ...]:
        """The blocking findings."""
        return tuple(finding for finding in self.findings if finding.blocking)

    def to_dict(self) -> dict[str, Any]:
        """Returns the content as JSON values; the keys are the names of the attributes."""
        content = asdict(self)
        if self.changes is not None:
            content["changes"]["replay"] = self.changes.replay
        return content


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
        self._answers = {answer.question: answer for answer in review.answers}
        self._numbers: defaultdict[str, list[Reference]] = defaultdict(list)
        for sentence in review.sentences:
            self._numbers[sentence.hash].append(sentence.number)

    def summary(self, changes: DocumentChanges | None) -> TranslationSummary:
        review = self._review
        sentences = tuple(map(self._sentence, review.sentences))
        coverage = _coverage(sentences)
        questions = sorted(map(self._question, review.questions), key=lambda question: question.by is not None)
        return TranslationSummary(
            document=review.document,
            document_hash=review.document_hash,
            outcome=outcome(review),
            coverage=coverage,
            sentences=sentences,
            rules=tuple(map(self._rule, review.rules)),
            facts=review.facts,
            questions=tuple(questions),
            findings=tuple(
                sorted(map(self._finding, review.findings), key=lambda finding: (not finding.blocking, finding.kind))
            ),
            signatures=_signatures(review),
            cost=_cost(review.cost, coverage.enforceable),
            changes=changes,
        )

    def _sentence(self, reviewed_sentence: ReviewedSentence) -> SentenceRow:
        standing = self._settlement.of_sentence(reviewed_sentence) if reviewed_sentence.fate == "rule" else None
        return SentenceRow(
            reviewed_sentence.number,
            reviewed_sentence.kind,
            reviewed_sentence.place,
            reviewed_sentence.text,
            reviewed_sentence.fate,
            reviewed_sentence.reason,
            reviewed_sentence.rules,
            reviewed_sentence.is_bare_heading,
            standing,
        )

    def _rule(self, rule: ReviewedRule) -> RuleGrounds:
        resting = self._settlement.resting[rule.id]
        grounds = (
            RuleGround(at, rule.quotes.get(sentence, "")) for sentence in resting for at in self._places([sentence])
        )
        return RuleGrounds(rule.id, self._settlement.of_rule(rule), rule.readings, tuple(grounds))

    def _question(self, review_question: ReviewQuestion) -> QuestionRow:
        answer = self._answers.get(review_question.id)
        return QuestionRow(
            id=review_question.id,
            text=review_question.text,
            sentences=self._places(review_question.sentences),
            rules=review_question.rules,
            choices=tuple(ChoiceRow(choice.answer, choice.allowed, choice.words) for choice in review_question.choices),
            answer=answer.choice if answer else None,
            by=answer.by if answer else None,
            at=answer.at if answer else None,
            words=(answer.words or None) if answer else None,
        )

    def _finding(self, review_finding: ReviewFinding) -> FindingRow:
        return FindingRow(
            review_finding.kind,
            review_finding.blocking,
            review_finding.message,
            self._places(review_finding.sentences),
            review_finding.rules,
            review_finding.example,
        )

    def _places(self, hashes: Iterable[str]) -> tuple[Reference, ...]:
        return tuple(at for digest in hashes for at in self._numbers.get(digest) or [digest])


def _signatures(review: Review) -> Signatures:
    """A confirmation counts for exactly the fate and the rules that stand now. Settled headings need none."""
    settled = review.settled_headings
    headings = {sentence.number for sentence in review.sentences if sentence.hash in settled}
    hashes = {rule.id: rule.hash for rule in review.rules}
    resting = {rule for sentence in review.sentences for rule in sentence.rules}
    sentences = {
        sentence.number: _content(sentence.hash, sentence.fate, {rule: hashes.get(rule, "") for rule in sentence.rules})
        for sentence in review.sentences
    }
    rules = {name: _content("", "rule", {name: digest}) for name, digest in hashes.items() if name not in resting}
    signers: defaultdict[_Content, set[str]] = defaultdict(set)
    for confirmation in review.confirmations:
        signers[_content(confirmation.sentence, confirmation.fate, confirmation.rules)].add(confirmation.by)
    contents = [*sentences.values(), *rules.values()]
    return Signatures(
        confirmed=sum(content in signers for content in contents),
        sentences=tuple(
            number for number, content in sentences.items() if content not in signers and number not in headings
        ),
        rules=tuple(name for name, content in rules.items() if content not in signers),
        by=dict(Counter(name for content in contents if content in signers for name in sorted(signers[content]))),
        void=len(signers.keys() - set(contents)),
    )


_Content = tuple[str, str, frozenset[tuple[str, str]]]


def _content(sentence: str, fate: str, rules: Mapping[str, str]) -> _Content:
    return sentence, fate, frozenset(rules.items())


def _coverage(sentences: Sequence[SentenceRow]) -> SentenceCoverage:
    counted = [sentence for sentence in sentences if not sentence.heading]
    fates = Counter(sentence.fate for sentence in counted)
    standings = Counter(sentence.standing for sentence in counted)
    enforceable = fates["rule"] + fates["open"]

    def figure(count: int) -> CoverageFigure:
        return CoverageFigure(count, _share(count, len(counted)), _share(count, enforceable))

    return SentenceCoverage(
        sentences=len(counted),
        headings=len(sentences) - len(counted),
        fates={fate: fates[fate] for fate in FATES},
        enforceable=enforceable,
        covered=figure(sum(sentence.fate == "rule" and bool(sentence.rules) for sentence in counted)),
        settled=figure(standings["settled"]),
        single=figure(standings["single"]),
        open=figure(standings["open"]),
        undecided=figure(fates["open"]),
        partial=figure(sum(sentence.fate == "rule" and bool(sentence.reason) for sentence in counted)),
    )


def _cost(cost: ModelCost, enforceable: int) -> TranslationCost:
    dollars = cost.cost if cost.cost is not None and 0 <= cost.cost <= sys.float_info.max else None
    calls = _share(cost.calls, enforceable)
    return TranslationCost(cost.calls, cost.prompt_tokens, cost.completion_tokens, dollars, calls)


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole and part <= sys.float_info.max else None
