"""The stages that ask the model: the survey, the drafts, the reading of their cases, and drafts mended after answers.

A request shows the owner's answers so far that are about its sentences. A rule that stands is read again if a new
answer is about a definition that it quotes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from guardagent.errors import AnswerError, ModelError
from guardagent.policy.review.record import Confirmation, RecordedAnswer, Review, ReviewFinding, ReviewQuestion
from guardagent.translation.assembly import PolicyAssembly
from guardagent.translation.change import NO_REVIEW, Kept
from guardagent.translation.context import TranslationContext
from guardagent.translation.drafting import DraftAuthor, DraftResult, draft_batches, usable_part
from guardagent.translation.drafts import Draft, Problem
from guardagent.translation.examination import examine
from guardagent.translation.readings.cases import CaseReader, CaseReading, dispute_problems, expected, readable_cases
from guardagent.translation.readings.group_reading import GroupReader, GroupReading, SentenceGroup, sentence_groups
from guardagent.translation.readings.questions import Ruling, WholeDocument, rulings_of
from guardagent.translation.requests import ModelRequests
from guardagent.translation.survey import Survey, survey

# --- the owner's answers

MOST_CHARACTERS = 6_000  # of answers about definitions in one request


class OwnerAnswers:
    """The answers to the questions of earlier runs whose sentences the document still has.

    An answer is for the rules of its own sentences. One about a sentence that has no rule, such as a definition, is for
    all rules that quote it.

    Args:
        context: the inputs.
        questions: the questions of earlier runs.
        answers: the answers.
        enforceable: the hashes of the sentences that have rules of their own.
    """

    def __init__(
        self,
        context: TranslationContext,
        questions: Sequence[ReviewQuestion],
        answers: Sequence[RecordedAnswer],
        enforceable: Collection[str] = (),
    ) -> None:
        self._context, self._enforceable = context, frozenset(enforceable)
        there = context.document.first_numbers
        self.rulings = tuple(
            rulings_of([question for question in questions if {*question.sentences} <= there.keys()], answers)
        )
        self._unapplied = {answer.question for answer in answers if not answer.applied}

    @property
    def unapplied(self) -> tuple[Ruling, ...]:
        """The rulings that no run has applied."""
        return tuple(ruling for ruling in self.rulings if ruling.question.id in self._unapplied)

    def shown(self, sentences: Sequence[int]) -> dict[str, str]:
        """Returns the answers for a request about some sentences, as texts by the keys of their rulings.

        Those about the sentences themselves come first. Those about definitions follow as far as there is room.
        """
        hashes = {self._context.sentence(sentence).hash for sentence in sentences}
        own = [ruling for ruling in self.rulings if hashes & {*ruling.question.sentences}]
        shown, room = {ruling.key: ruling.text for ruling in own}, MOST_CHARACTERS
        for ruling in self.rulings:
            if ruling not in own and self._is_of_definition(ruling):
                room -= len(ruling.text)
                shown |= {ruling.key: ruling.text} if room >= 0 else {}
        return shown

    def concerns(self, draft: Draft) -> bool:
        """Whether a new answer is about a definition that a draft quotes, and its author does not know it."""
        quoted = {self._context.sentence(number).hash for rule in draft.rules for number in rule.quotes}
        return any(
            self._is_of_definition(ruling) and ruling.key not in draft.rulings and quoted & {*ruling.question.sentences}
            for ruling in self.unapplied
        )

    def _is_of_definition(self, ruling: Ruling) -> bool:
        return not self._enforceable & {*ruling.question.sentences}


# --- stages

MENDINGS = 3

Progress = Callable[[str], None]
"""Takes a line about the progress."""


@dataclass(slots=True)
class TranslationState:
    """A translation on its way: the inputs, and the results of the stages so far.

    Attributes:
        context: the inputs; after the survey, with its facts and its pattern of failed outputs.
        previous: the review of the earlier translation; without content in a first one.
        standing: what stands of it.
        survey: the fates of the other sentences.
        drafts: the results of all requests for drafts.
        readings: the groups of sentences, with the drafts as they are now.
        unread: the reason why cases of the rules were not read by anybody but their author; empty if all were.
        is_stopped: whether the reader of the cases did not answer at all.
        assembly: the policy of all drafts.
        problems: those of this policy.
    """

    context: TranslationContext
    standing: Kept
    previous: Review = NO_REVIEW
    survey: Survey = field(default_factory=lambda: Survey({}))
    drafts: list[DraftResult] = field(default_factory=list)
    readings: list[GroupReading] = field(default_factory=list)
    unread: str = ""
    is_stopped: bool = False
    assembly: PolicyAssembly = field(default_factory=PolicyAssembly)
    problems: tuple[Problem, ...] = ()

    @property
    def is_interrupted(self) -> bool:
        """Whether the model did not answer a request, so that another run goes on here."""
        return self.is_stopped or self.survey.is_interrupted or any(draft.is_interrupted for draft in self.drafts)


class Stages:
    """Runs the stages for the sentences of a document that do not stand.

    Args:
        state: takes the results.
        model: makes the requests.
        progress: takes a line for each stage.
    """

    def __init__(self, state: TranslationState, model: ModelRequests, progress: Progress) -> None:
        self._state, self._model, self._progress = state, model, progress
        enforceable = (sentence.hash for sentence in state.previous.sentences if sentence.fate == "rule")
        previous = state.previous
        self._owner = OwnerAnswers(state.context, previous.questions, previous.answers, tuple(enforceable))

    def run(self, drafted: Sequence[SentenceGroup]) -> None:
        """Translates the sentences. Without a whole survey, nothing is drafted.

        Args:
            drafted: groups whose drafts are kept from an earlier run.
        """
        state = self._state
        state.standing, again = reconsidered(state.standing, self._owner, state.context)
        drafted = (*drafted, *again)
        known = {number for sentence_group in drafted for number in sentence_group.sentences}
        numbers = sorted(
            {state.context.first_number(number) for number in state.standing.translate if number not in known}
        )
        if numbers:
            self._progress(f"Survey of {_count(numbers, 'sentence')}")
            state.survey = survey(state.context, numbers, self._model, self._owner.shown)
        sentence_survey, enforceable = state.survey, state.survey.numbers("rule")
        state.context = state.context.completed(sentence_survey.facts, sentence_survey.failed_output)
        if sentence_survey.errors or not (enforceable or drafted):
            return
        author = DraftAuthor(state.context, self._model, examine, answers=self._owner.shown)
        state.drafts += self._drafted(author, enforceable)
        if state.is_interrupted:  # nothing is written, so nothing is compared
            return
        groups = [*drafted, *sentence_groups(_usable(state.drafts), enforceable)]
        reader = GroupReader(state.context, self._owner.rulings)
        groups = self._by_answers(author, reader, groups)
        self._progress(f"Reading of the cases of {_count(groups, 'group')} of sentences")
        groups = self._confirmed(author, reader, groups)
        if not state.is_interrupted:
            state.readings = self._read(reader, groups)

    def _drafted(self, author: DraftAuthor, enforceable: Sequence[int]) -> list[DraftResult]:
        if enforceable:
            self._progress(f"Drafts of {_count(enforceable, 'sentence')} that rules can enforce")
        sentences = [self._state.context.sentence(number) for number in enforceable]
        return author.drafts(draft_batches(sentences, self._state.survey.belongs_to))

    def _by_answers(
        self, author: DraftAuthor, reader: GroupReader, groups: Sequence[SentenceGroup]
    ) -> list[SentenceGroup]:
        """The groups with their drafts by the answers. Where no reading that one has keeps one, its author mends it."""
        settled, waiting = list(groups), set(range(len(groups)))
        for _ in range(MENDINGS):
            tasks: dict[int, tuple[Sequence[Problem], Mapping[str, str]]] = {}
            for at in sorted(waiting):
                settled[at] = reader.chosen(settled[at])
                if due := reader.due(settled[at]):
                    known = {ruling.key: ruling.text for ruling in due}
                    tasks[at] = list(_contradictions(settled[at], due)), known
            mended = self._mended(author, settled, tasks)
            waiting = {*mended}
            settled = [mended.get(at, group) for at, group in enumerate(settled)]
        return settled

    def _mended(
        self,
        author: DraftAuthor,
        groups: Sequence[SentenceGroup],
        tasks: Mapping[int, tuple[Sequence[Problem], Mapping[str, str]]],
    ) -> dict[int, SentenceGroup]:
        """The groups with a draft that its author corrected, by their positions.

        Args:
            author: corrects the drafts.
            groups: the groups.
            tasks: the problems and the answers by the positions of their groups.
        """
        drafts = {at: draft for at in tasks if (draft := groups[at].draft) is not None and tasks[at][0]}
        mended = {}
        for (at, draft), result in zip(
            drafts.items(), author.mend((draft, *tasks[at]) for at, draft in drafts.items()), strict=True
        ):
            self._state.drafts.append(replace(result, problems=()))  # that it does what was asked for is judged again
            corrected = usable_part(result)
            if result.draft is not draft and corrected is not None and {*corrected.sentences} == {*draft.sentences}:
                rulings = tuple(dict.fromkeys((*draft.rulings, *tasks[at][1])))
                mended[at] = replace(groups[at], draft=replace(corrected, rulings=rulings))
        return mended

    def _confirmed(
        self, author: DraftAuthor, reader: GroupReader, groups: Sequence[SentenceGroup]
    ) -> list[SentenceGroup]:
        """The groups with what a reader says of their cases. Authors mend disputed ones; new cases are read, too."""
        case_reader = CaseReader(self._state.context, self._model, self._owner.shown)
        groups = self._cases_read(case_reader, groups)
        if self._state.unread:
            return groups

        none: Mapping[str, str] = {}
        tasks = {at: (list(dispute_problems(reader.disputes(group))), none) for at, group in enumerate(groups)}
        mended = self._mended(author, groups, tasks)
        return self._cases_read(case_reader, [mended.get(at, group) for at, group in enumerate(groups)])

    def _cases_read(self, reader: CaseReader, groups: Sequence[SentenceGroup]) -> list[SentenceGroup]:
        known = {key: reading for group in groups for key, reading in group.read.items()}
        try:
            known |= reader.read([rule for group in groups for rule in group.rules], known)
        except ModelError as error:
            self._state.unread, self._state.is_stopped = str(error), not isinstance(error, AnswerError)
        context = self._state.context
        return [
            replace(
                group,
                read={key: known[key] for _, _, key in readable_cases(group.rules, context) if key in known},
            )
            for group in groups
        ]

    def _read(self, reader: GroupReader, groups: Sequence[SentenceGroup]) -> list[GroupReading]:
        """Reads the groups one after the other: a question that another group has is not asked again."""
        standing = self._state.standing.drafts
        readings: list[GroupReading] = []
        for group in groups:
            others = (each.draft for each in groups if each is not group and each.draft is not None)
            whole = WholeDocument((*standing, *others), self._state.context)
            known = [question for reading in readings for question in reading.questions]
            readings.append(reader.read(group, whole, known))
        return readings


def _count(items: Sequence[object], name: str) -> str:
    return f"{len(items)} {name}{'' if len(items) == 1 else 's'}"


def _usable(results: Sequence[DraftResult]) -> list[Draft]:
    return [draft for result in results if (draft := usable_part(result)) is not None]


def _contradictions(group: SentenceGroup, rulings: Sequence[Ruling]) -> Iterator[Problem]:
    for ruling in rulings:
        about = f"sentence {', '.join(map(str, group.sentences))}: {ruling.text}"
        text = f"{about} Write the rules so that they follow this answer, if they do not."
        case = "" if ruling.case is None else json.dumps(ruling.case, ensure_ascii=False)
        yield Problem("answer", text, sentences=group.sentences, example=case, fatal=True)


# --- rules that stand, read again


def reconsidered(
    standing: Kept, owner: OwnerAnswers, context: TranslationContext
) -> tuple[Kept, tuple[SentenceGroup, ...]]:
    """Returns what stands without the rules that new answers concern, and these as groups of sentences.

    A rule that a person wrote or changed stands: only its writer knows why.

    Args:
        standing: what stands of the earlier translation.
        owner: the answers.
        context: the inputs.
    """
    if not owner.unapplied:
        return standing, ()
    readings = {rule.id: rule.readings for rule in standing.review.rules}
    again: list[SentenceGroup] = []
    for group in _groups(standing, owner):
        ways = {readings.get(rule.id, "edited") for rule in group.rules}
        if group.draft is not None and group.sentences and "edited" not in ways and owner.concerns(group.draft):
            cases = readable_cases(group.rules, context) if "single" not in ways else ()
            read = {key: CaseReading(expected(rule, case)) for rule, case, key in cases}  # somebody has read them
            again.append(replace(group, read=read))
    return _without(standing, again, context), tuple(again)


def _groups(standing: Kept, owner: OwnerAnswers) -> Iterable[SentenceGroup]:
    """The rules that stand, by the sentences that need them. They follow all answers that were applied."""
    enforceable = {sentence.number for sentence in standing.review.sentences if sentence.fate == "rule"}
    new = {ruling.key for ruling in owner.unapplied}
    applied = tuple(ruling.key for ruling in owner.rulings if ruling.key not in new)
    for draft in standing.drafts:
        numbers = tuple(sentence for sentence in draft.sentences if sentence in enforceable)
        yield from sentence_groups([replace(draft, sentences=numbers, rulings=applied)], numbers)


def _without(standing: Kept, groups: Collection[SentenceGroup], context: TranslationContext) -> Kept:
    """The part that stands without some groups, and without the entries of the review about them alone."""
    numbers = {number for group in groups for number in group.sentences}
    rules = {rule.id for group in groups for rule in group.rules}
    hashes = {context.sentence(number).hash for number in numbers}

    def stands(sentences: Iterable[str], about: Iterable[str]) -> bool:
        return not hashes.intersection(sentences) and not rules.intersection(about)

    drafts = (
        replace(
            draft,
            sentences=tuple(number for number in draft.sentences if number not in numbers),
            rules=tuple(rule for rule in draft.rules if rule.id not in rules),
        )
        for draft in standing.drafts
    )
    review = standing.review
    left = replace(
        review,
        sentences=tuple(sentence for sentence in review.sentences if sentence.number not in numbers),
        rules=tuple(rule for rule in review.rules if rule.id not in rules),
        questions=tuple(question for question in review.questions if stands(question.sentences, question.rules)),
        findings=tuple(finding for finding in review.findings if stands(finding.sentences, finding.rules)),
        confirmations=tuple(
            confirmation for confirmation in review.confirmations if stands([confirmation.sentence], confirmation.rules)
        ),
    )
    return replace(
        standing,
        translate=tuple(sorted({*standing.translate, *numbers})),
        drafts=tuple(draft for draft in drafts if draft.rules),
        review=left,
        fallen=(*standing.fallen, *sorted(rules)),
    )


def kept_confirmations(previous: Review, now: Review) -> Review:
    """Returns a review with the confirmations of sentences that were taken up again and came out as they were.

    A sentence did if its fate, its rules, and what a person saw with them (questions, answers, findings) are the same.
    A blocking finding that is new voids a confirmation: who confirmed has not seen it.
    """
    known = {confirmation.sentence for confirmation in now.confirmations}
    same = [
        confirmation
        for confirmation in previous.confirmations
        if confirmation.sentence
        and confirmation.sentence not in known
        and _seen(now, confirmation.sentence) == _seen(previous, confirmation.sentence) is not None
    ]
    known_findings = {_identity(finding) for finding in previous.findings if finding.blocking}
    new = [finding for finding in now.findings if finding.blocking and _identity(finding) not in known_findings]
    standing = [
        confirmation
        for confirmation in now.confirmations
        if not any(_concerns(finding, confirmation) for finding in new)
    ]
    return replace(now, confirmations=(*standing, *same))


def _identity(review_finding: ReviewFinding) -> object:
    """A finding with the same words about another rule is another one."""
    return (
        review_finding.kind,
        review_finding.message,
        frozenset(review_finding.sentences),
        frozenset(review_finding.rules),
    )


def _concerns(finding: ReviewFinding, confirmed: Confirmation) -> bool:
    return confirmed.sentence in finding.sentences or not confirmed.rules.keys().isdisjoint(finding.rules)


def _seen(review: Review, sentence: str) -> object:
    """The content that a person sees with a sentence before they confirm it; None if the review does not have it."""
    same = [reviewed for reviewed in review.sentences if reviewed.hash == sentence]
    if not same:
        return None
    rules = {*same[-1].rules}
    answers = {answer.question: (answer.choice, answer.words) for answer in review.answers}

    def is_shown(review_question: ReviewQuestion | ReviewFinding) -> bool:
        return sentence in review_question.sentences or not rules.isdisjoint(review_question.rules)

    return (
        same[-1].fate,
        same[-1].reason,
        sorted((rule.id, rule.hash, rule.words, rule.readings) for rule in review.rules if rule.id in rules),
        sorted(
            (question.id, question.text, str(answers.get(question.id)))
            for question in review.questions
            if is_shown(question)
        ),
        sorted((finding.kind, finding.message, finding.blocking) for finding in review.findings if is_shown(finding)),
    )
