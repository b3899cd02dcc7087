"""What runs a model: one file per engine, each with a function `engine(model)` that takes the models it knows.

An engine holds one sequence of tokens and what a model has computed of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from guardagent._support.plugins import Plugins
from guardagent.errors import InputError

_ENGINES = Plugins("generation engine", __name__, ("engine",))


@runtime_checkable
class ModelEngine(Protocol):
    """Runs a model on one sequence.

    Attributes:
        defaults: a generation configuration of transformers, or anything with some of its attributes.
    """

    defaults: Any

    def start(self, prompt: Sequence[int]) -> None:
        """Begins a sequence with the tokens of a prompt."""
        ...

    def logits(self) -> Any:
        """A tensor: of each token, how likely it comes next."""
        ...

    def step(self, token: int) -> None:
        """Adds a token. It need not be computed before `logits` is asked."""
        ...

    def cut(self, length: int) -> None:
        """Keeps the first tokens of the sequence, the prompt included; what was computed of them is not lost."""
        ...


def engine_of(model: Any) -> ModelEngine:
    """The engine of a model; an engine is its own.

    Raises:
        InputError: no engine knows such a model.
    """
    if isinstance(model, ModelEngine):
        return model
    for _, found in _ENGINES.load_all():
        engine: ModelEngine | None = found.engine(model)
        if engine is not None:
            return engine
    raise InputError(f"model is a {type(model).__name__}; expected a model of transformers, or an Engine")
