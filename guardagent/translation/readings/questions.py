"""Differences and ambiguities as questions to the owner of the document, and the answers.

Two drafts of the same sentences are compared part by part: rules that concern the same tools are one part. The id of a
question depends on its sentences and on the meaning of its choices, so an answer survives another run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from guardagent.batch.audit import judge_trace
from guardagent.batch.cases import judge_case
from guardagent.batch.records import read_case, read_trace
from guardagent.errors import InputError
from guardagent.policy.equivalence import Comparison, Different, Same, compare_rules, question
from guardagent.policy.equivalence.draft import Outcome, outcome_of
from guardagent.policy.equivalence.questions import ANSWERS, labelled
from guardagent.policy.equivalence.search import difference_of
from guardagent.policy.evaluation.operands import StateFunctionError
from guardagent.policy.policies import Policies
from guardagent.policy.review.record import RecordedAnswer, ReviewChoice, ReviewQuestion
from guardagent.policy.words import policies_in_words
from guardagent.translation.context import TranslationContext
from guardagent.translation.drafts import Ambiguity, Draft, RuleDraft

# --- comparison

MAX_QUESTIONS = 3  # of one group at once

Drafts = tuple[Draft, Draft]
_NO_RULE = {"id": "no_rule", "temporal": "G true"}


Sides = tuple[tuple[RuleDraft, ...], tuple[RuleDraft, ...]]
"""Rules of the first and of the second draft."""


@dataclass(frozen=True, slots=True)
class PartComparison:
    """The rules of both drafts that concern some tools, with the result of their comparison."""

    sides: Sides
    result: Comparison

    @property
    def quoted(self) -> frozenset[int]:
        """The numbers of the sentences that they quote."""
        return frozenset(number for side in self.sides for rule in side for number in rule.quotes)


def loaded(draft: Draft, context: TranslationContext, rules: Sequence[RuleDraft] | None = None) -> Policies:
    """The policies of a draft, or of some of its rules; without rules, those that allow everything.

    Raises:
        InputError: a rule or a declaration is invalid.
    """
    wanted = draft.rules if rules is None else rules
    if wanted:
        return draft.policies(context, [rule.id for rule in wanted])
    return context.load({**context.frame, "policies": [_NO_RULE]})


def tools_of(context: TranslationContext) -> list[dict[str, Any]]:
    """The tools as `compare_rules` and `question` read them."""
    return [
        {"name": tool.name, "description": tool.description, "parameters": tool.parameters} for tool in context.tools
    ]


class DraftComparison:
    """The comparison of two drafts, part by part.

    Equal parts make equal drafts. A difference of two parts counts if the whole drafts differ there too; if other
    rules hide each of them, the whole drafts are compared.
    """

    def __init__(self, drafts: Drafts, context: TranslationContext, seconds: float) -> None:
        self._drafts, self._context, self._seconds = drafts, context, seconds

    def parts(self) -> list[PartComparison]:
        """Compares all parts."""
        part_comparisons = list(map(self._compared, self._sides()))
        hidden = [
            part_comparison
            for part_comparison in part_comparisons
            if isinstance(part_comparison.result, Different) and not self._differ(part_comparison.result)
        ]
        if not hidden:
            return part_comparisons
        whole = self._compared((self._drafts[0].rules, self._drafts[1].rules))
        return (
            [whole]
            if isinstance(whole.result, Same)
            else [*(part_comparison for part_comparison in part_comparisons if part_comparison not in hidden), whole]
        )

    def _compared(self, sides: Sides) -> PartComparison:
        """Compares a part. The witness does not depend on which draft is the first one."""
        order = (0, 1) if repr(sides[0]) <= repr(sides[1]) else (1, 0)
        first, second = (loaded(self._drafts[side], self._context, sides[side]) for side in order)
        result = compare_rules(first, second, tools=tools_of(self._context), seconds=self._seconds)
        if isinstance(result, Different) and order == (1, 0):
            result = replace(result, first=result.second, second=result.first, outcomes=result.outcomes[::-1])
        return PartComparison(sides, result)

    def _differ(self, difference: Different) -> bool:
        first, second = (loaded(draft, self._context) for draft in self._drafts)
        return difference_of(first, second, difference.witness) is not None

    def _sides(self) -> list[Sides]:
        parts: list[tuple[frozenset[str], Sides]] = []
        for side, draft in enumerate(self._drafts):
            for rule in draft.rules:
                tools = self._concerned(draft, rule)
                touching = [part for part in parts if part[0] & tools]
                rules = [[each for _, sides in touching for each in sides[at]] for at in (0, 1)]
                rules[side].append(rule)
                whole = tools.union(*(part[0] for part in touching))
                parts = [part for part in parts if part not in touching]
                parts.append((whole, (tuple(rules[0]), tuple(rules[1]))))
        return [sides for _, sides in parts]

    def _concerned(self, draft: Draft, rule: RuleDraft) -> frozenset[str]:
        """The tools that a rule mentions; all of them for a rule about any tool."""
        policies = loaded(draft, self._context, [rule])
        named = frozenset(tool for rule in policies.rules for tool in rule.mentioned_tools)
        return named if named and "*" not in named else frozenset(tool.name for tool in self._context.tools) | named


# --- answers

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
            InputError: the witness is neither a case nor a trace.
        """
        if self.is_own_words:
            return self.key in draft.rulings
        if self.question.witness is not None:
            return self._accepts(outcome_at(loaded(draft, context), self.question.witness, self.question.id))
        if self.question.id.startswith(FATE):
            quoted = {context.sentence(number).hash for rule in draft.rules for number in rule.quotes}
            return bool(self.choice.policy) is bool(quoted & {*self.question.sentences})
        is_followed = self._followed(draft, context) == {_plain_words(self.choice.answer)}
        return self.key in draft.rulings or is_followed or self.is_chosen(draft, context)

    def is_opposed(self, draft: Draft, context: TranslationContext) -> bool:
        """Whether the author of a draft says that it follows another reading."""
        return bool(self._followed(draft, context) - {_plain_words(self.choice.answer)})

    def _followed(self, draft: Draft, context: TranslationContext) -> set[str]:
        """The readings that a draft follows, as its author says. The same readings can answer another question."""
        question = _plain_words(self.question.text)
        return {
            _plain_words(ambiguity.follows)
            for ambiguity in (draft.ambiguities if self.question.id.startswith(AMBIGUITY) else ())
            if ambiguity.follows
            and context.sentence(ambiguity.sentence).hash in self.question.sentences
            and question.endswith(_plain_words(ambiguity.question))
        }

    def is_chosen(self, draft: Draft, context: TranslationContext) -> bool:
        """Whether a draft says word for word what was chosen."""
        ids = [policy["id"] for policy in self.choice.policy.get("policies", ())]
        return bool(ids) and _plain(draft.content(context, ids)) == _plain(self.choice.policy)

    def _accepts(self, outcome: Outcome) -> bool:
        expected: Outcome | None = next(
            (outcome for outcome in OUTCOMES if ANSWERS[outcome] == self.choice.answer), None
        )
        if expected is None:
            return (outcome in LENIENT) is bool(self.choice.allowed)
        if {outcome.answer for outcome in self.question.choices} == {ANSWERS[outcome] for outcome in _DENIED}:
            return outcome == expected
        return outcome == expected or (outcome in _DENIED and expected in _DENIED)


