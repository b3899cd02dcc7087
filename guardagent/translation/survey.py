"""The survey: a model gives each sentence of a document a fate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from guardagent._support.syntax import PatternError, compile_pattern
from guardagent.errors import AnswerError, ModelError
from guardagent.policy.review.record import Fate, NeededFact
from guardagent.translation.context import TranslationContext
from guardagent.translation.drafts import new_facts
from guardagent.translation.requests import ModelRequests, read_answer, require_each_once

BATCH = 80  # sentences in one request


@dataclass(frozen=True, slots=True)
class _SentenceEntry:
    number: int
    fate: Literal["rule", "definition", "fact", "implied", "not_enforceable"]
    reason: str = ""
    implied_by: tuple[int, ...] = ()
    belongs_to: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _SurveyAnswer:
    sentences: tuple[_SentenceEntry, ...]
    facts: tuple[NeededFact, ...] = ()
    failed_output: str = ""


@dataclass(frozen=True, slots=True)
class Survey:
    """The result of a survey.

    Attributes:
        sentences: their fates and the reasons, by number. A sentence that the model gave no usable answer about has
            the fate `open`; the reason may be empty for a rule or a definition.
        facts: the facts that the host has to give.
        failed_output: the pattern of failed outputs; empty if it is unknown.
        errors: the sentences that got no fate, with the reason.
        is_interrupted: whether the model did not answer at all, so that another run goes on here.
        belongs_to: the sentences whose rules a sentence only makes exceptions to or says more about, by its number.
    """

    sentences: Mapping[int, tuple[Fate, str]]
    facts: tuple[NeededFact, ...] = ()
    failed_output: str = ""
    errors: Mapping[tuple[int, ...], str] = field(default_factory=dict)
    is_interrupted: bool = False
    belongs_to: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    def numbers(self, *fates: Fate) -> tuple[int, ...]:
        """The numbers of the sentences with one of the fates, in order."""
        return tuple(number for number, (fate, _) in self.sentences.items() if fate in fates)


def survey(
    context: TranslationContext,
    numbers: Sequence[int],
    model: ModelRequests,
    answers: Callable[[Sequence[int]], Mapping[str, str]] = lambda _: {},
) -> Survey:
    """Surveys the sentences of the given numbers, at most eighty in one request.

    Sentences of a request that failed have the fate `open`, and the error is in `errors`.

    Args:
        context: the inputs.
        numbers: the numbers of the sentences.
        model: makes the requests.
        answers: returns the owner's answers that concern some sentences, as texts.
    """
    groups = [tuple(numbers[at : at + BATCH]) for at in range(0, len(numbers), BATCH)]

    def ask(group: Sequence[int]) -> Survey:
        request = context.request("survey", answers(group), {"sentences": ", ".join(map(str, group))})
        return model.ask(request, lambda answer: _read(answer, group, context))

    def surveyed(group: tuple[int, ...]) -> Survey:
        try:
            return _joined(model.divided(ask, group))
        except ModelError as error:
            open_ones: dict[int, tuple[Fate, str]] = dict.fromkeys(group, ("open", str(error)))
            return Survey(open_ones, errors={group: str(error)}, is_interrupted=not isinstance(error, AnswerError))

    return _joined(model.map(surveyed, groups))


def _joined(surveys: Sequence[Survey]) -> Survey:
    facts: dict[str, NeededFact] = {}
    for survey in surveys:
        facts = {fact.name: fact for fact in survey.facts} | facts
    return Survey(
        {number: sentence for partial_survey in surveys for number, sentence in partial_survey.sentences.items()},
        tuple(facts.values()),
        next((partial_survey.failed_output for partial_survey in surveys if partial_survey.failed_output), ""),
        {group: error for partial_survey in surveys for group, error in partial_survey.errors.items()},
        any(partial_survey.is_interrupted for partial_survey in surveys),
        {number: others for partial_survey in surveys for number, others in partial_survey.belongs_to.items()},
    )


def _read(answer: str, group: Sequence[int], context: TranslationContext) -> Survey:
    """Reads an answer.

    Raises:
        AnswerError: it is not a survey of exactly these sentences.
    """
    content = read_answer(answer, _SurveyAnswer)
    require_each_once([entry.number for entry in content.sentences], group, "sentences")
    try:
        compile_pattern(content.failed_output)
    except PatternError as error:
        raise AnswerError(f"failed_output: is not a valid regular expression: {error}; expected RE2 syntax") from None
    return Survey(
        dict(sorted((entry.number, _fate(entry, context)) for entry in content.sentences)),
        new_facts(content.facts, [fact.name for fact in context.facts]),
        content.failed_output,
        belongs_to={entry.number: entry.belongs_to for entry in content.sentences if entry.belongs_to},
    )


def _fate(entry: _SentenceEntry, context: TranslationContext) -> tuple[Fate, str]:
    number, reason, last = entry.number, " ".join(entry.reason.split()), len(context.document.sentences)
    if entry.belongs_to and (number in entry.belongs_to or not all(1 <= at <= last for at in entry.belongs_to)):
        raise AnswerError(f"sentence {number}: 'belongs_to' is {list(entry.belongs_to)}; expected other sentences")
    if entry.fate in ("not_enforceable", "fact") and not reason:
        raise AnswerError(f"sentence {number}: the fate is {entry.fate!r} without a 'reason'; expected one")
    if entry.fate == "implied":
        others = entry.implied_by
        if not others or number in others or not all(1 <= other <= last for other in others):
            raise AnswerError(f"sentence {number}: 'implied_by' is {list(others)}; expected numbers of other sentences")
        reason = f"implied by {', '.join(map(str, others))}{f': {reason}' if reason else ''}"
    return entry.fate, reason
