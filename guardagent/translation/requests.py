"""Asks a model, reads the YAML or JSON of its answer, and asks again with the error if the answer cannot be read."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from guardagent._support.json_values import record_of
from guardagent.errors import AnswerError, ContentError, CutAnswerError
from guardagent.models import Completion
from guardagent.models.metering import Meter
from guardagent.models.prompts import ModelCall, Prompts
from guardagent.policy.file.yaml_reader import parse
from guardagent.types import Usage

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Request:
    """A prompt template with its values, as for `Prompts.render`."""

    template: str
    data: Mapping[str, Any]
    shared: Mapping[str, Any] = field(default_factory=dict)
    trusted: Mapping[str, Any] = field(default_factory=dict)


class ModelRequests:
    """Requests of one translation. Safe to use from several threads.

    Args:
        meter: the model with its cache and cost cap.
        prompts: the templates.
        attempts: how often one request is made until its answer can be read.
        parallel: the number of simultaneous calls. With a cost cap, calls are made one after the other, so that the cap
            is never exceeded.
    """

    def __init__(self, meter: Meter, prompts: Prompts, *, attempts: int = 2, parallel: int = 4) -> None:
        self._meter, self._prompts, self._attempts = meter, prompts, attempts
        self._parallel = parallel if meter.max_cost is None else 1

    @property
    def usage(self) -> Usage:
        """The model usage so far, with the answers of the cache."""
        return self._meter.usage

    def ask(self, request: Request, read: Callable[[str], T]) -> T:
        """Returns what `read` makes of the answer.

        Raises:
            ModelError: there is no answer.
            AnswerError: no attempt gave an answer that `read` accepts. Such answers are not kept in the cache.
        """
        failed: list[ModelCall] = []
        for _ in range(self._attempts):
            call = ModelCall(self._prompts.render(request.template, request.data, request.shared, **request.trusted))
            answer = self._complete(call)
            try:
                return read(answer)
            except AnswerError as error:
                problem = error
            failed.append(call)
            request = replace(request, data={**request.data, "problem": str(problem), "answer": answer})
        self._forget(failed)
        raise problem

    def divided(self, work: Callable[[Sequence[T]], R], items: Sequence[T]) -> list[R]:
        """Applies a function that makes a request about several items. If its answer is cut off, the items are halved.

        Raises:
            CutAnswerError: the answer about a single item is cut off.
        """
        try:
            return [work(items)]
        except CutAnswerError:
            if len(items) < 2:
                raise
        middle = len(items) // 2
        return [*self.divided(work, items[:middle]), *self.divided(work, items[middle:])]

    def map(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Applies a function that makes requests to each item; the results are in the order of the items."""
        if self._parallel == 1 or len(items) < 2:
            return [work(item) for item in items]
        with ThreadPoolExecutor(self._parallel) as pool:
            return list(pool.map(work, items))

    def _complete(self, call: ModelCall) -> str:
        with self._meter.metered_call(call) as asking:
            if asking.needs_model and self._meter.model is not None:
                asking.answer = self._meter.model.complete(call.prompt.messages)
        if isinstance(outcome := asking.outcome, Completion):
            return outcome.text
        raise outcome

    def _forget(self, calls: Sequence[ModelCall]) -> None:
        if self._meter.cache is not None and self._meter.model is not None:
            for call in calls:
                self._meter.cache.discard(self._meter.model, call)


# --- answers

MOST_CHARACTERS = 200_000
_BLOCK = re.compile(
    r"^[ \t]*(```+|~~~+)[ \t]*([\w+#.-]*)[^\n]*\n(.*?)(?:^[ \t]*\1[ \t]*$|\Z)", re.DOTALL | re.MULTILINE
)
_LONGEST_BEGINNING = 200
_LANGUAGES = ("", "yaml", "yml", "json")


def read_answer(answer: str, kind: type[T]) -> T:
    """Reads the block of an answer as a dataclass. A key with null counts as missing.

    Raises:
        AnswerError: the answer has no such block, or several, or its content is not as expected; with the line, or with
            the path of keys.
    """
    return entry_of(kind, _without_nulls(_parsed(_block(answer))))


def entry_of(kind: type[T], value: Any, place: str = "") -> T:
    """Reads a part of an answer as a dataclass; `place` is its path of keys.

    Raises:
        AnswerError: it has another form.
    """
    try:
        return record_of(kind, value, place)
    except ValueError as error:
        raise AnswerError(str(error)) from None


def require_each_once(answered: Sequence[int], wanted: Sequence[int], things: str) -> None:
    """Requires that the entries of an answer are about exactly these numbers.

    Raises:
        AnswerError: a number is missing, there is another one, or one twice.
    """
    wrong = {
        "missing": [number for number in wanted if number not in answered],
        "not asked for": sorted({*answered} - {*wanted}),
        "twice": sorted({number for number in answered if answered.count(number) > 1}),
    }
    problems = [f"{text}: {', '.join(map(str, numbers))}" for text, numbers in wrong.items() if numbers]
    if problems:
        raise AnswerError(f"expected each of the {things} exactly once; {'; '.join(problems)}")


def _without_nulls(value: Any, depth: int = 2) -> Any:
    """A value without the empty keys of its own and of its entries. Deeper ones, as in cases, have a meaning."""
    if isinstance(value, list):
        return [_without_nulls(part, depth) for part in value]
    if not isinstance(value, dict) or not depth:
        return value
    return {key: _without_nulls(part, depth - 1) for key, part in value.items() if part is not None}


def _block(answer: str) -> str:
    if len(answer) > MOST_CHARACTERS:
        raise AnswerError(f"the answer has {len(answer):,} characters; expected at most {MOST_CHARACTERS:,}")
    matches = list(_BLOCK.finditer(answer.replace("\r\n", "\n")))
    blocks = [textwrap.dedent(block[3]) for block in matches if block[2].lower() in _LANGUAGES]
    if len(blocks) == 1:
        return blocks[0]
    if blocks:
        raise AnswerError(f"the answer has {len(blocks)} blocks; expected everything in one ```yaml block")
    if matches or not re.match(r"\s*(?:\{|[a-z_]+:)", answer):
        beginning = " ".join(answer.split())[:_LONGEST_BEGINNING]
        text = "the answer has no ```yaml block; expected one with the keys that are asked for"
        raise AnswerError(f"{text}; it says {beginning!r}")
    return answer


def _parsed(text: str) -> Any:
    try:
        node = parse(text.encode("utf-8", "replace"), Path("answer"), None)
    except ContentError as error:
        raise AnswerError(f"not readable as YAML: {error}") from None
    if node is None:
        raise AnswerError("the block is empty; expected the keys that are asked for")
    return node.plain
