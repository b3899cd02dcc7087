"""One check's account with a model: what its answers took, the cap on their cost, and the response cache."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from guardagent.cache import ResponseCache
from guardagent.errors import AnswerError, GuardError, ModelError
from guardagent.models import Completion, Model, name_of
from guardagent.models._endpoint import scrub
from guardagent.prompts import Prompt
from guardagent.types import Usage


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A question to a model.

    Attributes:
        prompt: the question.
        temperature: 0 for the likeliest answer.
        sample: which of several answers to the same question this is.
        nonce: another random text in the prompt that means nothing.
    """

    prompt: Prompt
    temperature: float = 0.0
    sample: int = 0
    nonce: str = ""


@dataclass
class Asking:
    """A question under way. Whoever asks the model puts its answer here; a cached one stands here already."""

    answer: Completion | None = None
    error: ModelError | None = None

    @property
    def outcome(self) -> Completion | ModelError:
        return self.error or self.answer or ModelError("the model gave nothing")


@dataclass
class Meter:
    """The account.

    Attributes:
        model: who is asked.
        max_cost: US dollars that the answers may take together. A question that could go over it is not asked.
        cache: where answers are looked up first, and kept.
        usage: what was taken so far.
    """

    model: Model | None
    max_cost: float | None = None
    cache: ResponseCache | None = None
    usage: Usage = field(default_factory=Usage)

    @contextlib.contextmanager
    def asking(self, call: ModelCall) -> Iterator[Asking]:
        """Around one question: looks it up, lets it be asked, and puts what came of it on the account.

        Whatever goes wrong inside becomes the `error`, a ModelError.
        """
        asking = Asking()
        try:
            model = self._model()
            if self.cache and (found := self.cache.get(model, call)):
                self.usage += replace(found.usage, calls=1, cached=1, cost=0.0)
                asking.answer = found
                yield asking
                return
            self._afford(model, call)
            with self._counted(asking):
                yield asking
                _expect_completion(asking.answer)
            if self.cache and asking.answer:
                self.cache.put(model, call, asking.answer)
        except Exception as error:  # noqa: BLE001 - a model of the user's own may raise anything
            asking.error = _as_model_error(error)

    def _model(self) -> Model:
        if self.model is None:
            raise ModelError("no model is configured: name one as `model` or in GUARDAGENT_MODEL")
        return self.model

    @contextlib.contextmanager
    def _counted(self, asking: Asking) -> Iterator[None]:
        started, used = time.perf_counter(), Usage()
        try:
            yield
            used = asking.answer.usage if isinstance(asking.answer, Completion) else used
        except AnswerError as error:
            used = error.usage or used
            raise
        finally:
            self.usage += replace(used, calls=1, seconds=time.perf_counter() - started)

    def _afford(self, model: Model, call: ModelCall) -> None:
        """The prompt, at three bytes a token, and the longest answer must fit under the cap."""
        if self.max_cost is None:
            return
        prices, limit = getattr(model, "prices", None), getattr(model, "max_tokens", None)
        if prices is None or limit is None or self.usage.cost is None:
            raise ModelError(f"what model {name_of(model)!r} costs is not known, and a cap on the cost is set")
        prompt = sum(len(message.content.encode()) for message in call.prompt.messages) / 3
        worst = (prices[0] * prompt + prices[1] * limit) / 1_000_000
        if self.usage.cost + worst > self.max_cost:
            raise ModelError(
                f"the next question to the model could cost ${worst:.4f}, ${self.usage.cost:.4f} are spent, "
                f"and the cap for one check is ${self.max_cost:g}"
            )


def _expect_completion(answer: Any) -> None:
    if not isinstance(answer, Completion) or not isinstance(answer.text, str):
        raise ModelError(f"the model gave a {type(answer).__name__}; expected a Completion with a text")


def _as_model_error(error: Exception) -> ModelError:
    if isinstance(error, ModelError):
        return error
    if isinstance(error, GuardError):
        return ModelError(str(error))
    return ModelError(f"the model failed: {type(error).__name__}: {scrub(str(error))}")