def _plain_words(text: str) -> str:
    return " ".join(text.casefold().split())


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value, default=str))


def outcome_at(policies: Policies, witness: Mapping[str, Any], name: str) -> Outcome:
    """The outcome of a session at a witness.

    Raises:
        InputError: the witness is neither a case nor a trace, or a function of the toolbox fails; the message begins
            with the name of the witness.
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
        InputError: an answer is neither a choice of its question nor in the person's own words.
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


# --- questions


def case_question(
    difference: Different, part: PartComparison, drafts: Drafts, context: TranslationContext
) -> ReviewQuestion:
    """Asks what is to happen at the witness of a difference."""
    sentences = _hashes(part.quoted, context)
    sides = sorted(zip(difference.outcomes, (0, 1), strict=True), key=lambda pair: OUTCOMES.index(pair[0]))
    record = difference.witness.record("")
    answers = ANSWERS if difference.witness.proposed is not None else {**ANSWERS, "allowed": "yes", "denied": "no"}
    name = _id(CASE, sentences, record, [outcome for outcome, _ in sides])
    return ReviewQuestion(
        name,
        sentences,
        (),
        question(difference.witness, tools_of(context), _text(part.quoted, context)),
        tuple(
            _reading(answers[side], drafts[at], part.sides[at], context, allowed=side in LENIENT) for side, at in sides
        ),
        {**record, "id": name},
    )


def readings_question(part: PartComparison, drafts: Drafts, context: TranslationContext) -> ReviewQuestion:
    """Asks which of two readings is meant that could not be compared."""
    sentences = _hashes(part.quoted, context)
    both = [_reading("", drafts[at], part.sides[at], context) for at in (0, 1)]
    both.sort(key=lambda reading: json.dumps(reading.policy, sort_keys=True, default=str))
    named = [
        ReviewChoice(f"the {name} reading", None, reading.words, reading.policy)
        for name, reading in zip(("first", "second"), both, strict=True)
    ]
    name = _id(READINGS, sentences, [reading.policy for reading in both])
    text = f"{_quoted(part.quoted, context)}Which of the two readings is meant?"
    return ReviewQuestion(name, sentences, (), text, tuple(named))


def fate_question(
    declining: Draft, sentences: Sequence[int], writing: Draft, rules: Sequence[RuleDraft], context: TranslationContext
) -> ReviewQuestion:
    """Asks whether a rule is to enforce sentences for which one draft declined to write one."""
    hashes = _hashes(sentences, context)
    why = " ".join(dict.fromkeys(declining.declined[sentence] for sentence in sentences))
    return ReviewQuestion(
        _id(FATE, hashes),
        hashes,
        (),
        f"{_quoted(sentences, context)}Is a rule to enforce this?",
        (
            ReviewChoice("no rule", None, f"No rule can be written for this, because: {why}"),
            _reading("this rule", writing, rules, context),
        ),
    )


def ambiguity_questions(ambiguities: Iterable[Ambiguity], context: TranslationContext) -> tuple[ReviewQuestion, ...]:
    """Asks for the meaning of each distinct ambiguity once. One with fewer than two readings needs no question."""
    review_questions: dict[str, ReviewQuestion] = {}
    for ambiguity in ambiguities:
        readings = tuple(dict.fromkeys(" ".join(reading.split()) for reading in ambiguity.readings if reading.strip()))
        if len(readings) > 1:
            new = _ambiguity_question(ambiguity, readings, context)
            review_questions.setdefault(new.id, new)
    return tuple(review_questions.values())


def _ambiguity_question(ambiguity: Ambiguity, readings: Sequence[str], context: TranslationContext) -> ReviewQuestion:
    sentences, text = _hashes([ambiguity.sentence], context), " ".join(ambiguity.question.split())
    return ReviewQuestion(
        _id(AMBIGUITY, sentences, text.casefold(), [each.casefold() for each in readings]),
        sentences,
        (),
        f"{_quoted([ambiguity.sentence], context)}{text}",
        tuple(ReviewChoice(each, None, each) for each in readings),
    )


def _reading(
    answer: str, draft: Draft, rules: Sequence[RuleDraft], context: TranslationContext, *, allowed: bool | None = None
) -> ReviewChoice:
    if not rules:
        return ReviewChoice(answer, allowed, "No rule.")
    ids = [rule.id for rule in rules]
    words = policies_in_words(draft.policies(context, ids))
    text = " ".join(word.text for word in words.values())
    return ReviewChoice(answer, allowed, text, draft.content(context, ids))


def _hashes(numbers: Iterable[int], context: TranslationContext) -> tuple[str, ...]:
    return tuple(dict.fromkeys(context.sentence(number).hash for number in sorted(numbers)))


def _text(numbers: Iterable[int], context: TranslationContext) -> str | None:
    return " ".join(context.sentence(number).text for number in sorted(numbers)) or None


def _quoted(numbers: Iterable[int], context: TranslationContext) -> str:
    text = _text(numbers, context)
    return f'"{" ".join(text.split())}" ' if text else ""


def _id(kind: str, sentences: Iterable[str], *content: Any) -> str:
    content_json = json.dumps([sorted(sentences), *content], sort_keys=True, default=str)
    return f"{kind}{hashlib.sha256(content_json.encode()).hexdigest()[:12]}"
