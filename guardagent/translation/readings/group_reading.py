"""Reads a group of sentences: selects the draft that stands, the open questions, and the draft to mend.

Rules connect the sentences on which they rest; such sentences are one group. A part of a draft is selected with the
declarations that its rules need.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from guardagent.errors import InputError
from guardagent.policy.equivalence import Different, Same, Undecided
from guardagent.policy.review.record import Readings, RecordedAnswer, ReviewFinding, ReviewQuestion
from guardagent.translation.context import TranslationContext
from guardagent.translation.drafts import Ambiguity, Draft, RuleDraft
from guardagent.translation.readings.questions import (
    AMBIGUITY,
    MAX_QUESTIONS,
    OUTCOMES,
    READINGS,
    DraftComparison,
    PartComparison,
    Ruling,
    ambiguity_questions,
    case_question,
    fate_question,
    loaded,
    outcome_at,
    readings_question,
    rulings_of,
)

# --- parts of drafts

Declarations = Mapping[str, Mapping[str, Any]]


def selected(
    drafts: Sequence[Draft], sentences: tuple[int, ...], rules: Sequence[RuleDraft], ambiguities: Iterable[Ambiguity]
) -> Draft:
    """One draft of some sentences.

    Args:
        drafts: the drafts that concern these sentences.
        sentences: the sentences.
        rules: those of their rules that rest on them.
        ambiguities: those of their ambiguities that concern them.

    Raises:
        InputError: two of the drafts have rules of one id, or different declarations of one name.
    """
    ids = [rule.id for rule in rules]
    if twice := sorted({id_ for id_ in ids if ids.count(id_) > 1}):
        raise InputError(f"two drafts have a rule {twice[0]!r}; expected another id for each rule")
    text = _text([rule.source for rule in rules])
    seen = [set(draft.rulings) for draft in drafts]
    return Draft(
        sentences,
        tuple(rules),
        _needed(text, drafts),
        tuple(dict.fromkeys(fact for draft in drafts for fact in draft.facts if _mentions(text, fact.name))),
        {number: why for draft in drafts for number, why in draft.declined.items() if number in sentences},
        tuple(ambiguities),
        tuple(sorted(set.intersection(*seen))) if seen else (),
    )


def _needed(text: str, drafts: Sequence[Draft]) -> Declarations:
    """The declarations that a text mentions, and those that these mention."""
    declarations: dict[str, dict[str, Any]] = {}
    waiting = [text]
    while waiting:
        mentioned = waiting.pop()
        for key, name, value in _declared(drafts):
            if not _mentions(mentioned, name.partition("(")[0]):
                continue
            known = declarations.setdefault(key, {})
            if name not in known:
                waiting.append(_text(value))
            if known.setdefault(name, value) != value:
                raise InputError(f"two drafts declare {name!r} in '{key}' differently; expected another name")
    return declarations


def _declared(drafts: Sequence[Draft]) -> Iterable[tuple[str, str, Any]]:
    for draft in drafts:
        for key, names in draft.declarations.items():
            for name, value in names.items():
                yield key, str(name), value


def _text(value: Any) -> str:
    return json.dumps(value, default=str, ensure_ascii=False)


def _mentions(text: str, name: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None


# --- groups

_NOTHING = 0  # stands for the sentence of rules that quote none


@dataclass(frozen=True, slots=True)
class SentenceGroup:
    """Sentences that are read together.

    Attributes:
        sentences: their numbers; empty for the rules that quote no sentence.
        first, second: the drafts of these sentences; None if a side has no draft of all of them. A side without rules
            declined the sentences, or forgot them.
        problems: the reasons that drafts of these sentences cannot stand together.
        enforceable: whether the sentences need rules.
    """

    sentences: tuple[int, ...]
    first: Draft | None
    second: Draft | None
    problems: tuple[str, ...] = ()
    enforceable: bool = True

    @property
    def drafts(self) -> tuple[Draft, ...]:
        """Both drafts, as far as there are any."""
        return tuple(draft for draft in (self.first, self.second) if draft is not None)

    @property
    def grounds(self) -> tuple[int, ...]:
        """The sentences, and those that their rules quote as well, such as definitions."""
        quoted = {number for draft in self.drafts for rule in draft.rules for number in rule.quotes}
        return tuple(sorted({*self.sentences, *quoted}))


def sentence_groups(
    first: Sequence[Draft], second: Sequence[Draft], enforceable: Collection[int]
) -> tuple[SentenceGroup, ...]:
    """Groups the sentences that the rules of either side connect, in the order of the document.

    A rule connects the enforceable sentences that it quotes; definitions do not connect. A rule that quotes no
    enforceable sentence is in the group of those that it quotes, and the rules that quote none are in one group.

    Args:
        first: the drafts of one side, of different sentences.
        second: those of the other side.
        enforceable: the sentences that need rules. Each of them is in one group.
    """
    grouping = _Grouping(first, second, frozenset(enforceable))
    return tuple(map(grouping.group, grouping.components()))


class _Grouping:
    def __init__(self, first: Sequence[Draft], second: Sequence[Draft], enforceable: frozenset[int]) -> None:
        self._sides, self._enforceable = (first, second), enforceable

    def components(self) -> list[frozenset[int]]:
        components: list[frozenset[int]] = []
        for component in self._connected():
            touching = [other for other in components if other & component]
            components = [other for other in components if not other & component] + [component.union(*touching)]
        return sorted(components, key=min)

    def _connected(self) -> Iterator[frozenset[int]]:
        yield from (frozenset({number}) for number in self._enforceable)
        rules = [rule for drafts in self._sides for draft in drafts for rule in draft.rules]
        yield from map(self._anchors, rules)
        quoted = {number for rule in rules for number in rule.quotes}
        for draft in (draft for drafts in self._sides for draft in drafts):
            apart = {*draft.declined, *(ambiguity.sentence for ambiguity in draft.ambiguities)} - quoted
            yield from (frozenset({number}) for number in apart)

    def _anchors(self, rule: RuleDraft) -> frozenset[int]:
        quoted = frozenset(rule.quotes)
        return quoted & self._enforceable or quoted or frozenset({_NOTHING})

    def group(self, component: frozenset[int]) -> SentenceGroup:
        problems: list[str] = []
        quoted = {number for drafts in self._sides for rule in self._rules(drafts, component) for number in rule.quotes}
        first, second = (self._side(drafts, component, quoted, problems) for drafts in self._sides)
        sentences = tuple(sorted(component - {_NOTHING}))
        return SentenceGroup(sentences, first, second, tuple(problems), bool(component & self._enforceable))

    def _rules(self, drafts: Iterable[Draft], component: frozenset[int]) -> list[RuleDraft]:
        return [rule for draft in drafts for rule in draft.rules if self._anchors(rule) <= component]

    def _side(
        self, drafts: Sequence[Draft], component: frozenset[int], quoted: Collection[int], problems: list[str]
    ) -> Draft | None:
        covered = {number for draft in drafts for number in draft.sentences}
        if not drafts or not component & self._enforceable <= covered:
            return None
        concerned = [draft for draft in drafts if component & _sentences(draft) or self._rules([draft], component)]
        rules = self._rules(concerned, component)
        ambiguities = [
            ambiguity
            for draft in drafts
            for ambiguity in draft.ambiguities
            if ambiguity.sentence in component | {*quoted}
        ]
        try:
            return selected(concerned, tuple(sorted(component - {_NOTHING})), rules, ambiguities)
        except InputError as error:
            problems.append(str(error))
            return None


def _sentences(draft: Draft) -> set[int]:
    """The sentences that a draft is about, or says something about."""
    return {*draft.sentences, *draft.declined, *(ambiguity.sentence for ambiguity in draft.ambiguities)}


# --- reading a group


Mending = tuple[tuple[Ruling, ...], tuple[Ruling, ...]]
"""The rulings that each draft does not keep. Its author gets their text and their case, and writes it again."""


@dataclass(frozen=True, slots=True)
class GroupReading:
    """The result of reading a group.

    Attributes:
        group: the group with both drafts.
        draft: the rules that stand; provisional while a question is open.
        readings: whether the drafts agree.
        questions: the questions to the owner, those with an answer as well.
        findings: what a reviewer has to know.
        mending: the answers that a draft contradicts, or whose author did not know them.
    """

    group: SentenceGroup
    draft: Draft
    readings: Readings
    questions: tuple[ReviewQuestion, ...]
    findings: tuple[ReviewFinding, ...]
    mending: Mending


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
        InputError: a draft is invalid or about another document, an answer is not a choice of its question, or a
            witness in `earlier` is not a case.
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
        self._surveyed = [ambiguity for ambiguity in surveyed if ambiguity.sentence in group.grounds]
        self._earlier = [
            review_question
            for review_question in earlier
            if review_question.sentences and {*review_question.sentences} <= {*self._hashes}
        ]
        self._drafts = group.drafts
        self._both = (self._drafts[0], self._drafts[1]) if len(self._drafts) == 2 else None
        self._findings: list[ReviewFinding] = []

    @property
    def _hashes(self) -> tuple[str, ...]:
        return tuple(self._context.sentence(number).hash for number in self._group.grounds)

    def read(self) -> GroupReading:
        draft = self._draft
        self._report(draft)
        return GroupReading(
            self._group,
            draft,
            self._readings,
            tuple(replace(question, rules=self._rules_about(question, draft)) for question in self._questions),
            tuple(self._findings),
            (self._due(self._group.first), self._due(self._group.second)),
        )

    # --- questions

    @cached_property
    def _questions(self) -> list[ReviewQuestion]:
        """All questions once, the earlier ones first."""
        questions = {question.id: question for question in self._earlier if question.id in self._answers}
        still_open = [question for question in self._earlier if self._is_still_open(question)]
        more = [
            review_question
            for review_question in self._new
            if review_question.id in self._answers or review_question.sentences not in self._contradicted
        ]
        questions.update(
            (ambiguity.id, questions.get(ambiguity.id, ambiguity))
            for ambiguity in (*still_open, *more, *self._ambiguities)
        )
        return list(questions.values())

    @cached_property
    def _rulings(self) -> list[Ruling]:
        known = {ambiguity.id: ambiguity for ambiguity in (*self._new, *self._ambiguities, *self._earlier)}
        return list(rulings_of(known.values(), self._answers))

    @cached_property
    def _ambiguities(self) -> tuple[ReviewQuestion, ...]:
        ambiguities = [ambiguity for draft in self._drafts for ambiguity in draft.ambiguities]
        return ambiguity_questions([*ambiguities, *self._surveyed], self._context)

    def _is_still_open(self, review_question: ReviewQuestion) -> bool:
        if review_question.id in self._answers or review_question.witness is None:
            return review_question.id not in self._answers and review_question.id.startswith(AMBIGUITY)
        outcomes = {
            outcome_at(loaded(draft, self._context), review_question.witness, review_question.id)
            for draft in self._drafts
        }
        return len(outcomes) > 1 or not self._rulings

    @cached_property
    def _new(self) -> list[ReviewQuestion]:
        """The questions about the differences of both drafts."""
        new_questions = {question.id: question for _, question in self._compared if question is not None}
        return list(new_questions.values())[:MAX_QUESTIONS]

    @cached_property
    def _compared(self) -> list[tuple[PartComparison, ReviewQuestion | None]]:
        """The comparisons, with their questions."""
        parts = DraftComparison(self._both, self._context, self._seconds).parts() if self._both else []
        return [(part, self._question_of(part)) for part in parts]

    def _question_of(self, part: PartComparison) -> ReviewQuestion | None:
        assert self._both is not None
        if isinstance(part.result, Same):
            return None
        if declined := self._declined(part):
            return declined
        if isinstance(part.result, Different):
            return None if _both_deny(part.result) else case_question(part.result, part, self._both, self._context)
        question = readings_question(part, self._both, self._context)
        return None if self._is_known(question) else question

    def _declined(self, part: PartComparison) -> ReviewQuestion | None:
        """The question whether there is a rule, if one draft has none in this part since it declined its sentences."""
        assert self._both is not None
        for none, some in ((0, 1), (1, 0)):
            declining, rules = self._both[none], part.sides[some]
            sentences = sorted({number for rule in rules for number in rule.quotes} & {*declining.declined})
            if not part.sides[none] and sentences:
                return fate_question(declining, sentences, self._both[some], rules, self._context)
        return None

    def _is_known(self, question: ReviewQuestion) -> bool:
        """Whether both drafts were written after an answer about other words of the same readings."""
        return any(
            ruling.question.id.startswith(READINGS)
            and not ruling.is_own_words  # they pick neither of two readings that still differ
            and ruling.question.sentences == question.sentences
            and all(ruling.is_kept(draft, self._context) for draft in self._drafts)
            for ruling in rulings_of(self._earlier, self._answers)
        )

    # --- answers

    def _due(self, draft: Draft | None) -> tuple[Ruling, ...]:
        """The rulings that a draft does not keep; its author is not asked twice about two readings or own words."""
        if draft is None:
            return ()
        kept = self._kept[self._drafts.index(draft)]
        seen = {
            ruling.key for ruling in self._rulings if ruling.is_own_words or ruling.question.id.startswith(READINGS)
        }
        seen &= {*draft.rulings}
        return tuple(ruling for ruling in self._rulings if ruling not in kept and ruling.key not in seen)

    @cached_property
    def _kept(self) -> list[list[Ruling]]:
        """The rulings that each draft keeps."""
        own = [[ruling for ruling in self._rulings if ruling.is_kept(draft, self._context)] for draft in self._drafts]
        disputed = [ruling for ruling in self._rulings if self._is_disputed(ruling)]
        shared = [ruling for kept in own for ruling in kept if self._is_shared(ruling)]
        return [
            [ruling for ruling in self._rulings if ruling in (*kept, *shared) and ruling not in disputed]
            for kept in own
        ]

    def _is_shared(self, ruling: Ruling) -> bool:
        """Whether both drafts follow a reading if one does: they are proved to say the same, and none denies it."""
        return (
            ruling.question.id.startswith(AMBIGUITY)
            and self._both is not None
            and all(isinstance(comparison.result, Same) for comparison, _ in self._compared)
            and not any(ruling.is_opposed(draft, self._context) for draft in self._both)
        )

    def _is_disputed(self, ruling: Ruling) -> bool:
        """Whether the drafts still differ where the answer is in own words: they take the words differently."""
        return ruling.is_own_words and any(review_question.id == ruling.question.id for review_question in self._new)

    @property
    def _contradicted(self) -> set[tuple[str, ...]]:
        """The sentences about which a draft contradicts an answer: it is mended before more is asked about them."""
        return {ruling.question.sentences for ruling in self._rulings if any(ruling not in kept for kept in self._kept)}

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
        chosen = sum(
            ruling.is_chosen(draft, self._context) for ruling in self._rulings if ruling.question.witness is None
        )
        policies = loaded(draft, self._context)
        outcomes = [
            outcome_at(policies, question.witness, question.id)
            for question in self._open
            if question.witness is not None
        ]
        return kept, chosen, sum(map(OUTCOMES.index, outcomes)), len(draft.rules)

    @property
    def _open(self) -> list[ReviewQuestion]:
        return [question for question in self._questions if question.id not in self._answers]

    @property
    def _readings(self) -> Readings:
        if self._both is None:
            return "single"
        if self._open or not self._fitting:
            return "open"
        return "answered" if self._rulings else "agree"

    # --- findings

    def _report(self, draft: Draft) -> None:
        for problem in self._group.problems:
            self._find("incompatible_drafts", f"Drafts of these sentences cannot stand together: {problem}")
        if self._both is None:
            there = "Only one draft" if self._drafts else "No draft"
            self._find("single_reading", f"{there} of these sentences could be used, so nothing confirms it.")
        for part, question in self._compared:
            self._report_part(part, question)
        self._report_answers(draft)
        self._report_grounds(draft)

    def _report_part(self, part: PartComparison, question: ReviewQuestion | None) -> None:
        ids, result = [rule.id for side in part.sides for rule in side], part.result
        if isinstance(result, Undecided):
            is_open = question is not None and question.id not in self._answers
            text = f"Two readings could not be compared: {result.why}."
            self._find("undecided_readings", text, ids, blocking=is_open)
        elif question is None and (result.labels_only or isinstance(result, Different)):
            text = "Two readings let the same calls run; where a value is unknown, they may deny for other reasons."
            if not result.labels_only:
                text = (
                    "No call was found that one of two readings lets run and the other denies; where a value is "
                    "unknown, they deny for other reasons. That they let the same calls run is not proved."
                )
            self._find("unknown_values", text, ids, blocking=False)

    def _report_answers(self, draft: Draft) -> None:
        if self._drafts and not self._fitting:
            text = "No draft follows all answers to the questions about these sentences."
            if any(map(self._is_disputed, self._rulings)):
                text = "Two drafts take an answer in own words differently. Say more, or choose one of the answers."
            self._find("unapplied_answer", text)
        elif self._both and self._contradicted:
            text = "Only one draft follows the answers, so nothing confirms the rest of it."
            self._find("unconfirmed_reading", text, [rule.id for rule in draft.rules])

    def _report_grounds(self, draft: Draft) -> None:
        if not self._group.sentences:
            self._find("ungrounded_rule", "These rules rest on no sentence.", [rule.id for rule in draft.rules])
        covered = {*draft.declined, *(number for rule in draft.rules for number in rule.quotes)}
        missing = sorted({*self._group.sentences} - covered) if self._group.enforceable else []
        if self._drafts and missing:
            self._find("no_rule", f"No rule rests on sentence {', '.join(map(str, missing))}, and no draft says why.")
        for ambiguity in self._unclear:
            self._find(
                "ambiguous",
                f"Sentence {ambiguity.sentence} is ambiguous, and no readings are given: {ambiguity.question}",
            )

    @property
    def _unclear(self) -> Iterator[Ambiguity]:
        for ambiguity in (*self._surveyed, *(ambiguity for draft in self._drafts for ambiguity in draft.ambiguities)):
            if not ambiguity_questions([ambiguity], self._context):
                yield ambiguity

    def _find(self, kind: str, message: str, rules: Sequence[str] = (), *, blocking: bool = True) -> None:
        self._findings.append(ReviewFinding(kind, message, self._hashes, tuple(rules), blocking=blocking))

    def _rules_about(self, question: ReviewQuestion, draft: Draft) -> tuple[str, ...]:
        wanted = {*question.sentences}
        return tuple(
            rule.id for rule in draft.rules if wanted & {self._context.sentence(number).hash for number in rule.quotes}
        )


def _both_deny(difference: Different) -> bool:
    """Whether no clearer difference was found than that one draft denies what the other cannot check."""
    return set(difference.outcomes) == {"denied", "unchecked"}
