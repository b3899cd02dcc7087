"""Engines that run local models: a file for each, with a function `engine(model)`.

An engine holds one sequence of tokens and the model's computation on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from guardagent.errors import InputError
from guardagent.generation.local import huggingface, llama_cpp


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
        """The tensor of logits of the next token."""
        ...

    def step(self, token: int) -> None:
        """Appends a token. It need not be computed before `logits` is called."""
        ...

    def cut(self, length: int) -> None:
        """Truncates the sequence, prompt included, to a length; the computation on the kept tokens is reused."""
        ...


def engine_of(model: Any) -> ModelEngine:
    """The engine of a model; an engine is returned as it is.

    Raises:
        InputError: no engine supports the model.
    """
    if isinstance(model, ModelEngine):
        return model
    for engine_for in (huggingface.engine, llama_cpp.engine):
        engine: ModelEngine | None = engine_for(model)
        if engine is not None:
            return engine
    expected = "a model of transformers or llama.cpp, or a ModelEngine"
    raise InputError(f"'model' is a {type(model).__name__}; expected {expected}")
