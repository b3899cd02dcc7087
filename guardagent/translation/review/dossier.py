"""A review file joined with the policy file as it stands now, and the store of answers and confirmations in it.

An entry is a sentence with the rules, findings and questions that concern it. Several people may answer and confirm in
one file, also in their own words, such as `neither: only on Mondays`. Quotes of a sentence are marked segments of it,
and a boundary case is shown as three short strings.
"""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import count
from pathlib import Path
from textwrap import dedent
from typing import Literal

from guardagent._support.files import shared_folder_lock
from guardagent.errors import InputError
from guardagent.policy.documents.sentences import find_quote
from guardagent.policy.load import load_policies
from guardagent.policy.policies import Policies
from guardagent.policy.review import read_review, review_path, review_problems, rule_hashes, write_review
from guardagent.policy.review.record import (
    Confirmation,
    Fate,
    Readings,
    RecordedAnswer,
    Review,
    ReviewedRule,
    ReviewedSentence,
    ReviewFinding,
    ReviewQuestion,
)
from guardagent.policy.review.requirement import document_problems
from guardagent.policy.words import policies_in_words

# --- entries

Standing = Literal["question", "waiting", "unconfirmed", "confirmed"]
"""A question is open; only `translate` or an editor of the policy can go on; a person can confirm; a person did, or it
is a heading, which needs no confirmation."""

EntryKey = tuple[int, str]
"""The number and hash of a sentence, or 0 and the id of a rule."""

FATE_PHRASES: dict[Fate, str] = {
    "rule": "enforced by a rule",
    "definition": "a definition, part of other rules",
    "fact": "a fact that the host has to give",
    "implied": "already implied by other sentences",
    "not_enforceable": "not enforceable by a rule",
    "open": "not decided yet",
}

READINGS_PHRASES: dict[Readings, str] = {
    "agree": "a reader of the document took its cases as its author did",
    "answered": "an answer chose between two readings",
    "open": "a question about its sentences is open",
    "single": "only its author has read its cases",
    "edited": "written or changed by a person; no reader of the document has read its cases",
}
_LETTERS = "abcdefghijklmnoprtuvwxz"  # without the other keys of the dialogue
_AGAIN = "run 'guardagent translate' again"


@dataclass(frozen=True, slots=True)
class RuleEntry:
    """A rule as it stands in the policy file.

    Attributes:
        hash: its hash in the policy file; empty if the file has no such rule any more.
        words: the rule in natural language, generated from the policy file.
        source: its lines in the policy file.
        recorded: the rule as translated; None if it was written by a person.
    """

    id: str
    hash: str
    words: str
    source: str
    recorded: ReviewedRule | None

    @property
    def readings(self) -> Readings:
        """Whether its cases were confirmed; `edited` if the rule is not the one that was drafted."""
        return self.recorded.readings if self.recorded and self.recorded.hash == self.hash else "edited"

    @property
    def note(self) -> str:
        """The difference from the rule as translated; empty if there is none."""
        if not self.hash:
            return "missing from the policy file"
        if self.recorded is None:
            return "written by a person"
        is_worded_alike = self.recorded.words == self.words
        if self.recorded.hash != self.hash:
            return f"changed since the translation{', but not its words' if is_worded_alike else ''}"
        return "" if is_worded_alike else "the same rule in other words than at the translation"


@dataclass(frozen=True, slots=True)
class QuestionEntry:
    """A question with its answer; None if it is open."""

    question: ReviewQuestion
    answer: RecordedAnswer | None


