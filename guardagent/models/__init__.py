"""The models seam: one protocol, one file per backend.

A backend is a module of `backends/` with a class `Backend(name)`; its name is the module's name. A model is named
`backend/name`: `openai/gpt-4.1` is `gpt-4.1` at the OpenAI-compatible endpoint that the environment names. A name
without a backend is meant for `openai`, and one with another provider before its slash for `litellm`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast, runtime_checkable

from guardagent._support.plugins import Plugins
from guardagent.errors import InputError
from guardagent.types import Message, Usage

__all__ = ["Completion", "Message", "Model", "backend_names", "load_model", "model_name", "require_timeout"]

BACKENDS = Plugins("model backend", "guardagent.models.backends", ("Backend",), group="guardagent.models")


@dataclass(frozen=True, slots=True)
class Completion:
    """A model's answer: its text, and what it took (`calls` and `seconds` are counted by who asks)."""

    text: str
    usage: Usage = field(default_factory=Usage)


@runtime_checkable
class Model(Protocol):
    """Answers a conversation.

    A model of your own needs this one method. Further ones are used where it has them: `acomplete`, a coroutine of the
    same shape, by `aguard` (otherwise `complete` is called in a thread); a parameter `temperature`, where several
    plans vote; `prices` (US dollars per million prompt and completion tokens) and `max_tokens`, for a cap on the cost.
    """

    def complete(self, messages: Sequence[Message]) -> Completion:
        """The answer to a conversation, at temperature 0.

        Raises:
            ModelError: there is none, or it is no text.
        """
        ...


def backend_names() -> list[str]:
    """The backends of this installation."""
    return list(BACKENDS)


def load_model(name: str, **options: Any) -> Model:
    """The model of a name such as `openai/gpt-4.1`; options are those of its backend.

    Raises:
        InputError: the name is empty, or its backend is not installed or cannot be set up.
    """
    backend, slash, rest = name.strip().partition("/")
    if backend not in BACKENDS:
        backend, rest = ("litellm", name.strip()) if slash else ("openai", name.strip())
    if not rest.strip("/ "):
        raise InputError(f"model {name!r} names no model; expected a name such as openai/gpt-4.1")
    module = BACKENDS.load(backend)
    try:
        return cast("Model", module.Backend(rest, **options))
    except TypeError as error:
        raise InputError(f"model {name!r}: {str(error).rpartition('() ')[2]}") from None


def require_timeout(seconds: object) -> None:
    """Makes sure that some seconds can end.

    Raises:
        InputError: they are no number above 0, or endless.
    """
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < math.inf:
        raise InputError(f"timeout is {seconds!r}; expected seconds, more than 0")


def model_name(model: object) -> str:
    """What a model is called, for people and for a cache."""
    return str(getattr(model, "name", type(model).__name__))
