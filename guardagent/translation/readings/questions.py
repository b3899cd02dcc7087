"""Ambiguities and disputed cases as questions to the owner of the document, and the answers.

The rules by two readings of a sentence are compared under all other rules. The id of a question depends on its
sentences and on the meaning of its choices, so an answer survives another run.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from guardagent.batch.audit import judge_trace
from guardagent.batch.cases import judge_case
from guardagent.batch.records import read_case, read_trace
from guardagent.errors import InputError
from guardagent.policy.equivalence import Comparison, Different, Same, compare_rules, question
from guardagent.policy.equivalence.draft import ABSENT, NO_FACTS, Outcome, Path, Witness, changed, outcome_of, value_at
from guardagent.policy.equivalence.questions import ANSWERS, labelled
from guardagent.policy.equivalence.search import difference_of, rank_of
from guardagent.policy.evaluation.operands import StateFunctionError
from guardagent.policy.policies import Policies
from guardagent.policy.review.record import RecordedAnswer, ReviewChoice, ReviewQuestion
from guardagent.policy.words import policies_in_words
from guardagent.translation.assembly import PolicyAssembly, assemble
from guardagent.translation.assembly.completion import completed
from guardagent.translation.context import TranslationContext
from guardagent.translation.drafts import Ambiguity, Draft, RuleDraft, case_row
from guardagent.translation.readings.cases import situation_of

# --- comparison

_NO_RULE = {"id": "no_rule", "temporal": "G true"}


def loaded(draft: Draft, context: TranslationContext) -> Policies:
    """The policies of a draft; without rules, those that allow everything.

    Raises:
        InputError: a rule or a declaration is invalid.
    """
    if draft.rules:
        return draft.policies(context)
    return context.load({**context.frame, "policies": [_NO_RULE]})


def tools_of(context: TranslationContext) -> list[dict[str, Any]]:
    """The tools as `compare_rules` and `question` read them."""
    keys = ("name", "description", "parameters", "output_schema")
    return [{key: getattr(tool, key) for key in keys} for tool in context.tools]


class WholeDocument:
    """The rules of all sentences: a call on which two readings differ has to be possible under the others.

    Args:
        drafts: the drafts of the other sentences.
        context: the inputs.
        seconds: the time limit of a comparison. Counts limit its work before, so that a busy machine asks no more.
    """

    def __init__(self, drafts: Iterable[Draft], context: TranslationContext, seconds: float = 5.0) -> None:
        self._drafts, self._context = tuple(drafts), context
        paths = context.samples.facts if context.samples is not None else ()
        facts = {path.path: path.values for path in paths if path.types == ("string",) and path.values}
        self._options: dict[str, Any] = {"tools": tools_of(context), "facts": facts, "seconds": seconds}

    def difference(self, first: Draft, second: Draft) -> Comparison:
        """Compares two readings of some sentences, as they are under all rules.

        Where the search finds nothing, a case of their author on which they differ is the example.
        """
        alone = loaded(first, self._context), loaded(second, self._context)
        comparison = compare_rules(*alone, **self._options)
        if isinstance(comparison, Same) or (isinstance(comparison, Different) and not self._drafts):
            return comparison
        cases = [case for draft in (second, first) for rule in draft.rules for case in rule.cases if "proposed" in case]
        witnesses = [
            witness for case in cases if (witness := self._witness(case)) and difference_of(alone[0], alone[1], witness)
        ]
        witnesses = [comparison.witness, *witnesses] if isinstance(comparison, Different) else witnesses
        whole = (self._with(first), self._with(second)) if self._drafts else ()
        policies = [side.policies or own for side, own in zip(whole, alone, strict=True)] if whole else alone
        possible = [each for witness in witnesses for each in self._possible(witness, whole, cases)]
        for strict in (True, False):
            differences = (difference_of(policies[0], policies[1], each, strict=strict) for each in possible)
            clearest = min(filter(None, differences), key=rank_of, default=None)
            if clearest is not None and not _both_deny(clearest):
                return clearest
        return compare_rules(*policies, **self._options) if whole else comparison

    def _witness(self, case: Mapping[str, Any]) -> Witness | None:
        try:
            return witness_of(case, self._context)
        except InputError:  # nobody has examined the cases of the other reading
            return None

    def _possible(
        self, witness: Witness, whole: Sequence[PolicyAssembly], cases: Sequence[Mapping[str, Any]]
    ) -> Iterator[Witness]:
        """Yields a call as it is and with what other rules need, and so some cases."""
        yield witness
        for record in (witness.record(""), *cases):
            for side in whole if "proposed" in record else ():
                if side.policies is None:
                    continue
                about = [rule.id for rule in side.rules if rule.id not in self._others]
                if (more := completed(record, side.policies, side.rules, about)) is not None:
                    yield _with_more(witness, more, self._context)

    @cached_property
    def _others(self) -> frozenset[str]:
        return frozenset(rule.id for rule in self._with(Draft(())).rules)

    def denies(self, record: Mapping[str, Any]) -> bool:
        """Whether other rules deny the call of a case anyway, so that nothing depends on the rule of the case."""
        whole = self._with(Draft(())) if self._drafts else PolicyAssembly()
        if whole.policies is None or "proposed" not in record:
            return False
        return completed(record, whole.policies, whole.rules, ()) is None

    def _with(self, draft: Draft) -> PolicyAssembly:
        """All rules with those of a draft."""
        return assemble((*self._drafts, draft), self._context)


def _both_deny(difference: Different) -> bool:
    """Whether one reading denies what the other cannot check: no call to ask about."""
    return {*difference.outcomes} == {"denied", "unchecked"}


def _with_more(witness: Witness, record: Mapping[str, Any], context: TranslationContext) -> Witness:
    """A completed case; its values near a limit are those of the witness that was found first."""
    new = witness_of(record, context)
    limits = tuple(limit for limit in witness.limits if limit.path[0] != "history")  # its history may be longer
    return replace(new, limits=limits, windows=witness.windows)


def witness_of(record: Mapping[str, Any], context: TranslationContext) -> Witness:
    """A case as a witness."""
    case = read_case(json.dumps({**record, "id": "a case"}), "a case", 1, loaded(Draft(()), context).failed_output)
    now = dt.datetime.fromisoformat(record["now"]) if "now" in record else None
    principal = record.get("principal") if case.principal is not None and case.principal.id else None
    facts = {name: value for name, value in case.facts.items() if value != NO_FACTS.get(name, ABSENT)}
    return Witness(case.history, case.proposed, facts, record.get("state"), principal, now, messages=case.messages)


# --- answers

OUTCOMES = tuple(ANSWERS)
"""The outcomes, the most lenient first."""

LENIENT: tuple[Outcome, ...] = ("allowed", "warned")
"""The outcomes of a call that runs."""

CASE, AMBIGUITY = "case-", "ambiguity-"
"""The beginnings of the ids of questions: about a witness, and about a meaning in words."""

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
        meant = f" ({self.choice.words})" if self.choice.words not in ("", self.choice.answer) else ""
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
        question = _plain_words(self.question.text)
        follows = {
            _plain_words(ambiguity.follows)
            for ambiguity in draft.ambiguities
            if ambiguity.follows
            and context.sentence(ambiguity.sentence).hash in self.question.sentences
            and question.endswith(_plain_words(ambiguity.question))
        }
        is_followed = follows == {_plain_words(self.choice.answer)}
        return self.key in draft.rulings or is_followed or self.is_chosen(draft, context)

    def is_chosen(self, draft: Draft, context: TranslationContext) -> bool:
        """Whether a draft says word for word what was chosen."""
        ids = [policy["id"] for policy in self.choice.policy.get("policies", ())]
        written = (
            json.dumps(each, default=str, sort_keys=True) for each in (draft.content(context, ids), self.choice.policy)
        )
        return bool(ids) and len({*written}) == 1

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


def rulings_of(questions: Iterable[ReviewQuestion], answers: Iterable[RecordedAnswer]) -> Iterator[Ruling]:
    """Yields the rulings about questions."""
    by_question = {answer.question: answer for answer in answers}
    for about in questions:
        answer = by_question.get(about.id)
        if answer is not None and answer.choice is None:
            words = " ".join(answer.words.split())
            yield Ruling(about, ReviewChoice(words, None, words), is_own_words=True)
        elif answer is not None and answer.choice is not None:
            yield Ruling(about, about.choices[answer.choice])


# --- questions


def reading_question(
    ambiguity: Ambiguity, drafts: tuple[Draft, Draft], difference: Comparison, context: TranslationContext
) -> ReviewQuestion:
    """Asks which reading of a sentence is meant: by a call on which they differ, if one was found.

    Args:
        ambiguity: the sentence with both readings.
        drafts: the rules by the reading that is followed, and by the other one.
        difference: of these rules.
        context: the inputs.
    """
    sentences = _hashes([ambiguity.sentence], context)
    text = f"{_quoted([ambiguity.sentence], context)}{' '.join(ambiguity.question.split())}"
    meanings = (ambiguity.follows or ambiguity.readings[0], ambiguity.other)
    if not isinstance(difference, Different) or _both_deny(difference):
        pairs = sorted(zip(meanings, drafts, strict=True), key=lambda pair: ambiguity.readings.index(pair[0]))
        choices = tuple(_choice(meaning, None, meaning, draft, drafts, context) for meaning, draft in pairs)
        return ReviewQuestion(_ambiguity_id(ambiguity, sentences), sentences, (), text, choices)
    record = difference.witness.record("")
    answers = ANSWERS if difference.witness.proposed is not None else {**ANSWERS, "allowed": "yes", "denied": "no"}
    sides = sorted(zip(difference.outcomes, meanings, drafts, strict=True), key=lambda side: OUTCOMES.index(side[0]))
    name = _id(CASE, sentences, record, [outcome for outcome, *_ in sides])
    shown = _essential(difference.witness, [loaded(draft, context) for draft in drafts])
    return ReviewQuestion(
        name,
        sentences,
        (),
        f"{text} For example: {question(shown, tools_of(context))}",
        tuple(_choice(answers[outcome], outcome, meaning, draft, drafts, context) for outcome, meaning, draft in sides),
        {**record, "id": name},
    )


_DEEPEST = 4  # keys within keys that are left out


def _essential(witness: Witness, policies: Sequence[Policies]) -> Witness:
    """A case without the facts and state that change neither verdict: an owner reads what decides."""
    if not witness.is_case:
        return witness
    record = witness.record("")
    expected = [outcome_at(each, record, "a case") for each in policies]
    for path in [path for key in ("facts", "state") for path in _places(record, (key,))]:
        smaller = record if value_at(record, path) is ABSENT else changed(record, path, ABSENT)
        if smaller is not record and [outcome_at(each, smaller, "a case") for each in policies] == expected:
            record = smaller
    known = ("facts", "state")
    kept = (each for each in witness.limits if each.path[0] not in known or value_at(record, each.path) is not ABSENT)
    return replace(witness, facts=record.get("facts") or {}, state=record.get("state"), limits=tuple(kept))


def _places(value: Any, path: Path) -> Iterator[Path]:
    """Yields the paths of the keys in a value, the outer ones first."""
    inner = value.get(path[-1]) if isinstance(value, Mapping) else None
    for key in inner if isinstance(inner, Mapping) and len(path) <= _DEEPEST else ():
        yield (*path, key)
        yield from _places(inner, (*path, key))


def dispute_question(
    rule: RuleDraft, record: Mapping[str, Any], why: str, draft: Draft, context: TranslationContext
) -> ReviewQuestion:
    """Asks what is to happen in a case that its rule decides otherwise than a reader of the document.

    Args:
        rule: the rule.
        record: the case, as the author of the rule expects it.
        why: the reason of the reader.
        draft: the draft with the rule.
        context: the inputs.
    """
    sentences = _hashes(rule.quotes, context)
    situation = situation_of(record)
    name = _id(CASE, sentences, situation)
    is_denied = bool(record.get("label"))
    readers = ReviewChoice(
        "allowed" if is_denied else "not allowed", is_denied, why or "Another reader of the document says so."
    )
    words = policies_in_words(draft.policies(context, [rule.id]))[rule.id].text
    own = ReviewChoice(
        "not allowed" if is_denied else "allowed", not is_denied, words, draft.content(context, [rule.id])
    )
    return ReviewQuestion(
        name,
        sentences,
        (),
        f"{_quoted(rule.quotes, context)}{situation_text(situation, context)}",
        (readers, own) if is_denied else (own, readers),
        {**situation, "id": name},
    )


def situation_text(record: Mapping[str, Any], context: TranslationContext) -> str:
    """A case as a question in words."""
    if "proposed" in record:
        return question(witness_of(record, context), tools_of(context))
    return f"A conversation ends with these calls: {case_row(record).before}. Is that all right?"


def ambiguity_question(ambiguity: Ambiguity, context: TranslationContext) -> ReviewQuestion:
    """Asks for the meaning of an ambiguity whose readings are not rules, in words."""
    readings = tuple(dict.fromkeys(" ".join(reading.split()) for reading in ambiguity.readings if reading.strip()))
    sentences, text = _hashes([ambiguity.sentence], context), " ".join(ambiguity.question.split())
    return ReviewQuestion(
        _ambiguity_id(ambiguity, sentences),
        sentences,
        (),
        f"{_quoted([ambiguity.sentence], context)}{text}",
        tuple(ReviewChoice(each, None, each) for each in readings),
    )


def _ambiguity_id(ambiguity: Ambiguity, sentences: Iterable[str]) -> str:
    readings = [" ".join(reading.split()).casefold() for reading in ambiguity.readings]
    return _id(AMBIGUITY, sentences, " ".join(ambiguity.question.split()).casefold(), readings)


def _choice(
    answer: str,
    outcome: Outcome | None,
    meaning: str,
    draft: Draft,
    drafts: Sequence[Draft],
    context: TranslationContext,
) -> ReviewChoice:
    """A reading as a choice, in the words of the rules in which the drafts differ."""
    allowed = None if outcome is None else outcome in LENIENT
    if not draft.rules:
        return ReviewChoice(answer, allowed, meaning)
    written = [{rule.id: rule.source for rule in each.rules} for each in drafts]
    differing = {rule.id for rule in draft.rules if any(each.get(rule.id) != rule.source for each in written)}
    words = " ".join(
        word.text for name, word in policies_in_words(draft.policies(context)).items() if name in differing
    )
    return ReviewChoice(answer, allowed, f"{meaning} ({words})" if words else meaning, draft.content(context))


def _hashes(numbers: Iterable[int], context: TranslationContext) -> tuple[str, ...]:
    return tuple(dict.fromkeys(context.sentence(number).hash for number in sorted(numbers)))


def _quoted(numbers: Iterable[int], context: TranslationContext) -> str:
    text = " ".join(context.sentence(number).text for number in sorted(numbers))
    return f'"{" ".join(text.split())}" '


def _id(kind: str, sentences: Iterable[str], *content: Any) -> str:
    content_json = json.dumps([sorted(sentences), *content], sort_keys=True, default=str)
    return f"{kind}{hashlib.sha256(content_json.encode()).hexdigest()[:12]}"
