"""The stages that ask the model: the survey, two drafts of each batch of sentences, and drafts mended after answers.

A request shows the owner's answers so far that concern its sentences. A rule that stands is read again if a new answer
about another sentence concerns it.
"""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain
from typing import Any

from guardagent.policy.review.record import Confirmation, RecordedAnswer, Review, ReviewFinding, ReviewQuestion
from guardagent.translation.assembly import PolicyAssembly
from guardagent.translation.change import NO_REVIEW, Kept
from guardagent.translation.context import TranslationContext
from guardagent.translation.drafting import DraftAuthor, DraftResult, draft_batches, usable_part
from guardagent.translation.drafts import Ambiguity, Draft, Problem
from guardagent.translation.examination import examine
from guardagent.translation.readings.group_reading import (
    GroupReading,
    Mending,
    SentenceGroup,
    read_group,
    sentence_groups,
)
from guardagent.translation.readings.questions import AMBIGUITY, Ruling, ambiguity_questions, rulings_of
from guardagent.translation.requests import ModelRequests
from guardagent.translation.survey import Survey, survey

# --- the owner's answers

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
        policy: Mapping[str, Any],
    ) -> None:
        self._context, self._policy = context, policy
        self._rules = {policy["id"]: policy for policy in self._policy.get("policies", ())}
        there = context.document.first_numbers
        self.rulings = tuple(
            rulings_of([question for question in questions if {*question.sentences} <= there.keys()], answers)
        )
        self._unapplied = {answer.question for answer in answers.values() if not answer.applied}

    @property
    def unapplied(self) -> tuple[Ruling, ...]:
        """The rulings that no run has applied."""
        return tuple(ruling for ruling in self.rulings if ruling.question.id in self._unapplied)

    def shown(self, sentences: Sequence[int]) -> dict[str, str]:
        """Returns the answers for a request about some sentences, as texts by the keys of their rulings.

        Those about the sentences themselves come first. The others follow as far as there is room: those under the same
        heading and with most words in common first.
        """
        wanted = [self._context.sentence(sentence) for sentence in sentences]
        hashes, paths = {sentence.hash for sentence in wanted}, {sentence.path for sentence in wanted}
        words = frozenset(chain.from_iterable(map(self._words, (sentence.text for sentence in wanted))))

        def relevance(ruling: Ruling) -> int:
            same = any(each.path in paths for each in self._sentences(ruling))
            return len(words & self._subjects[ruling.key].words) + _SAME_HEADING * same

        own = [ruling for ruling in self.rulings if hashes & {*ruling.question.sentences}]
        others = sorted((ruling for ruling in self.rulings if ruling not in own), key=relevance, reverse=True)
        return {ruling.key: text for ruling, text in (*((ruling, _text(ruling)) for ruling in own), *_first(others))}

    def concerning(self, draft: Draft) -> tuple[Ruling, ...]:
        """Returns the new answers about other sentences that concern the rules of a draft, and that it does not know.

        They concern it if they share a name that the policy declares, such as a definition; or if the question is about
        a meaning, and its words are in the sentences of the draft, whose rules have a tool in common with it.
        """
        own = {self._context.sentence(sentence).hash for sentence in draft.sentences}
        others = [ruling for ruling in self.unapplied if not own & {*ruling.question.sentences}]
        unknown = [ruling for ruling in others if ruling.key not in draft.rulings]
        subject = self._subject_of(draft) if unknown else _Subject()
        return tuple(ruling for ruling in unknown if self._concerns(ruling, subject, draft))

    def _concerns(self, ruling: Ruling, subject: _Subject, draft: Draft) -> bool:
        about = self._subjects[ruling.key]
        if about.names & subject.names:
            return True
        quoted = {self._context.sentence(number).hash for rule in draft.rules for number in rule.quotes}
        if quoted & {*ruling.question.sentences}:
            return True
        if not (ruling.question.id.startswith(AMBIGUITY) or ruling.is_own_words):
            return False
        shared = {word for word in about.words & subject.words if word in self._distinctive}
        return bool(shared) and (bool(about.tools & subject.tools) or not about.tools)

    # --- subjects

    @cached_property
    def _subjects(self) -> Mapping[str, _Subject]:
        return {ruling.key: self._subject(ruling) for ruling in self.rulings}

    def _subject(self, ruling: Ruling) -> _Subject:
        """The subject of an answer: the question without the sentence that it quotes, the answer, and the rules.

        The words about a witness are those of one call, not of a meaning.
        """
        text = ruling.question.text if ruling.question.witness is None else ""
        for sentence in self._sentences(ruling):
            text = text.replace(" ".join(sentence.text.split()), " ", 1)
        rules = [self._rules[name] for name in ruling.question.rules if name in self._rules]
        witness = ruling.question.witness or {}
        formal = json.dumps([witness, ruling.choice.policy, rules], default=str)
        used = self._names(json.dumps([*rules, *ruling.choice.policy.get("policies", ())], default=str))
        return _Subject(
            frozenset(self._words(f"{text} {ruling.choice.answer}")),
            self._tools(f"{formal} {ruling.question.text}"),
            used,
        )

    def _subject_of(self, draft: Draft) -> _Subject:
        quoted = {number for rule in draft.rules for number in rule.quotes}
        texts = [self._context.sentence(sentence).text for sentence in sorted({*draft.sentences, *quoted})]
        formal = json.dumps([rule.rule for rule in draft.rules], default=str)
        return _Subject(frozenset(self._words(" ".join(texts))), self._tools(formal), self._names(formal))

    def _sentences(self, ruling: Ruling) -> list[Any]:
        numbers = self._context.document.first_numbers
        return [self._context.sentence(numbers[name]) for name in ruling.question.sentences if name in numbers]

    def _tools(self, text: str) -> frozenset[str]:
        return frozenset(
            tool.name for tool in self._context.tools if re.search(rf"(?<!\w){re.escape(tool.name)}(?!\w)", text)
        )

    def _names(self, text: str) -> frozenset[str]:
        """The names in a formula that are neither tools nor words of the language: those that a policy declares."""
        return frozenset(re.findall(r"\w+", text)) & self._declared

    @cached_property
    def _declared(self) -> frozenset[str]:
        """The names that the policy file and the readings of the answers declare."""
        policies = [self._policy, *(ruling.choice.policy for ruling in self.rulings)]
        names = (name for policy in policies for key in _DECLARE for name in policy.get(key, ()))
        return frozenset(str(name).partition("(")[0] for name in names)

    def _words(self, text: str) -> Iterator[str]:
        return (_stem(match) for match in _WORD.findall(text.casefold().replace("_", " ")) if match not in _COMMON)

    @cached_property
    def _distinctive(self) -> frozenset[str]:
        """The words that not every other sentence has."""
        sentences = self._context.document.sentences
        counts = Counter(chain.from_iterable({*self._words(sentence.text)} for sentence in sentences))
        return frozenset(word for word, count in counts.items() if count <= max(3, len(sentences) // 5))


def _stem(word: str) -> str:
    return word.removesuffix("s") if len(word) > 3 else word


def _text(ruling: Ruling) -> str:
    """The ruling with the reading that was chosen."""
    meaning = "" if ruling.choice.allowed is None or not ruling.choice.words else f" It means: {ruling.choice.words}"
    return f"{ruling.text}{meaning}"


def _first(rulings: Iterable[Ruling]) -> Iterator[tuple[Ruling, str]]:
    room = MOST_CHARACTERS
    for ruling in rulings:
        text = _text(ruling)
        room -= len(text)
        if room >= 0:
            yield ruling, text


# --- stages

LEAST_CALLS = 12  # of a short document, for which three per sentence leave no correction
CALLS_PER_SENTENCE = 3
MENDINGS = 3
_SOLVER = threading.Lock()  # threads make requests at the same time, but Z3 serves one of them

Progress = Callable[[str], None]
"""Takes a line about the progress."""

Authors = tuple[DraftAuthor, DraftAuthor]


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
        unreached: the answers that concern a group of other sentences, and that its drafts could not be given.
        assembly: the policy of all drafts.
        problems: those of this policy.
    """

    context: TranslationContext
    standing: Kept
    previous: Review = NO_REVIEW
    survey: Survey = field(default_factory=lambda: Survey({}))
    drafts: list[DraftResult] = field(default_factory=list)
    readings: list[GroupReading] = field(default_factory=list)
    unreached: list[tuple[SentenceGroup, Ruling]] = field(default_factory=list)
    assembly: PolicyAssembly = field(default_factory=PolicyAssembly)
    problems: tuple[Problem, ...] = ()

    @property
    def answers(self) -> dict[str, RecordedAnswer]:
        """The answers so far, by the id of their question."""
        return {answer.question: answer for answer in self.previous.answers}

    @property
    def is_interrupted(self) -> bool:
        """Whether the model did not answer a request, so that another run goes on here."""
        return self.survey.is_interrupted or any(draft.is_interrupted for draft in self.drafts)


class Stages:
    """Runs the stages for the sentences of a document that do not stand.

    Args:
        state: takes the results.
        model: makes the requests.
        progress: takes a line for each stage.
    """

    def __init__(self, state: TranslationState, model: ModelRequests, progress: Progress) -> None:
        self._state, self._model, self._progress = state, model, progress
        policy = state.standing.lines.content
        self._owner = OwnerAnswers(state.context, state.previous.questions, state.answers, policy)

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
        count = len(enforceable) + sum(len(sentence_group.sentences) for sentence_group in drafted)
        self._model.limit = max(LEAST_CALLS, CALLS_PER_SENTENCE * count)
        authors = self._authors()
        first, second = self._drafted(authors, enforceable)
        state.drafts += [*first, *second]
        if state.is_interrupted:  # nothing is written, so nothing is compared
            return
        groups = [*drafted, *sentence_groups(_usable(first), _usable(second), enforceable)]
        self._progress(f"Comparison of {_count(groups, 'group')} of sentences")
        state.readings = self._model.map(partial(self._read, authors), groups)

    def _authors(self) -> Authors:
        """The authors of the first and the second draft. Only the first one brings the cases of the policy."""
        known: dict[str, Any] = {"answers": self._owner.shown, "doubts": self._doubts()}
        context, model = self._state.context, self._model
        return (
            DraftAuthor("draft", context, model, partial(_problems, only_fatal=False), **known),
            DraftAuthor("second_draft", context, model, partial(_problems, only_fatal=True), **known),
        )

    def _doubts(self) -> list[Ambiguity]:
        """The ambiguities of the survey without an answer."""
        state = self._state
        return [
            ambiguity
            for ambiguity in state.survey.ambiguities
            if not any(question.id in state.answers for question in ambiguity_questions([ambiguity], state.context))
        ]

    def _drafted(self, authors: Authors, enforceable: Sequence[int]) -> tuple[list[DraftResult], list[DraftResult]]:
        if enforceable:
            self._progress(f"Two drafts of {_count(enforceable, 'sentence')} that rules can enforce")
        sentences = [self._state.context.sentence(number) for number in enforceable]
        batches = draft_batches(sentences)
        work = [(authors[0], batch) for batch in batches]
        work += [(authors[1], draft_batch) for draft_batch in draft_batches(sentences, first=2)]
        results = self._model.map(lambda job: job[0].draft(job[1]), work)
        return results[: len(batches)], results[len(batches) :]

    def _read(self, authors: Authors, group: SentenceGroup) -> GroupReading:
        """Reads a group; drafts that do not keep the answers, or do not know those that concern them, are mended."""
        state = self._state

        def read(group: SentenceGroup) -> GroupReading:
            with _SOLVER:
                surveyed, earlier = state.survey.ambiguities, state.previous.questions
                return read_group(group, state.context, state.answers, surveyed, earlier)

        reading = read(self._informed(group, authors))
        for _ in range(MENDINGS):
            mended = self._mended(reading.group, reading.mending, authors)
            if mended is None:
                break
            reading = read(mended)
        return reading

    def _informed(self, group: SentenceGroup, authors: Authors) -> SentenceGroup:
        """The group with drafts whose authors know the new answers about other sentences that concern it."""
        concerning = tuple(
            {ruling.key: ruling for draft in group.drafts for ruling in self._owner.concerning(draft)}.values()
        )
        first, second = (
            tuple(ruling for ruling in concerning if draft is not None and ruling.key not in draft.rulings)
            for draft in (group.first, group.second)
        )
        sentence_group = self._mended(group, (first, second), authors) or group
        missing = [
            ruling for ruling in concerning if any(ruling.key not in draft.rulings for draft in sentence_group.drafts)
        ]
        self._state.unreached += [(sentence_group, ruling) for ruling in missing]
        return sentence_group

    def _mended(self, group: SentenceGroup, mending: Mending, authors: Authors) -> SentenceGroup | None:
        """The group with drafts that their authors corrected; None if there is none."""
        first, second = map(self._corrected, authors, (group.first, group.second), mending)
        if first is None and second is None:
            return None
        return replace(group, first=first or group.first, second=second or group.second)

    def _corrected(self, author: DraftAuthor, draft: Draft | None, rulings: Sequence[Ruling]) -> Draft | None:
        if draft is None or not rulings:
            return None
        known = {ruling.key: ruling.text for ruling in rulings}
        result = author.mend(draft, list(_contradictions(draft, rulings)), known)
        self._state.drafts.append(replace(result, problems=()))  # that the draft follows the answers is judged again
        corrected = usable_part(result)
        if result.draft is draft or corrected is None or {*corrected.sentences} != {*draft.sentences}:
            return None
        return replace(corrected, rulings=tuple(dict.fromkeys((*draft.rulings, *known))))


def _count(items: Sequence[object], name: str) -> str:
    return f"{len(items)} {name}{'' if len(items) == 1 else 's'}"


def _usable(results: Sequence[DraftResult]) -> list[Draft]:
    return [draft for result in results if (draft := usable_part(result)) is not None]


def _contradictions(draft: Draft, rulings: Sequence[Ruling]) -> Iterator[Problem]:
    for ruling in rulings:
        text = f"{ruling.text} Write the rules so that they follow this answer, if they do not."
        case = "" if ruling.case is None else json.dumps(ruling.case, ensure_ascii=False)
        yield Problem("answer", text, sentences=draft.sentences, example=case, fatal=True)


def _problems(draft: Draft, context: TranslationContext, *, only_fatal: bool) -> tuple[Problem, ...]:
    """The problems of a draft, or only those with which it cannot be compared with another one."""
    with _SOLVER:
        return examine(draft, context, only_fatal=only_fatal)


# --- rules that stand, read again


def reconsidered(
    standing: Kept, owner: OwnerAnswers, context: TranslationContext
) -> tuple[Kept, tuple[SentenceGroup, ...]]:
    """Returns what stands without the rules that new answers concern, and these as groups of sentences.

    Both authors of a group begin with the rule as it stands, since two drafts of it agreed or a person decided. A rule
    that a person wrote or changed stands: only its writer knows why.

    Args:
        standing: what stands of the earlier translation.
        owner: the answers.
        context: the inputs.
    """
    if not owner.unapplied:
        return standing, ()
    readings = {rule.id: rule.readings for rule in standing.review.rules}
    sentence_groups: list[SentenceGroup] = []
    for group in _groups(standing, owner):
        ways = {readings.get(rule.id, "edited") for draft in group.drafts for rule in draft.rules}
        if group.sentences and ways and "edited" not in ways and any(map(owner.concerning, group.drafts)):
            # Without a second draft if there was none, as nothing would confirm it.
            sentence_groups.append(replace(group, second=None) if "single" in ways else group)
    return _without(standing, sentence_groups, context), tuple(sentence_groups)


def _groups(standing: Kept, owner: OwnerAnswers) -> Iterable[SentenceGroup]:
    """The rules that stand, by the sentences that need them. They follow all answers that were applied."""
    enforceable = {sentence.number for sentence in standing.review.sentences if sentence.fate == "rule"}
    new = {ruling.key for ruling in owner.unapplied}
    applied = tuple(ruling.key for ruling in owner.rulings if ruling.key not in new)
    for draft in standing.drafts:
        numbers = tuple(sentence for sentence in draft.sentences if sentence in enforceable)
        known = [replace(draft, sentences=numbers, rulings=applied)]
        yield from sentence_groups(known, known, numbers)


def _without(standing: Kept, groups: Collection[SentenceGroup], context: TranslationContext) -> Kept:
    """The part that stands without some groups, and without the entries of the review about them alone."""
    numbers = {number for group in groups for number in group.sentences}
    rules = {rule.id for group in groups for draft in group.drafts for rule in draft.rules}
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
