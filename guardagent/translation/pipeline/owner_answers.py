"""The owner's answers so far: those that a request shows, and those that concern the draft of another sentence."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

from guardagent.policy.review.record import RecordedAnswer, ReviewQuestion
from guardagent.translation.context import TranslationContext
from guardagent.translation.drafts import Draft
from guardagent.translation.readings import AMBIGUITY, Ruling, rulings_of

MOST_CHARACTERS = 6_000  # of answers in one request, apart from those about its own sentences
_SAME_HEADING = 2  # as much as two shared words
_DECLARE = ("define", "constants", "counters")
_WORD = re.compile(r"[^\W_]{3,}")
_COMMON = frozenset(
    "about after again all allowed also and any are answered answer been before being but call called calls can case "
    "does each else ever every for from has have how its itself may mean means meant more most must never not now only "
    "other otherwise over own rule same shall should some such than that the their them then there these they "
    "this those tool under until was were what when where which who will with within without would yes".split()
)


@dataclass(frozen=True, slots=True)
class _Subject:
    """The things that a text or a rule is about."""

    words: frozenset[str] = frozenset()
    tools: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()


class OwnerAnswers:
    """The answers to the questions of earlier runs whose sentences the document still has.

    Args:
        context: the inputs.
        questions: the questions of earlier runs.
        answers: the answers, by the id of their question.
        policy: the content of the policy file: a question names the rules that it decides about.
    """

    def __init__(
        self,
        context: TranslationContext,
        questions: Sequence[ReviewQuestion],
        answers: Mapping[str, RecordedAnswer],
        policy: Mapping[str, Any] | None = None,
    ) -> None:
        self._context, self._policy = context, policy or {}
        self._rules = {one["id"]: one for one in self._policy.get("policies", ())}
        there = context.document.first_numbers
        self.rulings = tuple(rulings_of([one for one in questions if {*one.sentences} <= there.keys()], answers))
        self._unapplied = {one.question for one in answers.values() if not one.applied}

    @property
    def unapplied(self) -> tuple[Ruling, ...]:
        """The rulings that no run has applied."""
        return tuple(one for one in self.rulings if one.question.id in self._unapplied)

    def shown(self, sentences: Sequence[int]) -> dict[str, str]:
        """Returns the answers for a request about some sentences, as texts by the keys of their rulings.

        Those about the sentences themselves come first. The others follow as far as there is room: those under the same
        heading and with most words in common first.
        """
        wanted = [self._context.sentence(one) for one in sentences]
        hashes, paths = {one.hash for one in wanted}, {one.path for one in wanted}
        words = frozenset(chain.from_iterable(map(self._words, (one.text for one in wanted))))

        def relevance(one: Ruling) -> int:
            same = any(each.path in paths for each in self._sentences(one))
            return len(words & self._subjects[one.key].words) + _SAME_HEADING * same

        own = [one for one in self.rulings if hashes & {*one.question.sentences}]
        others = sorted((one for one in self.rulings if one not in own), key=relevance, reverse=True)
        return {one.key: text for one, text in (*((one, _text(one)) for one in own), *_first(others))}

    def concerning(self, draft: Draft) -> tuple[Ruling, ...]:
        """Returns the new answers about other sentences that concern the rules of a draft, and that it does not know.

        They concern it if they share a name that the policy declares, such as a definition; or if the question is about
        a meaning, and its words are in the sentences of the draft, whose rules have a tool in common with it.
        """
        own = {self._context.sentence(one).hash for one in draft.sentences}
        others = [one for one in self.unapplied if not own & {*one.question.sentences}]
        unknown = [one for one in others if one.key not in draft.rulings]
        subject = self._subject_of(draft) if unknown else _Subject()
        return tuple(one for one in unknown if self._concerns(one, subject, draft))

    def _concerns(self, one: Ruling, subject: _Subject, draft: Draft) -> bool:
        about = self._subjects[one.key]
        if about.names & subject.names:
            return True
        quoted = {self._context.sentence(number).hash for rule in draft.rules for number in rule.quotes}
        if quoted & {*one.question.sentences}:
            return True
        if not (one.question.id.startswith(AMBIGUITY) or one.is_own_words):
            return False
        shared = {word for word in about.words & subject.words if word in self._distinctive}
        return bool(shared) and (bool(about.tools & subject.tools) or not about.tools)

    # --- subjects

    @cached_property
    def _subjects(self) -> Mapping[str, _Subject]:
        return {one.key: self._subject(one) for one in self.rulings}

    def _subject(self, one: Ruling) -> _Subject:
        """The subject of an answer: the question without the sentence that it quotes, the answer, and the rules.

        The words about a witness are those of one call, not of a meaning.
        """
        text = one.question.text if one.question.witness is None else ""
        for sentence in self._sentences(one):
            text = text.replace(" ".join(sentence.text.split()), " ", 1)
        rules = [self._rules[name] for name in one.question.rules if name in self._rules]
        witness = one.question.witness or {}
        formal = json.dumps([witness, one.choice.policy, rules], default=str)
        used = self._names(json.dumps([*rules, *one.choice.policy.get("policies", ())], default=str))
        return _Subject(
            frozenset(self._words(f"{text} {one.choice.answer}")), self._tools(f"{formal} {one.question.text}"), used
        )

    def _subject_of(self, draft: Draft) -> _Subject:
        quoted = {number for rule in draft.rules for number in rule.quotes}
        texts = [self._context.sentence(one).text for one in sorted({*draft.sentences, *quoted})]
        formal = json.dumps([one.rule for one in draft.rules], default=str)
        return _Subject(frozenset(self._words(" ".join(texts))), self._tools(formal), self._names(formal))

    def _sentences(self, one: Ruling) -> list[Any]:
        numbers = self._context.document.first_numbers
        return [self._context.sentence(numbers[name]) for name in one.question.sentences if name in numbers]

    def _tools(self, text: str) -> frozenset[str]:
        return frozenset(
            one.name for one in self._context.tools if re.search(rf"(?<!\w){re.escape(one.name)}(?!\w)", text)
        )

    def _names(self, text: str) -> frozenset[str]:
        """The names in a formula that are no tools and no words of the language: those that a policy declares."""
        return frozenset(re.findall(r"\w+", text)) & self._declared

    @cached_property
    def _declared(self) -> frozenset[str]:
        """The names that the policy file and the readings of the answers declare."""
        policies = [self._policy, *(one.choice.policy for one in self.rulings)]
        names = (name for one in policies for key in _DECLARE for name in one.get(key, ()))
        return frozenset(str(name).partition("(")[0] for name in names)

    def _words(self, text: str) -> Iterator[str]:
        return (_stem(one) for one in _WORD.findall(text.casefold().replace("_", " ")) if one not in _COMMON)

    @cached_property
    def _distinctive(self) -> frozenset[str]:
        """The words that not every other sentence has."""
        sentences = self._context.document.sentences
        counts = Counter(chain.from_iterable({*self._words(one.text)} for one in sentences))
        return frozenset(word for word, count in counts.items() if count <= max(3, len(sentences) // 5))


def _stem(word: str) -> str:
    return word.removesuffix("s") if len(word) > 3 else word


def _text(one: Ruling) -> str:
    """The ruling with the reading that was chosen."""
    meaning = "" if one.choice.allowed is None or not one.choice.words else f" It means: {one.choice.words}"
    return f"{one.text}{meaning}"


def _first(rulings: Iterable[Ruling]) -> Iterator[tuple[Ruling, str]]:
    room = MOST_CHARACTERS
    for one in rulings:
        text = _text(one)
        room -= len(text)
        if room >= 0:
            yield one, text
