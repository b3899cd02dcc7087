"""The content of a report: the figures and lists of a review, with sentences by number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from guardagent.policy.review.record import Fate, NeededFact, Readings
from guardagent.translation.reporting.changes import DocumentChanges
from guardagent.translation.reporting.settlement import RuleStanding

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
        settled: those whose rules are settled: two drafts agree, or a person decided.
        single: those with a rule of which only one draft could be used.
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
        outcome: the exit status: see `settlement.outcome`.
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
        return tuple(one for one in self.questions if one.by is None)

    @property
    def blocking(self) -> tuple[FindingRow, ...]:
        """The blocking findings."""
        return tuple(one for one in self.findings if one.blocking)

    def to_dict(self) -> dict[str, Any]:
        """Returns the content as JSON values; the keys are the names of the attributes."""
        content = asdict(self)
        if self.changes is not None:
            content["changes"]["replay"] = self.changes.replay
        return content
