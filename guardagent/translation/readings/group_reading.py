"""Reads a group of sentences: the readings that answers choose, the open questions, and what is to be mended.

Rules connect the sentences on which they rest; such sentences are one group.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from guardagent.errors import InputError
from guardagent.policy.equivalence import Same
from guardagent.policy.equivalence.draft import Outcome
from guardagent.policy.review.record import Readings, ReviewFinding, ReviewQuestion
from guardagent.translation.context import TranslationContext
from guardagent.translation.drafts import Ambiguity, Draft, RuleDraft, distinct, selected
from guardagent.translation.examination.examined import holding_cases
from guardagent.translation.readings.cases import CaseReading, Dispute, disputes, is_confirmed, situation_of
from guardagent.translation.readings.questions import (
    OUTCOMES,
    Ruling,
    WholeDocument,
    ambiguity_question,
    dispute_question,
    loaded,
    outcome_at,
    reading_question,
)

# --- groups


@dataclass(frozen=True, slots=True)
class SentenceGroup:
    """Sentences that are read together.

    Attributes:
        sentences: their numbers.
        draft: the draft of these sentences; None if there is none of all of them. One without rules declined them, or
            forgot them.
        problems: the reasons that drafts of these sentences cannot stand together.
        enforceable: whether the sentences need rules.
        read: what a reader of the document said about the cases of the draft, by `case_key`.
    """

    sentences: tuple[int, ...]
    draft: Draft | None
    problems: tuple[str, ...] = ()
    enforceable: bool = True
    read: Mapping[str, CaseReading] = field(default_factory=dict)

    @property
    def rules(self) -> tuple[RuleDraft, ...]:
        """The rules of its draft, if it has one."""
        return self.draft.rules if self.draft is not None else ()

    @property
    def grounds(self) -> tuple[int, ...]:
        """The sentences, and those that their rules quote as well, such as definitions."""
        return tuple(sorted({*self.sentences, *(number for rule in self.rules for number in rule.quotes)}))

    @property
    def mentioned(self) -> set[int]:
        """The sentences, and all that the draft says something about."""
        return {*self.sentences, *(self.draft.mentioned if self.draft is not None else ())}

    def renumbered(self, numbers: Mapping[str, int]) -> SentenceGroup:
        """The group with the numbers of another version of the document, by the old ones."""
        sentences = tuple(sorted(numbers[str(at)] for at in self.sentences))
        draft = self.draft and replace(self.draft.renumbered(numbers), sentences=sentences)
        return replace(self, sentences=sentences, draft=draft)


def sentence_groups(drafts: Sequence[Draft], enforceable: Collection[int]) -> tuple[SentenceGroup, ...]:
    """Groups the sentences that the rules of drafts connect, in the order of the document.

    A rule connects the enforceable sentences that it quotes; definitions do not connect. A rule that quotes no
    enforceable sentence is in the group of those that it quotes.

    Args:
        drafts: the drafts, of different sentences.
        enforceable: the sentences that need rules. Each of them is in one group.
    """
    grouping = _Grouping(distinct(drafts), frozenset(enforceable))
    return tuple(map(grouping.group, grouping.components()))


class _Grouping:
    def __init__(self, drafts: Sequence[Draft], enforceable: frozenset[int]) -> None:
        self._drafts, self._enforceable = drafts, enforceable

    def components(self) -> list[frozenset[int]]:
        components: list[frozenset[int]] = []
        for component in self._connected():
            touching = [other for other in components if other & component]
            components = [other for other in components if not other & component] + [component.union(*touching)]
        return sorted(components, key=min)

    def _connected(self) -> Iterator[frozenset[int]]:
        yield from (frozenset({number}) for number in self._enforceable)
        rules = [rule for draft in self._drafts for rule in draft.rules]
        yield from map(self._anchors, rules)
        quoted = {number for rule in rules for number in rule.quotes}
        for draft in self._drafts:
            apart = {*draft.declined, *(ambiguity.sentence for ambiguity in draft.ambiguities)} - quoted
            yield from (frozenset({number}) for number in apart)

    def _anchors(self, rule: RuleDraft) -> frozenset[int]:
        quoted = frozenset(rule.quotes)
        return quoted & self._enforceable or quoted

    def group(self, component: frozenset[int]) -> SentenceGroup:
        sentences, is_enforceable = tuple(sorted(component)), bool(component & self._enforceable)
        try:
            return SentenceGroup(sentences, self._draft(component, sentences), (), is_enforceable)
        except InputError as error:
            return SentenceGroup(sentences, None, (str(error),), is_enforceable)

    def _draft(self, component: frozenset[int], sentences: tuple[int, ...]) -> Draft | None:
        """All drafts as far as they are about the sentences; None unless they cover them."""
        if not self._drafts or not component & self._enforceable <= {
            at for each in self._drafts for at in each.sentences
        }:
            return None
        concerned = [each for each in self._drafts if component & _sentences(each) or self._rules(each, component)]
        rules = [rule for each in concerned for rule in self._rules(each, component)]
        about = component.union(*(rule.quotes for rule in rules))
        ambiguities = [doubt for each in self._drafts for doubt in each.ambiguities if doubt.sentence in about]
        return selected(concerned, sentences, rules, ambiguities)

    def _rules(self, draft: Draft, component: frozenset[int]) -> list[RuleDraft]:
        return [rule for rule in draft.rules if self._anchors(rule) <= component]


def _sentences(draft: Draft) -> set[int]:
    """The sentences that a draft is about, or says something about."""
    return {*draft.sentences, *draft.declined, *(ambiguity.sentence for ambiguity in draft.ambiguities)}


# --- reading a group


@dataclass(frozen=True, slots=True)
class GroupReading:
    """The result of reading a group.

    Attributes:
        group: the group with its draft, by the readings that the answers choose.
        draft: the rules that stand; while a question is open, those by the reading that denies its call.
        readings: whether the draft is confirmed.
        questions: the questions to the owner, those with an answer as well.
        findings: what a reviewer has to know.
    """

    group: SentenceGroup
    draft: Draft
    readings: Readings
    questions: tuple[ReviewQuestion, ...]
    findings: tuple[ReviewFinding, ...]


class GroupReader:
    """Reads groups: applies the answers to their drafts, and asks about the rest.

    An answer counts for every later draft of its sentences. An answered call chooses between two readings that differ
    on it, whatever the question was.

    Args:
        context: the inputs of the translation.
        rulings: the answers so far, about any sentences.
    """

    def __init__(self, context: TranslationContext, rulings: Sequence[Ruling] = ()) -> None:
        self._context, self._rulings = context, rulings
        self._answered = {ruling.question.id for ruling in rulings}

    # --- answers

    def rulings(self, group: SentenceGroup) -> list[Ruling]:
        """The rulings about sentences of a group."""
        hashes = {*self._hashes(group)}
        return [
            ruling for ruling in self._rulings if ruling.question.sentences and {*ruling.question.sentences} <= hashes
        ]

    def chosen(self, group: SentenceGroup) -> SentenceGroup:
        """The group with its draft by the readings that the answers choose."""
        draft = group.draft
        for ruling in self.rulings(group) if draft is not None else ():
            if draft is None or ruling.is_own_words or ruling.is_kept(draft, self._context):
                continue
            for ambiguity in sorted(draft.ambiguities, key=lambda each: not self._asks_about(ruling.question, each)):
                other = self._other(draft, ambiguity)
                if other is not None and ruling.is_kept(other, self._context):
                    draft = self._with_holding_cases(other)
                    break
        return replace(group, draft=draft)

    def due(self, group: SentenceGroup) -> tuple[Ruling, ...]:
        """The rulings that no reading of the draft keeps: its author is asked."""
        if group.draft is None:
            return ()
        return tuple(ruling for ruling in self.rulings(group) if not ruling.is_kept(group.draft, self._context))

    def _other(self, draft: Draft, ambiguity: Ambiguity) -> Draft | None:
        """The draft by the other reading; None if its author does not say it, or if it does not load."""
        if not ambiguity.otherwise:
            return None
        other = draft.switched(ambiguity)
        try:
            loaded(other, self._context)
        except InputError:
            return None
        return other

    def _with_holding_cases(self, draft: Draft) -> Draft:
        """The draft with the cases that its rules decide as expected."""
        policies = loaded(draft, self._context)
        rules = (replace(rule, cases=holding_cases(policies, rule.id, rule.cases)) for rule in draft.rules)
        return replace(draft, rules=tuple(rules))

    def disputes(self, group: SentenceGroup) -> list[Dispute]:
        """The cases that their reader takes otherwise. None with an answer, or where known readings differ."""
        draft = group.draft
        pairs = [(draft, self._other(draft, ambiguity)) for ambiguity in draft.ambiguities] if draft is not None else []

        witnesses = [situation_of(ruling.question.witness or {}) for ruling in self.rulings(group)]

        def is_known(case: Mapping[str, Any]) -> bool:
            return situation_of(case) in witnesses or any(
                other is not None and self._differ_at(case, draft, other) for draft, other in pairs
            )

        return [each for each in disputes(group.rules, group.read, self._context) if not is_known(each[1])]

    def _differ_at(self, record: Mapping[str, Any], first: Draft, second: Draft) -> bool:
        return self._outcome(first, record) != self._outcome(second, record)

    # --- questions

    def read(self, group: SentenceGroup, whole: WholeDocument, others: Sequence[ReviewQuestion] = ()) -> GroupReading:
        """Reads a group whose draft is by the answers.

        Args:
            group: the group.
            whole: the rules of all other sentences.
            others: the questions about groups that were read before: none of them is asked twice.
        """
        rulings, findings = self.rulings(group), list[ReviewFinding]()
        find = partial(self._find, findings, group)
        questions = {ruling.question.id: ruling.question for ruling in rulings}
        settled = [*questions.values(), *others]
        for question in (
            *self._of_ambiguities(group, whole, settled, find),
            *self._of_disputes(group, whole, settled, find),
        ):
            questions.setdefault(question.id, question)
        due = self.due(group)
        self._report(group, due, find)
        unconfirmed = [rule.id for rule in group.rules if not is_confirmed(rule, group.read, self._context)]
        if unconfirmed and not rulings:
            find("single_reading", "Nobody but their author has read the cases of these rules.", unconfirmed)
        is_open = any(name not in self._answered for name in questions) or bool(due)
        readings: Readings = "open" if is_open else "answered" if rulings else "single" if unconfirmed else "agree"
        shown = tuple(replace(question, rules=self._rules_about(question, group)) for question in questions.values())
        draft = self._strict(group.draft or Draft(group.sentences), questions.values())
        return GroupReading(group, draft, "single" if group.draft is None else readings, shown, tuple(findings))

    def _strict(self, draft: Draft, questions: Iterable[ReviewQuestion]) -> Draft:
        """The draft by the readings that deny the calls of questions without an answer."""
        for question in questions:
            if question.id not in self._answered and question.witness is not None:
                others = (self._other(draft, ambiguity) for ambiguity in draft.ambiguities)
                drafts = [draft, *(self._with_holding_cases(other) for other in others if other is not None)]
                draft = max(drafts, key=lambda each: OUTCOMES.index(self._outcome(each, question.witness)))
        return draft

    def _outcome(self, draft: Draft, record: Mapping[str, Any] | None) -> Outcome:
        return outcome_at(loaded(draft, self._context), record or {}, "a case")

    def _of_ambiguities(
        self, group: SentenceGroup, whole: WholeDocument, settled: Sequence[ReviewQuestion], find: Callable[..., None]
    ) -> Iterator[ReviewQuestion]:
        draft = group.draft
        for ambiguity in draft.ambiguities if draft is not None else ():
            other = self._other(draft, ambiguity) if draft is not None else None
            if draft is None or other is None:
                yield ambiguity_question(ambiguity, self._context)
                continue
            if any(self._decides(question, ambiguity, draft, other) for question in settled):
                text = f"Not asked, since another question about its sentence decides it: {ambiguity.question}"
                find("decided_reading", text, [rule.id for rule in ambiguity.otherwise], blocking=False)
                continue
            difference = whole.difference(draft, other)
            if isinstance(difference, Same):
                text = f"Two readings of sentence {ambiguity.sentence} let the same calls run: {ambiguity.question}"
                find("same_readings", text, [rule.id for rule in ambiguity.otherwise], blocking=False)
                continue
            question = reading_question(ambiguity, (draft, other), difference, self._context)
            settled = [*settled, question]
            yield question

    def _decides(self, question: ReviewQuestion, ambiguity: Ambiguity, first: Draft, second: Draft) -> bool:
        """Whether the answer to a question about a call decides between two readings.

        One about other sentences does not: its call may be denied for what it asks about.
        """
        if question.witness is None or not self._asks_about(question, ambiguity):
            return False
        return self._differ_at(question.witness, first, second)

    def _asks_about(self, question: ReviewQuestion, ambiguity: Ambiguity) -> bool:
        return self._context.sentence(ambiguity.sentence).hash in question.sentences

    def _of_disputes(
        self, group: SentenceGroup, whole: WholeDocument, settled: Sequence[ReviewQuestion], find: Callable[..., None]
    ) -> Iterator[ReviewQuestion]:
        """Yields a question for each rule that decides a case otherwise than its reader: about the first such case."""
        draft = group.draft
        for rule, record, reading in self.disputes(group):
            assert draft is not None
            if any(self._is_about(question, rule) for question in settled):
                continue
            if reading.violates is None:  # its author looked at it again, and sees no other reading
                text = f"A reader cannot tell from the words what a case is: {reading.why}"
                find("unclear_case", text, [rule.id], blocking=False)
                continue
            if whole.denies(record):
                text = f"A reader decides a case otherwise, which other rules deny anyway: {reading.why}"
                find("disputed_case", text, [rule.id], blocking=False)
                continue
            question = dispute_question(rule, record, reading.why, draft, self._context)
            settled = [*settled, question]
            yield question

    def _is_about(self, question: ReviewQuestion, rule: RuleDraft) -> bool:
        """Whether a question is about the sentences of a rule: its answer may decide the case as well."""
        hashes = {self._context.sentence(number).hash for number in rule.quotes}
        return question.id not in self._answered and bool(hashes & {*question.sentences})

    # --- findings

    def _report(self, group: SentenceGroup, due: Sequence[Ruling], find: Callable[..., None]) -> None:
        draft = group.draft
        for problem in group.problems:
            find("incompatible_drafts", f"Drafts of these sentences cannot stand together: {problem}")
        if draft is None:
            find("single_reading", "No draft of these sentences could be used.")
            return
        if due:
            find("unapplied_answer", f"The rules do not follow an answer about their sentences: {due[0].text}")
        covered = {*draft.declined, *(number for rule in draft.rules for number in rule.quotes)}
        missing = sorted({*group.sentences} - covered) if group.enforceable else []
        if missing:
            find("no_rule", f"No rule rests on sentence {', '.join(map(str, missing))}, and no draft says why.")

    def _find(
        self,
        findings: list[ReviewFinding],
        group: SentenceGroup,
        kind: str,
        message: str,
        rules: Sequence[str] = (),
        *,
        blocking: bool = True,
    ) -> None:
        findings.append(ReviewFinding(kind, message, self._hashes(group), tuple(rules), blocking=blocking))

    def _hashes(self, group: SentenceGroup) -> tuple[str, ...]:
        return tuple(self._context.sentence(number).hash for number in group.grounds)

    def _rules_about(self, question: ReviewQuestion, group: SentenceGroup) -> tuple[str, ...]:
        """The rules of the sentences of a question, without those that only quote one, such as a definition."""
        wanted = {number for number in group.sentences if self._context.sentence(number).hash in question.sentences}
        return tuple(rule.id for rule in group.rules if wanted & rule.quotes.keys())
