"""Reads a group of sentences: which draft stands, what is to be asked, and which draft is to be mended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from guardagent.errors import InputError
from guardagent.policy.equivalence import Different, Same, Undecided
from guardagent.policy.review.record import Readings, RecordedAnswer, ReviewFinding, ReviewQuestion
from guardagent.translation.context import TranslationContext
from guardagent.translation.drafts import Ambiguity, Draft
from guardagent.translation.readings.comparison import MAX_QUESTIONS, DraftPart, PartComparison, compared, loaded
from guardagent.translation.readings.groups import SentenceGroup
from guardagent.translation.readings.questions import (
    ambiguity_questions,
    case_question,
    fate_question,
    readings_question,
)
from guardagent.translation.readings.rulings import AMBIGUITY, OUTCOMES, READINGS, Ruling, outcome_at, rulings_of


@dataclass(frozen=True, slots=True)
class Mending:
    """The rulings that each draft does not keep. Its author gets their text and their case, and writes it again."""

    first: tuple[Ruling, ...] = ()
    second: tuple[Ruling, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupReading:
    """The result of reading a group.

    Attributes:
        draft: the rules that stand; provisional while a question is open.
        readings: whether the drafts agree.
        questions: the questions to the owner, those with an answer as well.
        findings: what a reviewer has to know.
        mending: the drafts that contradict an answer, or whose authors did not know it; None if there is none.
        cases: the answers as cases, which are kept with the policy.
    """

    draft: Draft
    readings: Readings
    questions: tuple[ReviewQuestion, ...] = ()
    findings: tuple[ReviewFinding, ...] = ()
    mending: Mending | None = None
    cases: tuple[Mapping[str, Any], ...] = ()


def read_group(
    group: SentenceGroup,
    context: TranslationContext,
    answers: Mapping[str, RecordedAnswer],
    surveyed: Sequence[Ambiguity] = (),
    earlier: Sequence[ReviewQuestion] = (),
    seconds: float = 60.0,
) -> GroupReading:
    """Compares the drafts of a group, applies the answers, and asks about the rest.

    A question remains until it is answered, unless both drafts agree about it after other answers. An answer counts
    for every later draft of its sentences, as long as `earlier` has its question.

    Args:
        group: the sentences with both drafts.
        context: the inputs of the translation.
        answers: the answers so far, by the id of their question.
        surveyed: ambiguities that were found before there was a draft, of any sentences.
        earlier: the questions so far, of any sentences.
        seconds: the time limit of a comparison. Counts limit its work before, so that a busy machine asks no more.

    Raises:
        InputError: a draft is invalid or about another document, an answer is no choice of its question, or a witness
            in `earlier` is no case.
    """
    last = len(context.document.sentences)
    if group.grounds and not 1 <= min(group.grounds) <= max(group.grounds) <= last:
        raise InputError(f"a draft is about sentence {max(group.grounds)}; expected the numbers 1 to {last}")
    return _GroupReader(group, context, answers, surveyed, earlier, seconds).read()


class _GroupReader:
    def __init__(
        self,
        group: SentenceGroup,
        context: TranslationContext,
        answers: Mapping[str, RecordedAnswer],
        surveyed: Sequence[Ambiguity],
        earlier: Sequence[ReviewQuestion],
        seconds: float,
    ) -> None:
        self._group, self._context, self._answers, self._seconds = group, context, answers, seconds
        self._surveyed = [one for one in surveyed if one.sentence in group.grounds]
        self._earlier = [one for one in earlier if one.sentences and {*one.sentences} <= {*self._hashes}]
        self._drafts = group.drafts
        self._both = (self._drafts[0], self._drafts[1]) if len(self._drafts) == 2 else None
        self._findings: list[ReviewFinding] = []

    @property
    def _hashes(self) -> tuple[str, ...]:
        return tuple(self._context.sentence(number).hash for number in self._group.grounds)

    def read(self) -> GroupReading:
        draft = self._draft
        self._report(draft)
        broken = [self._due(one, kept) for one, kept in zip(self._drafts, self._kept, strict=True)]
        sides = dict(zip(self._names, broken, strict=True))
        return GroupReading(
            draft,
            self._readings,
            tuple(replace(one, rules=self._rules_about(one, draft)) for one in self._questions),
            tuple(self._findings),
            Mending(**sides) if any(broken) else None,
            tuple(case for one in self._rulings if (case := one.case) is not None),
        )

    # --- questions

    @cached_property
    def _questions(self) -> list[ReviewQuestion]:
        """All questions once, the earlier ones first."""
        found = {one.id: one for one in self._earlier if one.id in self._answers}
        still_open = [one for one in self._earlier if self._is_still_open(one)]
        more = [one for one in self._new if one.id in self._answers or one.sentences not in self._contradicted]
        found.update((one.id, found.get(one.id, one)) for one in (*still_open, *more, *self._ambiguities))
        return list(found.values())

    @cached_property
    def _rulings(self) -> list[Ruling]:
        known = {one.id: one for one in (*self._new, *self._ambiguities, *self._earlier)}
        return list(rulings_of(known.values(), self._answers))

    @cached_property
    def _ambiguities(self) -> tuple[ReviewQuestion, ...]:
        found = [one for draft in self._drafts for one in draft.ambiguities]
        return ambiguity_questions([*found, *self._surveyed], self._context)

    def _is_still_open(self, one: ReviewQuestion) -> bool:
        if one.id in self._answers or one.witness is None:
            return one.id not in self._answers and one.id.startswith(AMBIGUITY)
        outcomes = {outcome_at(loaded(draft, self._context), one.witness, one.id) for draft in self._drafts}
        return len(outcomes) > 1 or not self._rulings

    @cached_property
    def _new(self) -> list[ReviewQuestion]:
        """The questions about the differences of both drafts."""
        found = {one.id: one for _, one in self._compared if one is not None}
        return list(found.values())[:MAX_QUESTIONS]

    @cached_property
    def _compared(self) -> list[tuple[PartComparison, ReviewQuestion | None]]:
        """The comparisons, with their questions."""
        found = compared(*self._both, self._context, self._seconds) if self._both else []
        return [(one, self._question_of(one)) for one in found]

    def _question_of(self, one: PartComparison) -> ReviewQuestion | None:
        assert self._both is not None
        if isinstance(one.found, Same):
            return None
        if found := self._declined(one.part):
            return found
        if isinstance(one.found, Different):
            return None if _both_deny(one.found) else case_question(one.found, one.part, self._both, self._context)
        found = readings_question(one.part, self._both, self._context)
        return None if self._is_known(found) else found

    def _declined(self, part: DraftPart) -> ReviewQuestion | None:
        """The question whether there is a rule, if one draft has none in this part since it declined its sentences."""
        assert self._both is not None
        for none, some in ((0, 1), (1, 0)):
            declining, rules = self._both[none], part.sides[some]
            sentences = sorted({number for one in rules for number in one.quotes} & {*declining.declined})
            if not part.sides[none] and sentences:
                return fate_question(declining, sentences, self._both[some], rules, self._context)
        return None

    def _is_known(self, question: ReviewQuestion) -> bool:
        """Whether both drafts were written after an answer about other words of the same readings."""
        return any(
            one.question.id.startswith(READINGS)
            and not one.is_own_words  # which choose none of two readings that still differ
            and one.question.sentences == question.sentences
            and all(one.is_kept(draft, self._context) for draft in self._drafts)
            for one in rulings_of(self._earlier, self._answers)
        )

    # --- answers

    def _due(self, draft: Draft, kept: Sequence[Ruling]) -> tuple[Ruling, ...]:
        """The rulings that a draft does not keep; its author is not asked twice about two readings or own words."""
        seen = {one.key for one in self._rulings if one.is_own_words or one.question.id.startswith(READINGS)}
        seen &= {*draft.rulings}
        return tuple(one for one in self._rulings if one not in kept and one.key not in seen)

    @property
    def _names(self) -> list[str]:
        sides = {"first": self._group.first, "second": self._group.second}
        return [name for name, draft in sides.items() if draft is not None]

    @cached_property
    def _kept(self) -> list[list[Ruling]]:
        """The rulings that each draft keeps."""
        own = [[one for one in self._rulings if one.is_kept(draft, self._context)] for draft in self._drafts]
        disputed = [one for one in self._rulings if self._is_disputed(one)]
        shared = [one for kept in own for one in kept if self._is_shared(one)]
        return [[one for one in self._rulings if one in (*kept, *shared) and one not in disputed] for kept in own]

    def _is_shared(self, ruling: Ruling) -> bool:
        """Whether both drafts follow a reading if one does: they are proved to say the same, and none denies it."""
        return (
            ruling.question.id.startswith(AMBIGUITY)
            and self._both is not None
            and all(isinstance(one.found, Same) for one, _ in self._compared)
            and not any(ruling.is_opposed(draft, self._context) for draft in self._both)
        )

    def _is_disputed(self, ruling: Ruling) -> bool:
        """Whether the drafts still differ where the answer is in own words: they take the words differently."""
        return ruling.is_own_words and any(one.id == ruling.question.id for one in self._new)

    @property
    def _contradicted(self) -> set[tuple[str, ...]]:
        """The sentences about which a draft contradicts an answer: it is mended before more is asked about them."""
        return {one.question.sentences for one in self._rulings if any(one not in kept for kept in self._kept)}

    @property
    def _fitting(self) -> list[Draft]:
        pairs = zip(self._drafts, self._kept, strict=True)
        return [draft for draft, kept in pairs if len(kept) == len(self._rulings)]

    @cached_property
    def _draft(self) -> Draft:
        """The draft that keeps the answers, the stricter one if both do."""
        if not self._drafts:
            return Draft(self._group.sentences)
        return max(self._fitting or self._drafts, key=self._strictness)

    def _strictness(self, draft: Draft) -> tuple[int, int, int, int]:
        kept = len(self._kept[self._drafts.index(draft)])
        chosen = sum(one.is_chosen(draft, self._context) for one in self._rulings if one.question.witness is None)
        policies = loaded(draft, self._context)
        outcomes = [outcome_at(policies, one.witness, one.id) for one in self._open if one.witness is not None]
        return kept, chosen, sum(map(OUTCOMES.index, outcomes)), len(draft.rules)

    @property
    def _open(self) -> list[ReviewQuestion]:
        return [one for one in self._questions if one.id not in self._answers]

    @property
    def _readings(self) -> Readings:
        if self._both is None:
            return "single"
        if self._open or not self._fitting:
            return "open"
        return "answered" if self._rulings else "agree"

    # --- findings

    def _report(self, draft: Draft) -> None:
        for one in self._group.problems:
            self._find("incompatible_drafts", f"Drafts of these sentences cannot stand together: {one}")
        if self._both is None:
            there = "Only one draft" if self._drafts else "No draft"
            self._find("single_reading", f"{there} of these sentences could be used, so nothing confirms it.")
        for part, question in self._compared:
            self._report_part(part, question)
        self._report_answers(draft)
        self._report_grounds(draft)

    def _report_part(self, one: PartComparison, question: ReviewQuestion | None) -> None:
        ids = [rule.id for side in one.part.sides for rule in side]
        if isinstance(one.found, Undecided):
            is_open = question is not None and question.id not in self._answers
            text = f"Two readings could not be compared: {one.found.why}."
            self._find("undecided_readings", text, ids, blocking=is_open)
        elif question is None and isinstance(one.found, Different) and not one.found.labels_only:
            text = (
                "No call was found that one of two readings lets run and the other denies; where a value is unknown, "
                "they deny for other reasons. That they let the same calls run is not proved."
            )
            self._find("unknown_values", text, ids, blocking=False)
        elif one.found.labels_only and question is None:
            text = "Two readings let the same calls run; where a value is unknown, they may deny for other reasons."
            self._find("unknown_values", text, ids, blocking=False)

    def _report_answers(self, draft: Draft) -> None:
        if self._drafts and not self._fitting:
            text = "No draft follows all answers to the questions about these sentences."
            if any(map(self._is_disputed, self._rulings)):
                text = "Two drafts take an answer in own words differently. Say more, or choose one of the answers."
            self._find("unapplied_answer", text)
        elif self._both and self._contradicted:
            text = "Only one draft follows the answers, so nothing confirms the rest of it."
            self._find("unconfirmed_reading", text, [one.id for one in draft.rules])

    def _report_grounds(self, draft: Draft) -> None:
        if not self._group.sentences:
            self._find("ungrounded_rule", "These rules rest on no sentence.", [one.id for one in draft.rules])
        covered = {*draft.declined, *(number for one in draft.rules for number in one.quotes)}
        missing = sorted({*self._group.sentences} - covered) if self._group.enforceable else []
        if self._drafts and missing:
            self._find("no_rule", f"No rule rests on sentence {', '.join(map(str, missing))}, and no draft says why.")
        for one in self._unclear:
            self._find("ambiguous", f"Sentence {one.sentence} is ambiguous, and no readings are given: {one.question}")

    @property
    def _unclear(self) -> Iterator[Ambiguity]:
        for one in (*self._surveyed, *(one for draft in self._drafts for one in draft.ambiguities)):
            if not ambiguity_questions([one], self._context):
                yield one

    def _find(self, kind: str, message: str, rules: Sequence[str] = (), *, blocking: bool = True) -> None:
        self._findings.append(ReviewFinding(kind, message, self._hashes, tuple(rules), blocking=blocking))

    def _rules_about(self, question: ReviewQuestion, draft: Draft) -> tuple[str, ...]:
        wanted = {*question.sentences}
        return tuple(
            one.id for one in draft.rules if wanted & {self._context.sentence(number).hash for number in one.quotes}
        )


def _both_deny(found: Different) -> bool:
    """Whether no clearer difference was found than that one draft denies what the other cannot check."""
    return set(found.outcomes) == {"denied", "unchecked"}
