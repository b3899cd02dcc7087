"""An independent reading of the cases: somebody who sees the document, and no rule, says what each case is.

A rule whose cases come out as its author expects is confirmed. Where they do not, its author looks at the case again,
and then the owner of the document is asked.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from guardagent.translation.context import TranslationContext
from guardagent.translation.drafts import Problem, RuleDraft, case_row
from guardagent.translation.requests import ModelRequests, read_answer, require_each_once

BATCH = 80  # cases in one request
_VERDICTS = {"fine": False, "against": True, "unclear": None}
_SAYS = {
    False: "does not go against the words",
    True: "goes against the words",
    None: "is not clear from the words",
}


@dataclass(frozen=True, slots=True)
class _CaseEntry:
    case: int
    verdict: Literal["fine", "against", "unclear"]
    why: str = ""


@dataclass(frozen=True, slots=True)
class _CasesAnswer:
    cases: tuple[_CaseEntry, ...]


@dataclass(frozen=True, slots=True)
class CaseReading:
    """The opinion of a reader of the document about a case.

    Attributes:
        violates: whether its last call goes against the sentences; None if they do not tell.
        why: the reason.
    """

    violates: bool | None
    why: str = ""


def case_key(rule: RuleDraft, case: Mapping[str, Any], context: TranslationContext) -> str:
    """The key of a case: of its situation and its sentences, and not of what its author expects."""
    sentences = sorted(context.sentence(number).hash for number in rule.quotes)
    content = json.dumps([sentences, situation_of(case)], sort_keys=True, default=str)
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def situation_of(case: Mapping[str, Any]) -> dict[str, Any]:
    """A case without its name and what its author expects."""
    return {key: value for key, value in case.items() if key not in ("id", "label", "rules")}


def expected(rule: RuleDraft, case: Mapping[str, Any]) -> bool | None:
    """Whether its author expects a violation of the rule; None where a value is unknown, which no document decides."""
    rules, label = case.get("rules"), case.get("label")
    if isinstance(rules, list | tuple) and rule.id in rules:
        return True
    return None if label == 1 and rules is not None else label == 1


def readable_cases(
    rules: Iterable[RuleDraft], context: TranslationContext
) -> Iterator[tuple[RuleDraft, Mapping[str, Any], str]]:
    """Yields the cases that a document can decide, each with its rule and its key."""
    for rule in rules:
        for case in rule.cases:
            if expected(rule, case) is not None:
                yield rule, case, case_key(rule, case, context)


Dispute = tuple[RuleDraft, Mapping[str, Any], CaseReading]
"""A case with its rule, and its reading, which is another one."""


def disputes(
    rules: Iterable[RuleDraft], read: Mapping[str, CaseReading], context: TranslationContext
) -> Iterator[Dispute]:
    """Yields the cases that their reader decides otherwise than their author, or finds unclear."""
    for rule, case, key in readable_cases(rules, context):
        reading = read.get(key)
        if reading is not None and reading.violates is not expected(rule, case):
            yield rule, case, reading


def is_confirmed(rule: RuleDraft, read: Mapping[str, CaseReading], context: TranslationContext) -> bool:
    """Whether a reader decides a case of a rule as its author does."""
    keys = ((expected(rule, case), key) for rule, case, key in readable_cases([rule], context))
    return any(key in read and read[key].violates is violates for violates, key in keys)


def dispute_problems(disputed: Iterable[Dispute]) -> Iterator[Problem]:
    """Yields disputed cases for the author of the rules."""
    for rule, case, reading in disputed:
        says = _SAYS[reading.violates]
        text = f"a reader says that the case {case.get('id')!r:.100} {says}: {reading.why or 'without a reason'}"
        example = json.dumps(case, ensure_ascii=False, default=str)
        yield Problem("reading", text, rule.id, rule.sentences, example, case=str(case.get("id")))


class CaseReader:
    """Asks a model about cases.

    Args:
        context: the inputs of the translation.
        model: makes the requests.
        answers: returns the owner's answers that concern some sentences, as texts.
    """

    def __init__(
        self,
        context: TranslationContext,
        model: ModelRequests,
        answers: Callable[[Sequence[int]], Mapping[str, str]] = lambda _: {},
    ) -> None:
        self._context, self._model, self._answers = context, model, answers

    def read(self, rules: Iterable[RuleDraft], known: Mapping[str, CaseReading]) -> dict[str, CaseReading]:
        """Returns the readings of the cases that are not known, by their keys.

        Raises:
            ModelError: a request has no answer.
            AnswerError: an answer cannot be read.
        """
        new = {key: (rule, case) for rule, case, key in readable_cases(rules, self._context) if key not in known}
        keys = list(new)
        batches = [[new[key] for key in keys[at : at + BATCH]] for at in range(0, len(keys), BATCH)]
        parts = self._model.map(lambda batch: self._model.divided(self._read_batch, batch), batches)
        return dict(zip(keys, (reading for part in parts for readings in part for reading in readings), strict=True))

    def _read_batch(self, cases: Sequence[tuple[RuleDraft, Mapping[str, Any]]]) -> list[CaseReading]:
        numbers = sorted({number for rule, _ in cases for number in rule.quotes})
        text = "\n".join(_numbered_text(at, *pair) for at, pair in enumerate(cases, start=1))
        request = self._context.request("read_cases", self._answers(numbers), {"cases": text})
        return self._model.ask(request, lambda answer: _read(answer, len(cases)))


_LONG_STRING = re.compile(r'"(?:[^"\\]|\\.){200,}"')


def case_text(case: Mapping[str, Any]) -> str:
    """A case as a line, without the expectation. The lengths of its long strings follow: nobody counts by eye."""
    row = case_row(case, sys.maxsize)
    text = f"{row.before} | {row.call}"
    lengths = ", ".join(f"{len(json.loads(string)):,}" for string in _LONG_STRING.findall(text))
    return f"{text}{f' (characters of its long strings: {lengths})' if lengths else ''}"


def _numbered_text(number: int, rule: RuleDraft, case: Mapping[str, Any]) -> str:
    return f"{number}. {' '.join(f'[{sentence}]' for sentence in rule.sentences)} {case_text(case)}"


def _read(answer: str, count: int) -> list[CaseReading]:
    entries = read_answer(answer, _CasesAnswer).cases
    require_each_once([entry.case for entry in entries], range(1, count + 1), "cases")
    ordered = sorted(entries, key=lambda entry: entry.case)
    return [CaseReading(_VERDICTS[entry.verdict], " ".join(entry.why.split())) for entry in ordered]