@dataclass(frozen=True, slots=True)
class ReviewEntry:
    """A sentence and everything that a person confirms with it.

    Attributes:
        sentence: the sentence; None for a rule that rests on none.
        findings, questions: those about the sentence or one of its rules.
        confirmation: the confirmation of exactly this content, if there is one.
        void: the last confirmation of other content, if there is one.
    """

    sentence: ReviewedSentence | None
    rules: tuple[RuleEntry, ...] = ()
    findings: tuple[ReviewFinding, ...] = ()
    questions: tuple[QuestionEntry, ...] = ()
    confirmation: Confirmation | None = None
    void: Confirmation | None = None

    @property
    def key(self) -> EntryKey:
        return (self.sentence.number, self.sentence.hash) if self.sentence else (0, self.rules[0].id)

    @property
    def name(self) -> str:
        """A short name for messages."""
        return f"sentence {self.sentence.number}" if self.sentence else f"rule {self.rules[0].id!r}"

    @property
    def fate(self) -> Fate:
        return self.sentence.fate if self.sentence else "rule"

    @property
    def rule_hashes(self) -> dict[str, str]:
        """The rules that a confirmation of this entry is about, with their hashes."""
        return {rule.id: rule.hash for rule in self.rules}

    @property
    def quotes(self) -> list[str]:
        """The words of the sentence that its rules rest on."""
        quotes = [self.quote(rule) for rule in self.rules]
        return [quote for quote in quotes if quote]

    def quote(self, rule: RuleEntry) -> str:
        """The words of the sentence that a rule rests on; empty if it quotes none."""
        quotes = rule.recorded.quotes if rule.recorded else {}
        return quotes.get(self.sentence.hash, "") if self.sentence else ""

    def grounds(self, rule: RuleEntry) -> Iterator[str]:
        """Yields the doubts about a rule: its readings, and a quote that the sentence does not have."""
        if rule.readings != "agree":
            yield READINGS_PHRASES[rule.readings]
        if self.sentence and rule.recorded and not self.quote(rule):
            yield "quotes no words of this sentence"
        elif self.sentence and rule.recorded and not find_quote(self._whole, self.quote(rule)):
            yield f"quotes words that the sentence does not have: {self.quote(rule)}"

    @property
    def _whole(self) -> str:
        """The sentence below its headings and its context."""
        return "\n".join((*self.sentence.path, *self.sentence.context, self.sentence.text)) if self.sentence else ""

    @property
    def open_questions(self) -> tuple[ReviewQuestion, ...]:
        return tuple(question.question for question in self.questions if question.answer is None)

    @property
    def choices(self) -> dict[str, tuple[ReviewQuestion, int]]:
        """The choices of all questions by the keys of the dialogue: a, b, …, and a2, b2, … after the last letter."""
        question_choices = [
            (question.question, at) for question in self.questions for at in range(len(question.question.choices))
        ]
        keys = (f"{letter}{turn if turn > 1 else ''}" for turn in count(1) for letter in _LETTERS)
        return dict(zip(keys, question_choices, strict=False))

    @property
    def keys(self) -> dict[tuple[str, int], str]:
        """The key of each choice, by the id of its question and its position."""
        return {(question.id, at): key for key, (question, at) in self.choices.items()}

    @property
    def obstacle(self) -> str:
        """The reason why nobody can confirm the entry; empty if somebody can."""
        if number := len(self.open_questions):
            return f"{number} open question{'s' if number > 1 else ''}"
        if any(question.answer and not question.answer.applied for question in self.questions):
            return f"the answer is not applied yet; {_AGAIN}"
        if self.sentence and (missing := [rule.id for rule in self.rules if not rule.hash]):
            return f"the policy file has no rule {missing[0]!r} any more; restore it, or {_AGAIN}"
        if self.fate == "rule" and not self.rules:
            return f"it has no rule; {_AGAIN}"
        is_open = self.fate == "open" or any(rule.readings == "open" for rule in self.rules)
        return f"its treatment is still undecided; {_AGAIN}" if is_open else ""

    @property
    def standing(self) -> Standing:
        if self.open_questions:
            return "question"
        if self.obstacle:
            return "waiting"
        return "confirmed" if self.confirmation or self.is_settled_heading else "unconfirmed"

    @property
    def is_settled_heading(self) -> bool:
        """Whether it is a heading that nobody has to confirm: no rule, question or finding is about it."""
        is_bare = self.sentence is not None and self.sentence.is_bare_heading
        return is_bare and not self.findings and not self.questions


# --- own words

LONGEST = 2000
_LINE = re.compile(r"neither(?:\s+(?P<key>[a-z]\d*))?\s*:(?P<words>.*)", re.IGNORECASE | re.DOTALL)


def begins_own_words(line: str) -> bool:
    """Whether a line of the dialogue is an answer in own words."""
    return _LINE.match(line) is not None


