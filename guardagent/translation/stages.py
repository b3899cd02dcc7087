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
        return {one.question: one for one in self.previous.answers}

    @property
    def is_interrupted(self) -> bool:
        """Whether the model did not answer a request, so that another run goes on here."""
        return self.survey.is_interrupted or any(one.is_interrupted for one in self.drafts)


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
        known = {number for one in drafted for number in one.sentences}
        numbers = sorted({state.context.first_number(one) for one in state.standing.translate if one not in known})
        if numbers:
            self._progress(f"Survey of {_count(numbers, 'sentence')}")
            state.survey = survey(state.context, numbers, self._model, self._owner.shown)
        found, enforceable = state.survey, state.survey.numbers("rule")
        state.context = state.context.completed(found.facts, found.failed_output)
        if found.errors or not (enforceable or drafted):
            return
        count = len(enforceable) + sum(len(one.sentences) for one in drafted)
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
            one
            for one in state.survey.ambiguities
            if not any(question.id in state.answers for question in ambiguity_questions([one], state.context))
        ]

    def _drafted(self, authors: Authors, enforceable: Sequence[int]) -> tuple[list[DraftResult], list[DraftResult]]:
        if enforceable:
            self._progress(f"Two drafts of {_count(enforceable, 'sentence')} that rules can enforce")
        sentences = [self._state.context.sentence(one) for one in enforceable]
        batches = draft_batches(sentences)
        work = [(authors[0], one) for one in batches]
        work += [(authors[1], one) for one in draft_batches(sentences, first=2)]
        results = self._model.map(lambda one: one[0].draft(one[1]), work)
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
        concerning = tuple({one.key: one for draft in group.drafts for one in self._owner.concerning(draft)}.values())
        first, second = (
            tuple(one for one in concerning if draft is not None and one.key not in draft.rulings)
            for draft in (group.first, group.second)
        )
        found = self._mended(group, (first, second), authors) or group
        missing = [one for one in concerning if any(one.key not in draft.rulings for draft in found.drafts)]
        self._state.unreached += [(found, one) for one in missing]
        return found

    def _mended(self, group: SentenceGroup, mending: Mending, authors: Authors) -> SentenceGroup | None:
        """The group with drafts that their authors corrected; None if there is none."""
        first, second = map(self._corrected, authors, (group.first, group.second), mending)
        if first is None and second is None:
            return None
        return replace(group, first=first or group.first, second=second or group.second)

    def _corrected(self, author: DraftAuthor, draft: Draft | None, rulings: Sequence[Ruling]) -> Draft | None:
        if draft is None or not rulings:
            return None
        known = {one.key: one.text for one in rulings}
        result = author.mend(draft, list(_contradictions(draft, rulings)), known)
        self._state.drafts.append(replace(result, problems=()))  # that the draft follows the answers is judged again
        found = usable_part(result)
        if result.draft is draft or found is None or {*found.sentences} != {*draft.sentences}:
            return None
        return replace(found, rulings=tuple(dict.fromkeys((*draft.rulings, *known))))


def _count(items: Sequence[object], name: str) -> str:
    return f"{len(items)} {name}{'' if len(items) == 1 else 's'}"


def _usable(results: Sequence[DraftResult]) -> list[Draft]:
    return [one for result in results if (one := usable_part(result)) is not None]


def _contradictions(draft: Draft, rulings: Sequence[Ruling]) -> Iterator[Problem]:
    for one in rulings:
        text = f"{one.text} Write the rules so that they follow this answer, if they do not."
        case = "" if one.case is None else json.dumps(one.case, ensure_ascii=False)
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
    readings = {one.id: one.readings for one in standing.review.rules}
    found: list[SentenceGroup] = []
    for group in _groups(standing, owner):
        ways = {readings.get(rule.id, "edited") for draft in group.drafts for rule in draft.rules}
        if group.sentences and ways and "edited" not in ways and any(map(owner.concerning, group.drafts)):
            # Without a second draft if there was none, as nothing would confirm it.
            found.append(replace(group, second=None) if "single" in ways else group)
    return _without(standing, found, context), tuple(found)


