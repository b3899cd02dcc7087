"""The model account of one check: the response cache, usage, and the cap on the cost.

The cache keeps a model's answers on disk, so that the same request is paid for once. Requests are equal if model,
messages, temperature and sample are; the random marks of a prompt do not count. The files hold the content of requests,
so only their owner can read them.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import threading
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from guardagent.errors import GuardError, InputError, ModelError, UnsentError, error_text
from guardagent.models import Completion, Model, model_name
from guardagent.models.prompts import ModelCall
from guardagent.models.redaction import scrub
from guardagent.types import Usage

if TYPE_CHECKING:
    from guardagent.models.prompts import ModelCall


class ResponseCache:
    """The answers in a folder, which is created if missing. Safe to use from several threads and processes.

    Raises:
        InputError: the folder cannot be created, or (on reading) a file holds no answer.
    """

    def __init__(self, folder: Path | str) -> None:
        self._folder = Path(folder)
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{folder}: cannot be created as a cache folder: {error.strerror}") from None

    def get(self, model: Model, call: ModelCall) -> Completion | None:
        """Returns the stored answer to an equal request, or None."""
        path = self._path(model, call)
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
            return Completion(_with_marks("".join(stored["text"]), call), Usage(**stored["usage"]))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path}: does not contain a model answer ({error}); delete it") from None

    def put(self, model: Model, call: ModelCall, answer: Completion) -> None:
        """Stores an answer; the file is renamed into place, so that nobody reads half of it."""
        path = self._path(model, call)
        stored = {"text": _without_marks(answer.text, call), "usage": asdict(answer.usage)}
        temp = path.with_suffix(f".{secrets.token_hex(4)}")
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            with os.fdopen(os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
                json.dump(stored, file)
            temp.replace(path)
        except OSError as error:
            raise InputError(f"{path}: the response cache cannot be written: {error.strerror}") from None

    def discard(self, model: Model, call: ModelCall) -> None:
        """Removes the answer to an equal request, if there is one."""
        self._path(model, call).unlink(missing_ok=True)

    def _path(self, model: Model, call: ModelCall) -> Path:
        identity = getattr(model, "identity", model_name(model))
        messages = [(message.role, _without_marks(message.content, call)) for message in call.prompt.messages]
        limit = getattr(model, "max_tokens", None)
        question = json.dumps([identity, limit, call.temperature, call.sample, messages])
        digest = hashlib.sha256(question.encode()).hexdigest()
        return self._folder / digest[:2] / f"{digest}.json"


def _without_marks(text: str, call: ModelCall) -> str:
    for number, mark in enumerate(_marks(call)):
        text = text.replace(mark, f"\0{number}")
    return text


def _with_marks(text: str, call: ModelCall) -> str:
    for number, mark in enumerate(_marks(call)):
        text = text.replace(f"\0{number}", mark)
    return text


def _marks(call: ModelCall) -> list[str]:
    return [mark for mark in (call.prompt.mark, call.prompt.shared_mark, call.nonce) if mark]


class MeteredCall:
    """The context of one model call: looks it up in the cache, and records its usage.

    If `needs_model` is set, the block calls the model and sets `answer`. An exception in the block becomes the `error`.
    """

    def __init__(self, meter: Meter, call: ModelCall) -> None:
        self._meter = meter
        self._call = call
        self._started = 0.0
        self.answer: Completion | None = None
        self.error: ModelError | None = None
        self.needs_model = False

    def __enter__(self) -> Self:
        try:
            with self._meter.lock:
                self.answer = self._meter.look_up(self._call)
            self.needs_model = self.answer is None
        except GuardError as error:
            self.error = _as_model_error(error)
        self._started = time.perf_counter()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if not self.needs_model:
            return False
        self.error = self._problem(error)
        if isinstance(self.error, UnsentError):
            return True
        paid = self.answer if self.error is None else self.error  # an answer that cannot be read was paid for, too
        used = getattr(paid, "usage", None)
        with self._meter.lock:
            used = used if isinstance(used, Usage) else Usage()
            self._meter.usage += replace(used, calls=1, seconds=time.perf_counter() - self._started)
            if self.error is None:
                self._store()
        return error is None or isinstance(error, Exception)  # a cancellation or an interrupt is not suppressed

    @property
    def outcome(self) -> Completion | ModelError:
        return self.error or self.answer or ModelError("the model returned nothing")

    def _problem(self, error: BaseException | None) -> ModelError | None:
        if isinstance(error, Exception):
            return _as_model_error(error)
        if not isinstance(self.answer, Completion) or not isinstance(self.answer.text, str):
            return ModelError(f"the model returned a {type(self.answer).__name__}; expected a Completion with a string")
        return None

    def _store(self) -> None:
        meter = self._meter
        try:
            if meter.cache and meter.model is not None and self.answer is not None:
                meter.cache.put(meter.model, self._call, self.answer)
        except GuardError as error:
            self.error = _as_model_error(error)


@dataclass
class Meter:
    """The account. Threads may make metered calls at the same time.

    Attributes:
        model: the model that is called.
        max_cost: US dollars that the answers may cost together. A call that could exceed it is not made.
        cache: the response cache, which is consulted first.
        usage: the usage so far.
        counts_cached: whether a cached answer counts with its cost: it was paid for by an earlier run of the same work.
        lock: held while the account changes, and not while the model answers.
    """

    model: Model | None
    max_cost: float | None = None
    cache: ResponseCache | None = None
    usage: Usage = field(default_factory=Usage)
    counts_cached: bool = False
    lock: threading.RLock = field(default_factory=threading.RLock, repr=False, compare=False)

    def metered_call(self, call: ModelCall) -> MeteredCall:
        return MeteredCall(self, call)

    def look_up(self, call: ModelCall) -> Completion | None:
        """Returns the cached answer; None if the model has to be called.

        Raises:
            ModelError: there is no model, or its answer could exceed the cap.
        """
        if self.model is None:
            raise ModelError("no model is configured: pass 'model' or set 'GUARDAGENT_MODEL'")
        completion = self.cache.get(self.model, call) if self.cache else None
        if completion is None:
            self._require_affordable(self.model, call)
        else:
            cost = completion.usage.cost if self.counts_cached else 0.0
            self.usage += replace(completion.usage, calls=1, cached=1, cost=cost)
        return completion

    def _require_affordable(self, model: Model, call: ModelCall) -> None:
        """Makes sure that the prompt, at three bytes a token, and the longest answer fit under the cap."""
        if self.max_cost is None:
            return
        prices, limit = getattr(model, "prices", None), getattr(model, "max_tokens", None)
        if prices is None or limit is None or self.usage.cost is None:
            raise ModelError(
                f"the price of model {model_name(model)!r} is unknown; set its prices, or remove the cost cap"
            )
        prompt = sum(len(message.content.encode(errors="surrogatepass")) for message in call.prompt.messages) / 3
        worst = (prices[0] * prompt + prices[1] * limit) / 1_000_000
        if self.usage.cost + worst > self.max_cost:
            raise ModelError(
                f"the next model call could cost ${worst:.4f}, ${self.usage.cost:.4f} is spent, "
                f"and the cap is ${self.max_cost:g}"
            )


def _as_model_error(error: Exception) -> ModelError:
    if isinstance(error, ModelError):
        return error
    if isinstance(error, GuardError):
        return ModelError(str(error))
    return ModelError(f"the model failed: {scrub(error_text(error))}")