def own_words(line: str, entry: ReviewEntry) -> tuple[ReviewQuestion, str]:
    """Returns the question that a line answers, and the words.

    Args:
        line: a line that begins with `neither:`, or with `neither KEY:` and the key of a choice of the question.
        entry: the entry that was shown.

    Raises:
        InputError: there are no words, too many, or such that nobody can read; or it is not clear which question they
            answer.
    """
    match = _LINE.match(line)
    words = " ".join(match["words"].split()) if match else ""
    if not match or not words:
        raise InputError("there are no words after 'neither:'; expected what is to hold instead")
    if len(words) > LONGEST:
        raise InputError(f"the answer has {len(words):,} characters; expected at most {LONGEST:,}")
    if not words.isprintable():
        raise InputError("the answer has characters that cannot be shown; expected text")
    return _question(match["key"], entry), words


def _question(key: str | None, entry: ReviewEntry) -> ReviewQuestion:
    if key is not None:
        if key.lower() not in entry.choices:
            raise InputError(f"{key!r} is not the key of a choice; expected one of {', '.join(entry.choices)}")
        return entry.choices[key.lower()][0]
    possible = entry.open_questions or tuple(question.question for question in entry.questions)
    if len(possible) != 1:
        raise InputError("there are several questions; expected the key of a choice of one of them: 'neither a: …'")
    return possible[0]


# --- marked segments


def segments(text: str, quotes: Iterable[str]) -> list[tuple[str, bool]]:
    """Splits a text into parts that are quoted and parts that are not, in order."""
    spans = sorted(span for quote in quotes for span in find_quote(text, quote))
    parts, at = [], 0
    for start, end in spans:
        parts += [(text[at:start], False), (text[max(at, start) : end], True)]
        at = max(at, end)
    return [part for part in [*parts, (text[at:], False)] if part[0]]


