"""Asks a model, reads its answer, and asks again with the error if the answer cannot be read."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from guardagent.errors import AnswerError
from guardagent.models import Completion
from guardagent.models.metering import Meter
from guardagent.models.prompts import ModelCall, Prompts

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Request:
    """A prompt template with its values, as for `Prompts.render`."""

    template: str
    data: Mapping[str, Any]
    shared: Mapping[str, Any] = field(default_factory=dict)
    trusted: Mapping[str, Any] = field(default_factory=dict)

    def after(self, problem: str, answer: str) -> Request:
        """The same request once more, after an answer that is of no use."""
        return Request(self.template, {**self.data, "problem": problem, "answer": answer}, self.shared, self.trusted)


class ModelRequests:
    """Requests of one translation. Safe to use from several threads.

    Args:
        meter: the model with its cache and cost cap.
        prompts: the templates.
        attempts: how often one request is made until its answer can be read.
        parallel: the number of simultaneous calls. With a cost cap, calls are made one after the other, so that the cap
            is never exceeded.

    Attributes:
        limit: the number of calls after which no draft is corrected, without those that the cache answered; None for
            no limit.
    """

    def __init__(self, meter: Meter, prompts: Prompts, *, attempts: int = 2, parallel: int = 4) -> None:
        self._meter, self._prompts, self._attempts = meter, prompts, attempts
        self._parallel = parallel if meter.max_cost is None else 1
        self._lock = threading.Lock()
        self.limit: int | None = None

    @property
    def calls(self) -> int:
        """The number of model calls so far, with those that the cache answered."""
        return self._meter.usage.calls

    @property
    def may_correct(self) -> bool:
        """Whether the limit leaves another call."""
        usage = self._meter.usage
        return self.limit is None or usage.calls - usage.cached < self.limit

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
            request = request.after(str(problem), answer)
        self._forget(failed)
        raise problem

    def map(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Applies a function that makes requests to each item; the results are in the order of the items."""
        if self._parallel == 1 or len(items) < 2:
            return [work(one) for one in items]
        with ThreadPoolExecutor(self._parallel) as pool:
            return list(pool.map(work, items))

    def _complete(self, call: ModelCall) -> str:
        with self._metered(call) as asking:
            if asking.needs_model and self._meter.model is not None:
                asking.answer = self._meter.model.complete(call.prompt.messages)
        found = asking.outcome
        if isinstance(found, Completion):
            return found.text
        raise found

    @contextmanager
    def _metered(self, call: ModelCall) -> Iterator[Any]:
        """As `Meter.metered_call`. The account changes under a lock, and the model is called without it."""
        asking = self._meter.metered_call(call)
        with self._lock:
            asking.__enter__()
        error: BaseException | None = None
        try:
            yield asking
        except BaseException as caught:  # noqa: BLE001 - the account decides
            error = caught
        with self._lock:
            handled = asking.__exit__(type(error) if error else None, error, None)
        if error is not None and not handled:
            raise error

    def _forget(self, calls: Sequence[ModelCall]) -> None:
        if self._meter.cache is not None and self._meter.model is not None:
            for call in calls:
                self._meter.cache.discard(self._meter.model, call)
