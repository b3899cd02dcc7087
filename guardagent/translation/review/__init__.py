"""The review of a translation by a person.

    review file + policy file -> entries (dossier) -> dialogue at a terminal | page | status

An entry is a sentence with the rules, findings and questions that concern it. This file has the entries, the answers in
the reviewer's own words, such as `neither: only on Mondays`, and the marked segments of sentences and rules.
`dossier` also saves answers and confirmations at once, and `page` has the status too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Literal

from guardagent.errors import InputError
from guardagent.policy.documents.sentences import find_quote
from guardagent.policy.review.record import (
    Confirmation,
    Fate,
    Readings,
    RecordedAnswer,
    ReviewedRule,
    ReviewedSentence,
    ReviewFinding,
    ReviewQuestion,
)

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
    "agree": "",
    "answered": "an answer chose between two readings",
    "open": "two independent drafts differ",
    "single": "only one draft could be used, so no second one was compared",
    "edited": "written or changed by a person, not compared with a second draft",
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
        """Whether two drafts agree; `edited` if the rule is not the one that was drafted."""
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
        return {one.id: one.hash for one in self.rules}

    @property
    def quotes(self) -> list[str]:
        """The words of the sentence that its rules rest on."""
        found = [self.quote(one) for one in self.rules]
        return [one for one in found if one]

    def quote(self, rule: RuleEntry) -> str:
        """The words of the sentence that a rule rests on; empty if it quotes none."""
        quotes = rule.recorded.quotes if rule.recorded else {}
        return quotes.get(self.sentence.hash, "") if self.sentence else ""

    def grounds(self, rule: RuleEntry) -> Iterator[str]:
        """Yields the doubts about a rule: its readings, and a quote that the sentence does not have."""
        if phrase := READINGS_PHRASES[rule.readings]:
            yield phrase
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
        return tuple(one.question for one in self.questions if one.answer is None)

    @property
    def choices(self) -> dict[str, tuple[ReviewQuestion, int]]:
        """The choices of all questions by the keys of the dialogue: a, b, …, and a2, b2, … after the last letter."""
        found = [(one.question, at) for one in self.questions for at in range(len(one.question.choices))]
        keys = (f"{letter}{turn if turn > 1 else ''}" for turn in count(1) for letter in _LETTERS)
        return dict(zip(keys, found, strict=False))

    @property
    def keys(self) -> dict[tuple[str, int], str]:
        """The key of each choice, by the id of its question and its position."""
        return {(question.id, at): key for key, (question, at) in self.choices.items()}

    @property
    def obstacle(self) -> str:
        """The reason why nobody can confirm the entry; empty if somebody can."""
        if number := len(self.open_questions):
            return f"{number} open question{'s' if number > 1 else ''}"
        if any(one.answer and not one.answer.applied for one in self.questions):
            return f"the answer is not applied yet; {_AGAIN}"
        if self.sentence and (missing := [one.id for one in self.rules if not one.hash]):
            return f"the policy file has no rule {missing[0]!r} any more; restore it, or {_AGAIN}"
        if self.fate == "rule" and not self.rules:
            return f"it has no rule; {_AGAIN}"
        is_open = self.fate == "open" or any(one.readings == "open" for one in self.rules)
        return f"it is not decided what becomes of it; {_AGAIN}" if is_open else ""

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
    found = _LINE.match(line)
    words = " ".join(found["words"].split()) if found else ""
    if not found or not words:
        raise InputError("there are no words after 'neither:'; expected what is to hold instead")
    if len(words) > LONGEST:
        raise InputError(f"the answer has {len(words):,} characters; expected at most {LONGEST:,}")
    if not words.isprintable():
        raise InputError("the answer has characters that cannot be shown; expected text")
    return _question(found["key"], entry), words


def _question(key: str | None, entry: ReviewEntry) -> ReviewQuestion:
    if key is not None:
        if key.lower() not in entry.choices:
            raise InputError(f"{key!r} is no key of a choice; expected one of {', '.join(entry.choices)}")
        return entry.choices[key.lower()][0]
    possible = entry.open_questions or tuple(one.question for one in entry.questions)
    if len(possible) != 1:
        raise InputError("there are several questions; expected the key of a choice of one of them: 'neither a: …'")
    return possible[0]


# --- marked segments


def segments(text: str, quotes: Iterable[str]) -> list[tuple[str, bool]]:
    """Splits a text into parts that are quoted and parts that are not, in order."""
    spans = sorted(span for one in quotes for span in find_quote(text, one))
    found, at = [], 0
    for start, end in spans:
        found += [(text[at:start], False), (text[max(at, start) : end], True)]
        at = max(at, end)
    return [one for one in [*found, (text[at:], False)] if one[0]]


def coded(text: str) -> list[tuple[str, bool]]:
    """Splits a text into parts that stand in code marks and parts that do not, in order."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # a mark without its partner
        return [(text, False)]
    return [(part, at % 2 == 1) for at, part in enumerate(parts) if part]