def coded(text: str) -> list[tuple[str, bool]]:
    """Splits a text into parts that stand in code marks and parts that do not, in order."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # a mark without its partner
        return [(text, False)]
    return [(part, at % 2 == 1) for at, part in enumerate(parts) if part]


# --- the review with its policy


@dataclass(frozen=True, slots=True)
class ReviewDossier:
    """A review as a person sees it.

    Attributes:
        policies: the policy file.
        loaded: the policies in it.
        entries: the sentences in the order of the document, then the rules that rest on none.
        findings: those about no sentence and no rule.
    """

    policies: Path
    loaded: Policies
    review: Review
    entries: tuple[ReviewEntry, ...]
    findings: tuple[ReviewFinding, ...]

    @property
    def counts(self) -> Counter[Standing]:
        """The number of entries of each standing."""
        return Counter(entry.standing for entry in self.entries)

    @property
    def problems(self) -> tuple[str, ...]:
        """The reasons why the policy cannot be loaded with `require_review`."""
        return review_problems(self.loaded, self.review, self.policies.parent)

    @property
    def document_problems(self) -> tuple[str, ...]:
        """The differences of the document from the one that was translated."""
        return document_problems(self.review, self.policies.parent)

    @property
    def is_complete(self) -> bool:
        """Whether everything is confirmed and no question is open."""
        return set(self.counts) <= {"confirmed"} and not self.problems


def read_dossier(policies: Path) -> ReviewDossier:
    """Reads a policy file and the review file beside it.

    Raises:
        InputError: one of them is missing or invalid.
    """
    review = read_review(review_path(policies))
    loaded = load_policies(policies)
    rules = _rules_now(loaded, review)
    entries = tuple(_entry(review, *pair) for pair in _sentences_and_rules(review, rules))
    shown = {id(finding) for entry in entries for finding in entry.findings}
    general = tuple(finding for finding in review.findings if id(finding) not in shown)
    return ReviewDossier(policies, loaded, review, entries, general)


def _rules_now(policies: Policies, review: Review) -> dict[str, RuleEntry]:
    """The rules of a policy file, and those of a review that it no longer has, by id."""
    recorded = {rule.id: rule for rule in review.rules}
    hashes, words = rule_hashes(policies), policies_in_words(policies)
    sources = () if policies.source is None else policies.source.rules
    lines = {path: path.read_text("utf-8-sig", "replace").splitlines() for path in {source.path for source in sources}}
    entries = {
        source.id: RuleEntry(
            source.id,
            hashes[source.id],
            words[source.id].text,
            _excerpt(lines[source.path][source.line - 1 :]),
            recorded.get(source.id),
        )
        for source in sources
    }
    known = {name for sentence in review.sentences for name in sentence.rules}
    known |= {name for confirmed in review.confirmations for name in confirmed.rules}
    return entries | {name: RuleEntry(name, "", "", "", recorded.get(name)) for name in sorted(known - set(entries))}


def _excerpt(lines: Sequence[str]) -> str:
    """The first line, and those below it that are indented more."""
    indents = [len(line) - len(line.lstrip()) if line.strip() else None for line in lines]
    ends = (at for at, indent in enumerate(indents) if at and indent is not None and indent <= (indents[0] or 0))
    return dedent("\n".join(lines[: next(ends, None)])).strip()


def _sentences_and_rules(
    review: Review, rules: Mapping[str, RuleEntry]
) -> Iterator[tuple[ReviewedSentence | None, tuple[RuleEntry, ...]]]:
    """Yields each sentence with its rules, and those that rest on none, also if they were confirmed and are gone."""
    for sentence in review.sentences:
        yield sentence, tuple(rules[name] for name in sentence.rules)
    resting = {name for sentence in review.sentences for name in sentence.rules}
    alone = {name for confirmation in review.confirmations if not confirmation.sentence for name in confirmation.rules}
    yield from ((None, (rule,)) for name, rule in rules.items() if name not in resting and (rule.hash or name in alone))


def _entry(review: Review, sentence: ReviewedSentence | None, rules: tuple[RuleEntry, ...]) -> ReviewEntry:
    """The entry, with its last confirmation: an earlier one that matches again does not override a later one."""
    names, name = {rule.id for rule in rules}, sentence.hash if sentence else ""

    def concerns(hashes: tuple[str, ...], about: tuple[str, ...]) -> bool:
        return name in hashes or bool(names.intersection(about))

    answers = {answer.question: answer for answer in review.answers}
    questions = [question for question in review.questions if concerns(question.sentences, question.rules)]
    entry = ReviewEntry(
        sentence,
        rules,
        tuple(finding for finding in review.findings if concerns(finding.sentences, finding.rules)),
        tuple(QuestionEntry(question, answers.get(question.id)) for question in questions),
    )
    about = sorted(
        (confirmation for confirmation in review.confirmations if is_about(confirmation, entry)), key=_moment
    )
    if not about:
        return entry
    last = about[-1]
    confirmed = last.rules if sentence else {rules[0].id: last.rules[rules[0].id]}
    is_valid = (last.fate, dict(confirmed)) == (entry.fate, entry.rule_hashes)
    return replace(entry, confirmation=last) if is_valid else replace(entry, void=last)


def _moment(confirmation: Confirmation) -> dt.datetime:
    return dt.datetime.fromisoformat(confirmation.at)


def is_about(confirmation: Confirmation, entry: ReviewEntry) -> bool:
    """Whether a confirmation is of the sentence, or the rule, of an entry, whatever its content."""
    if entry.sentence:
        return confirmation.sentence == entry.sentence.hash
    return not confirmation.sentence and entry.rules[0].id in confirmation.rules


# --- the store


class ReviewConflictError(InputError):
    """The policy or its review has changed since it was shown, so nothing was saved."""


@dataclass(frozen=True, slots=True)
class ReviewStore:
    """The review of one policy file. Each change reads the files again, and is saved at once.

    Attributes:
        policies: the policy file.
        by: the reviewer's name.
    """

    policies: Path
    by: str

    def answer(self, shown: ReviewEntry, question: ReviewQuestion, answer: int | str) -> None:
        """Records an answer; it replaces the one that was shown.

        Args:
            shown: the entry as shown.
            question: one of its questions.
            answer: the position of a choice, or the reviewer's own words.

        Raises:
            ReviewConflictError: the entry, or the answer, is no longer as shown.
            InputError: a file is invalid or cannot be written.
        """

        def change(review: Review) -> Review:
            kept = [answer for answer in review.answers if answer.question != question.id]
            choice, words = (None, answer) if isinstance(answer, str) else (answer, "")
            new = RecordedAnswer(question.id, choice, self.by, _now(), words=words)
            return replace(review, answers=(*kept, new))

        self._change(shown, change)

    def answer_number(self, number: int, text: str) -> str:
        """Records an answer to a question by its number in the review, from 1. Returns the question.

        Args:
            number: as `status_lines` has it.
            text: one of the answers of the question, or the reviewer's own words.

        Raises:
            ReviewConflictError: the review was changed meanwhile.
            InputError: no question has the number, there are no words, they are almost an answer of the question, or a
                file is invalid or cannot be written.
        """
        dossier = read_dossier(self.policies)
        questions = dossier.review.questions
        if not 1 <= number <= len(questions):
            raise InputError(f"there is no question {number}; expected 1 to {len(questions)}, as '--status' lists them")
        question, words = questions[number - 1], " ".join(text.split())
        entry = next(
            (each for each in dossier.entries if any(shown.question.id == question.id for shown in each.questions)),
            None,
        )
        if entry is None or not words:
            raise InputError(f"question {number} needs an answer, and a sentence that the document still has")
        answers = {choice.answer.casefold(): at for at, choice in enumerate(question.choices)}
        choice = answers.get(words.casefold())
        if choice is None and (near := get_close_matches(words.casefold(), answers, n=1, cutoff=0.85)):
            meant = question.choices[answers[near[0]]].answer
            raise InputError(f"{words!r} is almost the answer {meant!r}; write that one, or more words of your own")
        self.answer(entry, question, words if choice is None else choice)
        return question.text

    def confirm(self, shown: ReviewEntry) -> None:
        """Records that the reviewer confirms an entry as shown. Rules that a person changed become `edited`.

        For a rule that rests on no sentence and is no longer in the policy, this ends its confirmation.

        Raises:
            ReviewConflictError: the entry is no longer as shown.
            InputError: nobody can confirm the entry now, or as for `answer`.
        """
        if shown.obstacle:
            raise InputError(f"{shown.name}: cannot be confirmed: {shown.obstacle}")

        def change(review: Review) -> Review:
            kept = tuple(confirmation for confirmation in review.confirmations if not is_about(confirmation, shown))
            if not shown.sentence and not shown.rules[0].hash:
                return replace(review, confirmations=kept)
            name = shown.sentence.hash if shown.sentence else ""
            own = Confirmation(name, shown.fate, shown.rule_hashes, self.by, _now())
            return replace(review, rules=_with_edits(review.rules, shown), confirmations=(*kept, own))

        self._change(shown, change)

    def _change(self, shown: ReviewEntry, change: Callable[[Review], Review]) -> None:
        with shared_folder_lock(self.policies.parent):
            current = read_dossier(self.policies)
            if shown not in current.entries:
                raise ReviewConflictError(_difference(shown, current))
            write_review(review_path(self.policies), change(current.review))


def _now() -> str:
    """The time, with its zone."""
    return dt.datetime.now().astimezone().isoformat(timespec="seconds")


def _with_edits(rules: Iterable[ReviewedRule], entry: ReviewEntry) -> tuple[ReviewedRule, ...]:
    known = {rule.id: rule for rule in rules}
    for edited_rule in entry.rules:
        if edited_rule.recorded is None:
            known[edited_rule.id] = ReviewedRule(
                edited_rule.id, edited_rule.hash, {}, edited_rule.words, readings="edited"
            )
        elif edited_rule.recorded.hash != edited_rule.hash:
            known[edited_rule.id] = replace(
                edited_rule.recorded, hash=edited_rule.hash, words=edited_rule.words, readings="edited"
            )
    return tuple(known.values())


def _difference(shown: ReviewEntry, current: ReviewDossier) -> str:
    """Says who was quicker, or that the content is another."""
    same = next(
        (entry for entry in current.entries if entry.sentence == shown.sentence and entry.rules == shown.rules), None
    )
    quicker = [] if same is None else [question.answer for question in same.questions if question.answer]
    if same and same.confirmation and same.confirmation != shown.confirmation:
        return f"{shown.name}: {same.confirmation.by} has confirmed it meanwhile; nothing was saved"
    if new := [answer for answer in quicker if answer not in [old.answer for old in shown.questions]]:
        return f"{shown.name}: {new[0].by} has answered meanwhile; nothing was saved"
    return f"{shown.name}: it has changed since it was shown; nothing was saved"
