"""The review file: the record of how the sentences of a document became the rules of a policy.

`policies.review.json` lies beside `policies.yaml`. `translate` writes it, `review` adds answers and confirmations, and
`load_policies(require_review=True)` compares it with the policy and the document. It is read strictly: a record that is
misread confirms something else.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from guardagent._support.files import parse_json, read_text, save_text
from guardagent._support.json_values import plain, record_of
from guardagent.errors import ContentError
from guardagent.policy.documents.sentences import Sentence, identity

# --- the types

Fate = Literal["rule", "definition", "fact", "implied", "not_enforceable", "open"]
"""What became of a sentence: rules, part of other rules, a fact that the host has to give, nothing as other sentences
imply it, nothing as no rule can enforce it; `open` if that is not decided."""

FATES: tuple[Fate, ...] = get_args(Fate)

Readings = Literal["agree", "answered", "open", "single", "edited"]
"""Whether an independent reader of the document takes the cases of a rule as its author does: confirmed, decided by the
answer to a question, still open, nobody has read them, or the rule was written or changed by a person."""


@dataclass(frozen=True, slots=True)
class ReviewedSentence(Sentence):
    """A sentence of the document and what became of it.

    Attributes:
        fate: what became of it.
        reason: why it has no rule, or which part of it no rule covers; may be empty if it has rules.
        rules: the ids of the rules that rest on it.
    """

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
        readings: whether a reader of the document confirmed its cases.
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
        policy: that reading as the content of a policy file; empty if it is not a rule at all.
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
        doubtful = {name for question in self.questions for name in question.sentences}
        doubtful |= {name for finding in self.findings for name in finding.sentences}
        return frozenset(
            sentence.hash for sentence in self.sentences if sentence.is_bare_heading and sentence.hash not in doubtful
        )

    @property
    def open_questions(self) -> tuple[ReviewQuestion, ...]:
        """The questions without an answer."""
        answered = {answer.question for answer in self.answers}
        return tuple(question for question in self.questions if question.id not in answered)


# --- the file

VERSION = 1
MAX_BYTES = 50_000_000


def read_review(path: Path | str) -> Review:
    """Reads a review file.

    Raises:
        InputError: the file is missing or unreadable.
        ContentError: it is not a review file, or contradicts itself; the message has the path of keys.
    """
    path = Path(path)
    if path.exists() and not (path.is_file() or path.is_dir()):  # a pipe or a device may never end
        raise ContentError("is not a regular file; expected a review file", path)
    return _parsed(read_text(path, limit=MAX_BYTES), path)


def write_review(path: Path | str, review: Review) -> None:
    """Writes a review file, as a whole or not at all.

    Raises:
        InputError: it cannot be written.
        ContentError: nobody could read the file again; nothing is written.
    """
    try:
        text = json.dumps({"version": VERSION, **plain(review)}, indent=1, ensure_ascii=False) + "\n"
    except RecursionError:
        raise ContentError("is nested too deep to be written; expected fewer levels", path) from None
    _parsed(text, Path(path))
    save_text(path, text)


def instant(text: str) -> dt.datetime | None:
    """Returns the time of a record; None if it is not a time or has no zone."""
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if moment.utcoffset() is None else moment


def _parsed(text: str, path: Path) -> Review:
    value = parse_json(text, path)
    if not isinstance(value, dict) or "version" not in value:
        raise ContentError("is not a review file; expected a JSON object with 'version' and 'sentences'", path)
    version = value.pop("version")
    if type(version) is not int or version != VERSION:
        raise ContentError(f"version: is {str(version)[:60]!r}; expected {VERSION}", path)
    try:
        review = record_of(Review, value)
    except ValueError as error:
        raise ContentError(str(error), path) from None
    for problem in _problems(review):
        raise ContentError(problem, path)
    return review


def _problems(review: Review) -> Iterator[str]:
    """Yields contradictions in a review, with the path of keys."""
    if not re.fullmatch("[0-9a-f]{64}", review.document_hash):
        yield "document_hash: is not a SHA-256; expected 64 hexadecimal digits"
    yield from _sentence_problems(review.sentences)
    yield from _repeated("rules", (rule.id for rule in review.rules))
    yield from _repeated("questions", (question.id for question in review.questions))
    yield from _repeated("answers", (answer.question for answer in review.answers))
    yield from _answer_problems(review)
    yield from _signature_problems("answers", review.answers)
    yield from _signature_problems("confirmations", review.confirmations)


def _sentence_problems(sentences: tuple[ReviewedSentence, ...]) -> Iterator[str]:
    same: dict[str, tuple[Any, ...]] = {}
    for at, sentence in enumerate(sentences):
        if sentence.number != at + 1:
            yield (
                f"sentences[{at}].number: is {sentence.number}; expected {at + 1}, as all sentences are listed in order"
            )
        if sentence.hash not in _identities(sentence, sentences[0]):
            yield (
                f"sentences[{at}].hash: is not the hash of sentence {sentence.number} ({sentence.text[:60]!r}): "
                "it was edited here; edit the document instead, and run 'guardagent translate' again"
            )
        yield from _repeated(f"sentences[{at}].rules", sentence.rules)
        if same.setdefault(sentence.hash, result := (sentence.fate, frozenset(sentence.rules))) != result:
            yield (
                f"sentences[{at}]: sentence {sentence.number} repeats an earlier one with another fate or other rules; "
                "expected the same, since one confirmation is for both"
            )


def _identities(reviewed_sentence: ReviewedSentence, first: ReviewedSentence) -> Iterator[str]:
    """The hashes that a sentence can have. The title of the document, its first sentence, is in the path only."""
    text, kind, path, context = (getattr(reviewed_sentence, key) for key in ("text", "kind", "path", "context"))
    yield identity(text, kind, path, context)
    if first.kind == "heading" and path[:1] == (first.text,):
        yield identity(text, kind, path[1:], context)


def _repeated(place: str, names: Iterable[str]) -> Iterator[str]:
    for name, count in Counter(names).items():
        if count > 1:
            yield f"{place}: {name[:60]!r} appears {count} times; expected it once"


def _answer_problems(review: Review) -> Iterator[str]:
    for at, question in enumerate(review.questions):
        if len(question.choices) < 2:
            yield f"questions[{at}].choices: has {len(question.choices)} entries; expected at least two"
    choices = {question.id: len(question.choices) for question in review.questions}
    for at, answer in enumerate(review.answers):
        if answer.question not in choices:
            yield f"answers[{at}].question: there is no question {answer.question[:60]!r}; expected one of 'questions'"
        elif problem := _choice_problem(answer, choices[answer.question] - 1):
            yield f"answers[{at}].{problem}"


def _choice_problem(answer: RecordedAnswer, last: int) -> str:
    """The problem of an answer, which is either a choice or in own words; empty if there is none."""
    if answer.choice is None:
        return "" if answer.words.strip() else f"choice: is null; expected a position from 0 to {last}, or 'words'"
    if answer.words:
        return "words: are given with a choice; expected one of both, and null for the other or no key"
    if not 0 <= answer.choice <= last:
        return f"choice: is {answer.choice}; expected a position from 0 to {last}, or null with 'words'"
    return ""


def _signature_problems(key: str, signed: Iterable[RecordedAnswer | Confirmation]) -> Iterator[str]:
    for at, answer in enumerate(signed):
        if not answer.by.strip():
            yield f"{key}[{at}].by: is empty; expected the name of a person"
        if instant(answer.at) is None:
            yield (
                f"{key}[{at}].at: is {answer.at[:60]!r}; expected a time with zone, such as 2026-01-31T09:00:00+01:00"
            )
