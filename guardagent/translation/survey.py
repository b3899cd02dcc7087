"""The survey: a model gives each sentence of a document a fate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from guardagent.errors import AnswerError, ModelError
from guardagent.policy.file.policy_keys import Key, choice, name, regular_expression
from guardagent.policy.review.record import FATES, Fate, NeededFact
from guardagent.translation.context import TranslationContext, facts_text, sentences_text, shared_data
from guardagent.translation.requests import (
    ModelRequests,
    Request,
    listed,
    optional_text,
    read_answer,
    record,
    sentence_number,
)

BATCH = 40
MODEL_FATES = tuple(fate for fate in FATES if fate != "open")

_NUMBER = Key("number", sentence_number, "the number of a sentence", required=True)
_FACT = record(
    "fact",
    "'name' and 'description'",
    Key("name", name, "a name", required=True),
    Key("description", optional_text, "a string", required=True),
)
FACTS = Key("facts", listed, "a list of facts, each with 'name' and 'description'", item=_FACT)
_SENTENCE = record(
    "sentence",
    "'number' and 'fate'",
    _NUMBER,
    Key("fate", choice, f"one of {', '.join(MODEL_FATES)}", choices=MODEL_FATES, required=True),
    Key("reason", optional_text, "a string"),
    Key("implied_by", listed, "a list of numbers of sentences", item=_NUMBER),
)
_ANSWER = record(
    "answer",
    "'sentences'",
    Key("failed_output", regular_expression, "a regular expression"),
    FACTS,
    Key("sentences", listed, "a list of sentences with their fates", item=_SENTENCE, required=True),
)


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
    """

    sentences: Mapping[int, tuple[Fate, str]]
    facts: tuple[NeededFact, ...] = ()
    failed_output: str = ""
    errors: Mapping[tuple[int, ...], str] = field(default_factory=dict)
    is_interrupted: bool = False

    def numbers(self, *fates: Fate) -> tuple[int, ...]:
        """The numbers of the sentences with one of the fates, in order."""
        return tuple(number for number, (fate, _) in self.sentences.items() if fate in fates)


def survey(
    context: TranslationContext,
    numbers: Sequence[int],
    model: ModelRequests,
    answers: Callable[[Sequence[int]], Mapping[str, str]] = lambda _: {},
) -> Survey:
    """Surveys the sentences of the given numbers, at most forty in one request.

    Sentences of a request that failed have the fate `open`, and the error is in `errors`.

    Args:
        context: the inputs.
        numbers: the numbers of the sentences.
        model: makes the requests.
        answers: returns the owner's answers that concern some sentences, as texts.
    """
    shared, facts = shared_data(context), facts_text(context)
    groups = [tuple(numbers[at : at + BATCH]) for at in range(0, len(numbers), BATCH)]

    def ask(group: Sequence[int]) -> Survey:
        known = "\n".join(answers(group).values())
        sentences = sentences_text(map(context.sentence, group))
        data = {"facts": facts, "rulings": known, "sentences": sentences, "problem": "", "answer": ""}
        return model.ask(Request("survey", data, shared), lambda answer: _read(answer, group, context))

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
    )


def _read(answer: str, group: Sequence[int], context: TranslationContext) -> Survey:
    """Reads an answer.

    Raises:
        AnswerError: it is not a survey of exactly these sentences.
    """
    fields = read_answer(answer, _ANSWER)
    sentences = fields["sentences"]
    _require_each_once([sentence["number"] for sentence in sentences], group)
    known = {fact.name for fact in context.facts}
    return Survey(
        dict(sorted((sentence["number"], _fate(sentence, context)) for sentence in sentences)),
        tuple(NeededFact(**fact) for fact in fields.get("facts", ()) if fact["name"] not in known),
        fields.get("failed_output", ""),
    )


def _require_each_once(answered: Sequence[int], wanted: Sequence[int]) -> None:
    missing = [number for number in wanted if number not in answered]
    others = sorted({number for number in answered if number not in wanted})
    twice = sorted({number for number in answered if answered.count(number) > 1})
    problems = [
        f"{text} {', '.join(map(str, numbers))}"
        for text, numbers in (("missing:", missing), ("not asked for:", others), ("twice:", twice))
        if numbers
    ]
    if problems:
        raise AnswerError(f"expected each of the sentences exactly once; {'; '.join(problems)}")


def _fate(entry: Mapping[str, Any], context: TranslationContext) -> tuple[Fate, str]:
    number, fate, reason = entry["number"], entry["fate"], " ".join(entry.get("reason", "").split())
    if fate in ("not_enforceable", "fact") and not reason:
        raise AnswerError(f"sentence {number}: the fate is {fate!r} without a 'reason'; expected one")
    if fate == "implied":
        reason = _implied(number, entry.get("implied_by", ()), reason, len(context.document.sentences))
    return fate, reason


def _implied(number: int, others: Sequence[int], reason: str, count: int) -> str:
    if not others or number in others or not all(1 <= other_number <= count for other_number in others):
        raise AnswerError(f"sentence {number}: 'implied_by' is {list(others)}; expected numbers of other sentences")
    named = f"implied by {', '.join(map(str, others))}"
    return f"{named}: {reason}" if reason else named
