"""The types of a review file: the record of how the sentences of a document became the rules of a policy.

`policies.review.json` lies beside `policies.yaml`. `translate` writes it, `review` adds answers and confirmations, and
`load_policies(require_review=True)` compares it with the policy and the document.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

Fate = Literal["rule", "definition", "fact", "implied", "not_enforceable", "open"]
"""What became of a sentence: rules, part of other rules, a fact that the host has to give, nothing as other sentences
imply it, nothing as no rule can enforce it; `open` if that is not decided."""

FATES: tuple[Fate, ...] = get_args(Fate)

Readings = Literal["agree", "answered", "open", "single", "edited"]
"""Whether two independent drafts of a rule say the same: proved, decided by the answer to a question, still open, only
one draft could be used, or the rule was not drafted but written or changed by a person."""


@dataclass(frozen=True, slots=True)
class ReviewedSentence:
    """A sentence of the document and what became of it.

    Attributes:
        number, text, kind, path, context, place, hash: as in `guardagent.policy.documents.Sentence`.
        fate: what became of it.
        reason: why it has no rule, or which part of it no rule covers; may be empty if it has rules.
        rules: the ids of the rules that rest on it.
    """

    number: int
    text: str
    kind: str
    path: tuple[str, ...]
    context: tuple[str, ...]
    place: str
    hash: str
    fate: Fate
    reason: str = ""
    rules: tuple[str, ...] = ()

    @property
    def is_bare_heading(self) -> bool:
        """Whether it is a heading that has no rule and needs none."""
        return self.kind == "heading" and not self.rules and self.fate not in ("rule", "open")


@dataclass(frozen=True, slots=True)
class ReviewedRule:
    """A rule of the policy as the review saw it.

    Attributes:
        hash: the `rule_hash` of the rule in the policy file.
        quotes: the quoted words that it rests on, by the hash of their sentence.
        words: the rule in natural language, generated from the rule.
        cases: boundary cases, as records of `check`.
        readings: whether two drafts agree.
    """

    id: str
    hash: str
    quotes: Mapping[str, str]
    words: str
    cases: tuple[Mapping[str, Any], ...] = ()
    readings: Readings = "agree"


@dataclass(frozen=True, slots=True)
class ReviewChoice:
    """One answer to a question.

    Attributes:
        answer: in natural language.
        allowed: whether the call of the witness may run; None if the question has no witness.
        words: the reading of the sentence that gives this answer, in natural language.
        policy: that reading as the content of a policy file; empty if it is no rule at all.
    """

    answer: str
    allowed: bool | None
    words: str
    policy: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReviewQuestion:
    """A question to the owner of the document.

    Attributes:
        id: depends on the sentences and the witness, or the readings, only.
        sentences: the hashes of its sentences.
        rules: the ids of the rules that it decides about, as they stand in the policy.
        choices: at least two.
        witness: the conversation on which two readings differ, as a case or a trace; None if there is none.
    """

    id: str
    sentences: tuple[str, ...]
    rules: tuple[str, ...]
    text: str
    choices: tuple[ReviewChoice, ...]
    witness: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class RecordedAnswer:
    """The answer of a person.

    Attributes:
        choice: a position in `choices` of the question; None if the answer is in the person's own words.
        by, at: who and when (ISO 8601 with zone).
        applied: whether `translate` has applied it; until then nobody can confirm what it is about.
        words: the person's own words, which are a ruling; empty if the answer is a choice.
    """

    question: str
    choice: int | None
    by: str
    at: str
    applied: bool = False
    words: str = ""


@dataclass(frozen=True, slots=True)
class ReviewFinding:
    """Something that a person has to know before they confirm.

    Attributes:
        kind: a short name, such as `unnoticed_mutant` or `contradictory`.
        sentences: the hashes of the sentences concerned.
        rules: the ids of the rules concerned.
        example: a call or case that shows it; may be empty.
        blocking: whether the translation is incomplete or unsound until it is resolved.
        of_policy: whether it is about the policy as it stands, so that each translation looks for it again.
    """

    kind: str
    message: str
    sentences: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    example: str = ""
    blocking: bool = True
    of_policy: bool = False


@dataclass(frozen=True, slots=True)
class Confirmation:
    """A person confirms what became of a sentence.

    Attributes:
        sentence: the hash of the sentence; empty for a rule that rests on none.
        fate: the fate that was confirmed.
        rules: the rules that were confirmed, with their hashes.
        by, at: who and when (ISO 8601 with zone).
    """

    sentence: str
    fate: Fate
    rules: Mapping[str, str]
    by: str
    at: str


@dataclass(frozen=True, slots=True)
class NeededFact:
    """A fact that the host has to give, such as `user_confirmed`."""

    name: str
    description: str = ""


@dataclass(frozen=True, slots=True)
class ModelCost:
    """The model usage of the translation. `cost` is in US dollars; None if the prices are unknown."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class Review:
    """The content of a review file.

    Attributes:
        document: the path of the document, relative to the review file where possible.
        document_hash: the SHA-256 of its bytes, in hexadecimal.
    """

    document: str
    document_hash: str
    sentences: tuple[ReviewedSentence, ...]
    rules: tuple[ReviewedRule, ...] = ()
    facts: tuple[NeededFact, ...] = ()
    questions: tuple[ReviewQuestion, ...] = ()
    answers: tuple[RecordedAnswer, ...] = ()
    findings: tuple[ReviewFinding, ...] = ()
    confirmations: tuple[Confirmation, ...] = ()
    cost: ModelCost = field(default_factory=ModelCost)

    @property
    def settled_headings(self) -> frozenset[str]:
        """The hashes of the headings that nobody has to confirm: no rule, question or finding is about them."""
        doubtful = {name for one in self.questions for name in one.sentences}
        doubtful |= {name for one in self.findings for name in one.sentences}
        return frozenset(one.hash for one in self.sentences if one.is_bare_heading and one.hash not in doubtful)

    @property
    def open_questions(self) -> tuple[ReviewQuestion, ...]:
        """The questions without an answer."""
        answered = {one.question for one in self.answers}
        return tuple(one for one in self.questions if one.id not in answered)
