"""The answers of the owner of the document, and whether a draft keeps them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from guardagent.batch.audit import judge_trace
from guardagent.batch.cases import judge_case
from guardagent.batch.records import read_case, read_trace
from guardagent.errors import InputError
from guardagent.policy.equivalence.draft import Outcome, outcome_of
from guardagent.policy.equivalence.questions import ANSWERS, labelled
from guardagent.policy.evaluation.operands import StateFunctionError
from guardagent.policy.policies import Policies
from guardagent.policy.review.record import RecordedAnswer, ReviewChoice, ReviewQuestion
from guardagent.translation.context import TranslationContext
from guardagent.translation.drafts import Draft
from guardagent.translation.readings.comparison import loaded

OUTCOMES = tuple(ANSWERS)
"""The outcomes, the most lenient first."""

LENIENT: tuple[Outcome, ...] = ("allowed", "warned")
"""The outcomes of a call that runs."""

CASE, READINGS, FATE, AMBIGUITY = "case-", "readings-", "fate-", "ambiguity-"
"""The beginnings of the ids of questions: about a witness, two readings, whether there is a rule, and the meaning."""

_DENIED: tuple[Outcome, ...] = ("denied", "unchecked")


@dataclass(frozen=True, slots=True)
class Ruling:
    """An answered question.

    Attributes:
        choice: the answer; one in the owner's own words has no policy and allows nothing by itself.
        is_own_words: whether it is in the owner's own words.
    """

    question: ReviewQuestion
    choice: ReviewChoice
    is_own_words: bool = False

    @property
    def key(self) -> str:
        """The id of the question with a hash of the answer: its author of a draft has to know another answer anew."""
        return f"{self.question.id}={hashlib.sha256(self.choice.answer.encode()).hexdigest()[:8]}"

    @property
    def text(self) -> str:
        """The ruling in natural language, for the author of a draft."""
        if self.is_own_words:
            return (
                f"Asked {self.question.text!r}, the owner of the document answered in own words, which decide: "
                f"{self.choice.answer!r}."
            )
        says_more = self.choice.allowed is None and self.choice.words not in ("", self.choice.answer)
        meant = f" ({self.choice.words})" if says_more else ""
        return f"Asked {self.question.text!r}, the owner of the document answered {self.choice.answer!r}{meant}."

    @property
    def case(self) -> Mapping[str, Any] | None:
        """The case that the answer becomes; None if the question has no witness."""
        if self.question.witness is None or self.choice.allowed is None:
            return None
        return labelled(self.question.witness, allowed=self.choice.allowed)

    def is_kept(self, draft: Draft, context: TranslationContext) -> bool:
        """Whether a draft follows it, judged by a real session where there is a witness.

        Without one, the author of the draft must have known it, or the draft says what was chosen: word for word, or
        as the reading that its author names. What follows own words, only their author can tell.

        Raises:
            InputError: the witness is no case and no trace.
        """
        if self.is_own_words:
            return self.key in draft.rulings
        if self.question.witness is not None:
            return self._accepts(outcome_at(loaded(draft, context), self.question.witness, self.question.id))
        if self.question.id.startswith(FATE):
            quoted = {context.sentence(number).hash for rule in draft.rules for number in rule.quotes}
            return bool(self.choice.policy) is bool(quoted & {*self.question.sentences})
        return self.key in draft.rulings or self.is_followed(draft, context) or self.is_chosen(draft, context)

    def is_followed(self, draft: Draft, context: TranslationContext) -> bool:
        """Whether the author of a draft knew the question, and says that the draft follows what is meant."""
        return self._followed(draft, context) == {_plain_words(self.choice.answer)}

    def is_opposed(self, draft: Draft, context: TranslationContext) -> bool:
        """Whether the author of a draft says that it follows another reading."""
        return bool(self._followed(draft, context) - {_plain_words(self.choice.answer)})

    def _followed(self, draft: Draft, context: TranslationContext) -> set[str]:
        """The readings that a draft follows, as its author says. The same readings can answer another question."""
        question = _plain_words(self.question.text)
        return {
            _plain_words(one.follows)
            for one in (draft.ambiguities if self.question.id.startswith(AMBIGUITY) else ())
            if one.follows
            and context.sentence(one.sentence).hash in self.question.sentences
            and question.endswith(_plain_words(one.question))
        }

    def is_chosen(self, draft: Draft, context: TranslationContext) -> bool:
        """Whether a draft says word for word what was chosen."""
        ids = [one["id"] for one in self.choice.policy.get("policies", ())]
        return bool(ids) and _plain(draft.content(context, ids)) == _plain(self.choice.policy)

    def _accepts(self, found: Outcome) -> bool:
        expected: Outcome | None = next((one for one in OUTCOMES if ANSWERS[one] == self.choice.answer), None)
        if expected is None:
            return (found in LENIENT) is bool(self.choice.allowed)
        if {one.answer for one in self.question.choices} == {ANSWERS[one] for one in _DENIED}:
            return found == expected
        return found == expected or (found in _DENIED and expected in _DENIED)


def _plain_words(text: str) -> str:
    return " ".join(text.casefold().split())


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value, default=str))


def outcome_at(policies: Policies, witness: Mapping[str, Any], name: str) -> Outcome:
    """The outcome of a session at a witness.

    Raises:
        InputError: the witness is no case and no trace, or a function of the toolbox fails; the message begins with the
            name of the witness.
    """
    line = json.dumps(witness)
    try:
        if "proposed" in witness:
            return outcome_of(policies, judge_case(policies, read_case(line, name, 1)))
        return outcome_of(policies, judge_trace(policies, read_trace(line, name, 1)))
    except StateFunctionError as error:
        raise InputError(f"{name}: {error}") from None


def rulings_of(questions: Iterable[ReviewQuestion], answers: Mapping[str, RecordedAnswer]) -> Iterator[Ruling]:
    """Yields the rulings about questions.

    Raises:
        InputError: an answer is no position in the choices of its question, and not in own words.
    """
    for review_question in questions:
        answer = answers.get(review_question.id)
        if answer is None:
            continue
        if answer.choice is None and answer.words.strip():
            words = " ".join(answer.words.split())
            yield Ruling(review_question, ReviewChoice(words, None, words), is_own_words=True)
            continue
        if answer.choice is None or answer.choice not in range(len(review_question.choices)):
            most = len(review_question.choices) - 1
            raise InputError(
                f"the answer to {review_question.id!r} is the choice {answer.choice!r}; expected 0 to {most}"
            )
        yield Ruling(review_question, review_question.choices[answer.choice])