def _groups(standing: Kept, owner: OwnerAnswers) -> Iterable[SentenceGroup]:
    """The rules that stand, by the sentences that need them. They follow all answers that were applied."""
    enforceable = {one.number for one in standing.review.sentences if one.fate == "rule"}
    new = {one.key for one in owner.unapplied}
    applied = tuple(one.key for one in owner.rulings if one.key not in new)
    for draft in standing.drafts:
        numbers = tuple(one for one in draft.sentences if one in enforceable)
        known = [replace(draft, sentences=numbers, rulings=applied)]
        yield from sentence_groups(known, known, numbers)


def _without(standing: Kept, groups: Collection[SentenceGroup], context: TranslationContext) -> Kept:
    """The part that stands without some groups, and without the entries of the review about them alone."""
    numbers = {number for one in groups for number in one.sentences}
    rules = {rule.id for one in groups for draft in one.drafts for rule in draft.rules}
    hashes = {context.sentence(one).hash for one in numbers}

    def stands(sentences: Iterable[str], about: Iterable[str]) -> bool:
        return not hashes.intersection(sentences) and not rules.intersection(about)

    drafts = (
        replace(
            one,
            sentences=tuple(number for number in one.sentences if number not in numbers),
            rules=tuple(rule for rule in one.rules if rule.id not in rules),
        )
        for one in standing.drafts
    )
    review = standing.review
    left = replace(
        review,
        sentences=tuple(one for one in review.sentences if one.number not in numbers),
        rules=tuple(one for one in review.rules if one.id not in rules),
        questions=tuple(one for one in review.questions if stands(one.sentences, one.rules)),
        findings=tuple(one for one in review.findings if stands(one.sentences, one.rules)),
        confirmations=tuple(one for one in review.confirmations if stands([one.sentence], one.rules)),
    )
    return replace(
        standing,
        translate=tuple(sorted({*standing.translate, *numbers})),
        drafts=tuple(one for one in drafts if one.rules),
        review=left,
        fallen=(*standing.fallen, *sorted(rules)),
    )


def kept_confirmations(previous: Review, now: Review) -> Review:
    """Returns a review with the confirmations of sentences that were taken up again and came out as they were.

    A sentence did if its fate, its rules, and what a person saw with them (questions, answers, findings) are the same.
    A blocking finding that is new voids a confirmation: who confirmed has not seen it.
    """
    known = {one.sentence for one in now.confirmations}
    same = [
        one
        for one in previous.confirmations
        if one.sentence
        and one.sentence not in known
        and _seen(now, one.sentence) == _seen(previous, one.sentence) is not None
    ]
    known_findings = {_identity(one) for one in previous.findings if one.blocking}
    new = [one for one in now.findings if one.blocking and _identity(one) not in known_findings]
    standing = [one for one in now.confirmations if not any(_concerns(finding, one) for finding in new)]
    return replace(now, confirmations=(*standing, *same))


def _identity(one: ReviewFinding) -> object:
    """A finding with the same words about another rule is another one."""
    return one.kind, one.message, frozenset(one.sentences), frozenset(one.rules)


def _concerns(finding: ReviewFinding, confirmed: Confirmation) -> bool:
    return confirmed.sentence in finding.sentences or not confirmed.rules.keys().isdisjoint(finding.rules)


def _seen(review: Review, sentence: str) -> object:
    """The content that a person sees with a sentence before they confirm it; None if the review does not have it."""
    same = [one for one in review.sentences if one.hash == sentence]
    if not same:
        return None
    rules = {*same[-1].rules}
    answers = {one.question: (one.choice, one.words) for one in review.answers}

    def is_shown(one: ReviewQuestion | ReviewFinding) -> bool:
        return sentence in one.sentences or not rules.isdisjoint(one.rules)

    return (
        same[-1].fate,
        same[-1].reason,
        sorted((one.id, one.hash, one.words, one.readings) for one in review.rules if one.id in rules),
        sorted((one.id, one.text, str(answers.get(one.id))) for one in review.questions if is_shown(one)),
        sorted((one.kind, one.message, one.blocking) for one in review.findings if is_shown(one)),
    )
