"""The stages that ask the model: the survey, two drafts of each batch of sentences, and drafts mended after answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from guardagent.policy.review.record import RecordedAnswer, ReviewQuestion
from guardagent.translation.context import TranslationContext
from guardagent.translation.drafting import DraftAuthor, DraftResult
from guardagent.translation.drafting_pieces.batches import draft_batches
from guardagent.translation.drafting_pieces.usable import usable_part
from guardagent.translation.drafts import Ambiguity, Draft, Problem
from guardagent.translation.examination import examine
from guardagent.translation.pipeline.owner_answers import OwnerAnswers
from guardagent.translation.readings import (
    GroupReading,
    Mending,
    Ruling,
    SentenceGroup,
    ambiguity_questions,
    read_group,
    sentence_groups,
)
from guardagent.translation.requests import ModelRequests
from guardagent.translation.samples_pieces.facts import FactDescription
from guardagent.translation.survey import Survey, survey

LEAST_CALLS = 12  # of a short document, for which three per sentence leave no correction
CALLS_PER_SENTENCE = 3
MENDINGS = 3
_SOLVER = threading.Lock()  # threads make requests at the same time, but Z3 serves one of them

Progress = Callable[[str], None]
"""Takes a line about the progress."""


@dataclass(frozen=True, slots=True)
class StageResults:
    """The results of all stages.

    Attributes:
        context: with the facts and the failed output of the survey.
        drafts: the results of all requests for drafts.
        groups: the groups of sentences, with the drafts as they are now.
        readings: of each group.
        unreached: the answers that concern a group of other sentences, and that its drafts could not be given.
    """

    context: TranslationContext
    survey: Survey
    drafts: tuple[DraftResult, ...] = ()
    groups: tuple[SentenceGroup, ...] = ()
    readings: tuple[GroupReading, ...] = ()
    unreached: tuple[tuple[SentenceGroup, Ruling], ...] = ()

    @property
    def is_interrupted(self) -> bool:
        """Whether the model did not answer a request, so that another run goes on here."""
        return self.survey.is_interrupted or any(one.is_interrupted for one in self.drafts)

    @property
    def open_groups(self) -> Iterator[SentenceGroup]:
        """The groups with an open question, or with an answer that no draft follows."""
        return (group for group, one in zip(self.groups, self.readings, strict=True) if one.readings == "open")


class Stages:
    """Runs the stages for some sentences of a document.

    Args:
        context: the inputs.
        model: makes the requests.
        earlier: the questions of earlier runs.
        answers: the answers, by the id of their question.
        owner: the same, by what they concern.
        progress: takes a line for each stage.
    """

    def __init__(
        self,
        context: TranslationContext,
        model: ModelRequests,
        earlier: Sequence[ReviewQuestion],
        answers: Mapping[str, RecordedAnswer],
        owner: OwnerAnswers,
        progress: Progress,
    ) -> None:
        self._context, self._model, self._progress = context, model, progress
        self._earlier, self._answers, self._owner = earlier, answers, owner
        self._mendings: list[DraftResult] = []
        self._unreached: list[tuple[SentenceGroup, Ruling]] = []

    def run(self, numbers: Sequence[int], drafted: Sequence[SentenceGroup] = ()) -> StageResults:
        """Translates sentences. Without a whole survey, nothing is drafted.

        Args:
            numbers: the sentences, without those of groups that are drafted.
            drafted: groups whose drafts are kept from an earlier run.
        """
        numbers = sorted({self._context.first_number(one) for one in numbers})
        found = Survey({})
        if numbers:
            self._progress(f"Survey of {_count(numbers, 'sentence')}")
            found = survey(self._context, numbers, self._model, self._owner.shown)
        context, enforceable = _surveyed(self._context, found), found.numbers("rule")
        if found.errors or not (enforceable or drafted):
            return StageResults(context, found)
        count = len(enforceable) + sum(len(one.sentences) for one in drafted)
        self._model.limit = max(LEAST_CALLS, CALLS_PER_SENTENCE * count)
        authors = _Authors(context, self._model, self._owner, self._doubts(found))
        first, second = self._drafted(authors, context, enforceable)
        if any(one.is_interrupted for one in (*first, *second)):  # nothing is written, so nothing is compared
            return StageResults(context, found, (*first, *second))
        groups = sentence_groups(_usable(first), _usable(second), enforceable)
        self._progress(f"Comparison of {_count([*drafted, *groups], 'group')} of sentences")
        read = self._model.map(partial(self._read, context, found, authors), [*drafted, *groups])
        results = (*first, *second, *self._mendings)
        groups, readings = tuple(one for one, _ in read), tuple(one for _, one in read)
        return StageResults(context, found, results, groups, readings, tuple(self._unreached))

    def _doubts(self, found: Survey) -> list[Ambiguity]:
        """The ambiguities of the survey without an answer."""
        answered = {*self._answers}
        return [
            one
            for one in found.ambiguities
            if not answered.intersection(question.id for question in ambiguity_questions([one], self._context))
        ]

    def _drafted(
        self, authors: _Authors, context: TranslationContext, enforceable: Sequence[int]
    ) -> tuple[list[DraftResult], list[DraftResult]]:
        if enforceable:
            self._progress(f"Two drafts of {_count(enforceable, 'sentence')} that rules can enforce")
        sentences = [context.sentence(one) for one in enforceable]
        batches = draft_batches(sentences)
        work = [(authors.first, one) for one in batches]
        work += [(authors.second, one) for one in draft_batches(sentences, first=2)]
        results = self._model.map(lambda one: one[0].draft(one[1]), work)
        return results[: len(batches)], results[len(batches) :]

    def _read(
        self, context: TranslationContext, found: Survey, authors: _Authors, group: SentenceGroup
    ) -> tuple[SentenceGroup, GroupReading]:
        """Reads a group; drafts that do not keep the answers, or do not know those that concern them, are mended."""
        group = self._informed(group, authors)

        def read(group: SentenceGroup) -> GroupReading:
            with _SOLVER:
                return read_group(group, context, self._answers, found.ambiguities, self._earlier)

        reading = read(group)
        for _ in range(MENDINGS):
            mended = None if reading.mending is None else self._mended(group, reading.mending, authors)
            if mended is None:
                break
            group, reading = mended, read(mended)
        return group, reading

    def _informed(self, group: SentenceGroup, authors: _Authors) -> SentenceGroup:
        """The group with drafts whose authors know the new answers about other sentences that concern it."""
        concerning = tuple({one.key: one for draft in group.drafts for one in self._owner.concerning(draft)}.values())
        if not concerning:
            return group
        first, second = (_unknown(concerning, draft) for draft in (group.first, group.second))
        found = self._mended(group, Mending(first, second), authors) or group
        missing = [one for one in concerning if any(one.key not in draft.rulings for draft in found.drafts)]
        self._unreached += [(found, one) for one in missing]
        return found

    def _mended(self, group: SentenceGroup, mending: Mending, authors: _Authors) -> SentenceGroup | None:
        """The group with drafts that their authors corrected; None if there is none."""
        first = self._corrected(authors.first, group.first, mending.first)
        second = self._corrected(authors.second, group.second, mending.second)
        if first is None and second is None:
            return None
        return replace(group, first=first or group.first, second=second or group.second)

    def _corrected(self, author: DraftAuthor, draft: Draft | None, rulings: Sequence[Ruling]) -> Draft | None:
        if draft is None or not rulings:
            return None
        known = {one.key: one.text for one in rulings}
        result = author.mend(draft, list(_contradictions(draft, rulings)), known)
        self._mendings.append(replace(result, problems=()))  # that the draft follows the answers is judged again
        found = usable_part(result)
        if result.draft is draft or found is None or {*found.sentences} != {*draft.sentences}:
            return None
        return replace(found, rulings=tuple(dict.fromkeys((*draft.rulings, *known))))


class _Authors:
    """The authors of the first and the second draft. Only the first one brings the cases of the policy."""

    def __init__(
        self, context: TranslationContext, model: ModelRequests, owner: OwnerAnswers, doubts: Sequence[Ambiguity]
    ) -> None:
        known: dict[str, Any] = {"answers": owner.shown, "doubts": doubts}
        self.first = DraftAuthor("draft", context, model, all_problems, **known)
        self.second = DraftAuthor("second_draft", context, model, fatal_problems, **known)


def _unknown(rulings: Sequence[Ruling], draft: Draft | None) -> tuple[Ruling, ...]:
    return () if draft is None else tuple(one for one in rulings if one.key not in draft.rulings)


def _count(items: Sequence[object], name: str) -> str:
    return f"{len(items)} {name}{'' if len(items) == 1 else 's'}"


def _usable(results: Sequence[DraftResult]) -> list[Draft]:
    return [one for result in results if (one := usable_part(result)) is not None]


def _contradictions(draft: Draft, rulings: Sequence[Ruling]) -> Iterator[Problem]:
    for one in rulings:
        text = f"{one.text} Write the rules so that they follow this answer, if they do not."
        case = "" if one.case is None else json.dumps(one.case, ensure_ascii=False)
        yield Problem("answer", text, sentences=draft.sentences, example=case, fatal=True)


def _surveyed(context: TranslationContext, found: Survey) -> TranslationContext:
    """The context with what the survey found; what the operator gave has precedence."""
    facts = tuple(FactDescription(one.name, one.description) for one in found.facts)
    return replace(context, facts=(*context.facts, *facts), failed_output=context.failed_output or found.failed_output)


def all_problems(draft: Draft, context: TranslationContext) -> tuple[Problem, ...]:
    """The problems of a draft."""
    with _SOLVER:
        return examine(draft, context)


def fatal_problems(draft: Draft, context: TranslationContext) -> tuple[Problem, ...]:
    """The problems with which a draft cannot be compared with another one."""
    with _SOLVER:
        return examine(draft, context, only_fatal=True)
