"""Language models: one protocol, one file per backend.

A backend is a module of `backends/` with a class `Backend(name)`; its name is the module's name. A model is named
`backend/name`: `openai/gpt-4.1` is `gpt-4.1` at the OpenAI-compatible endpoint that the environment names. A name
without a backend uses `openai`, and one with another provider before its slash uses `litellm`. A `LazyModel` loads at
its first use, for a guard whose program rarely needs one.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast, runtime_checkable

from guardagent._support.plugins import Plugins
from guardagent.errors import InputError, UnsentError
from guardagent.types import Message, Usage

__all__ = ["Completion", "Message", "Model", "load_model", "model_name", "require_timeout"]


BACKENDS = Plugins("model backend", "guardagent.models.backends", ("Backend",), group="guardagent.models")


@dataclass(frozen=True, slots=True)
class Completion:
    """A model's answer: its text and usage (the caller counts `calls` and `seconds`)."""

    text: str
    usage: Usage = field(default_factory=Usage)


@runtime_checkable
class Model(Protocol):
    """Answers a conversation.

    A custom model needs this one method. Optional members: `acomplete`, a coroutine of the same shape for `aguard`
    (otherwise `complete` is called in a thread); a parameter `temperature`, if several plans vote; `prices` (US dollars
    per million prompt and completion tokens) and `max_tokens`, for a cap on the cost; and `pending`, a text about the
    answers that are still to be written, for a model whose answers come later.
    """

    def complete(self, messages: Sequence[Message]) -> Completion:
        """Returns the answer to a conversation, at temperature 0.

        Raises:
            ModelError: there is no answer, or it is not a string.
        """
        ...


def load_model(name: str, **options: Any) -> Model:
    """Loads the model of a name such as `openai/gpt-4.1`; options are those of its backend.

    Raises:
        InputError: the name is empty, or its backend is not installed or cannot be set up.
    """
    backend, slash, rest = name.strip().partition("/")
    if backend not in BACKENDS:
        backend, rest = ("litellm", name.strip()) if slash else ("openai", name.strip())
    if not rest.strip("/ "):
        raise InputError(f"model {name!r} has no model name; expected a name such as 'openai/gpt-4.1'")
    module = BACKENDS.load(backend)
    try:
        return cast("Model", module.Backend(rest, **options))
    except TypeError as error:
        raise InputError(f"model {name!r}: {str(error).rpartition('() ')[2]}") from None


def require_timeout(seconds: object) -> None:
    """Makes sure that a timeout is positive and finite.

    Raises:
        InputError: it is not.
    """
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < math.inf:
        raise InputError(f"'timeout' is {seconds!r}; expected a finite number of seconds above 0")


def model_name(model: object) -> str:
    """Returns a model's name, for messages and cache keys."""
    return str(getattr(model, "name", type(model).__name__))


class LazyModel:
    """A proxy for the model that `load` returns.

    Raises:
        UnsentError: the model cannot be loaded, so no request was sent.
    """

    def __init__(self, load: Callable[[], Model]) -> None:
        self._load = load
        self._lock = threading.Lock()
        self._loaded: Model | None = None

    def __getattr__(self, name: str) -> Any:
        with self._lock:
            if self._loaded is None:
                try:
                    self._loaded = self._load()
                except InputError as error:
                    raise UnsentError(str(error)) from None
        return getattr(self._loaded, name)

    def close(self) -> None:
        """Closes the model, if it was loaded and can be closed."""
        close = getattr(self._loaded, "close", None)
        if close is not None:
            close()
