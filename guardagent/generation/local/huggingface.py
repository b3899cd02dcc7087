"""Causal language models of Hugging Face's transformers. The key-value cache is truncated with the tokens."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from guardagent.errors import InputError


class HuggingFace:
    """Runs a model of transformers as it is: the caller sets `eval()`, device and dtype.

    Args:
        model: a causal language model.
    """

    def __init__(self, model: Any) -> None:
        if model.config.is_encoder_decoder:
            raise InputError("the model is an encoder-decoder; expected a causal language model")
        self.defaults = model.generation_config
        self._model = model
        self._last_only, self._cache_argument = last_logits_only(model), cache_argument(model)
        self._tokens: list[int] = []
        self._cached = 0  # the number of tokens in the cache
        self._floor = 0  # the shortest length to which the cache can be truncated
        self._cache: Any = None
        self._logits: Any = None

    def start(self, prompt: Sequence[int]) -> None:
        if not prompt:
            raise InputError("the prompt is empty; expected at least one token")
        self._tokens = list(prompt)
        self._cached = self._floor = 0
        self._cache = self._logits = None

    def step(self, token: int) -> None:
        self._tokens.append(token)
        self._logits = None

    def logits(self) -> Any:
        if self._logits is None:
            self._shorten(len(self._tokens) - 1)
            self._logits = self._forward(self._tokens[self._cached :])
        return self._logits

    def cut(self, length: int) -> None:
        if length < len(self._tokens):
            del self._tokens[length:]
            self._logits = None
            self._shorten(length - 1)  # the last token is computed again, for its logits

    def _forward(self, tokens: Sequence[int]) -> Any:
        if not self._cached:
            self._begin(tokens[:-1])
            tokens = tokens[-1:] if any(self._cache.is_sliding) else tokens
        return self._computed(tokens)

    def _begin(self, before: Sequence[int]) -> None:
        """Starts a new cache. With a sliding window, it records past states only after all tokens but the last."""
        from transformers import DynamicCache

        self._cache = DynamicCache(config=self._model.config)
        if any(self._cache.is_sliding):
            if before:
                self._computed(before)
            self._floor = len(before)
        self._cache.activate_past_recording()

    def _computed(self, tokens: Sequence[int]) -> Any:
        """Computes tokens and returns the logits after the last one.

        Raises:
            InputError: the cache cannot be truncated.
        """
        import torch

        with torch.no_grad():
            ids = torch.tensor([tokens], device=self._model.device)
            options = {self._cache_argument: self._cache, **self._last_only}
            output = self._model(input_ids=ids, use_cache=True, **options)
        self._cache = getattr(output, self._cache_argument)
        self._cached += len(tokens)
        if not self._cache.is_croppable:
            raise InputError(
                "the model keeps a recurrent state, which cannot be truncated; expected attention layers only"
            )
        return output.logits[0, -1].to(torch.float32)

    def _shorten(self, length: int) -> None:
        """Truncates the cache, or drops it if it cannot be truncated so far.

        Once a layer with a sliding window is full, truncation leaves at most that window.
        """
        if length >= self._cached:
            return
        if length < max(self._floor, 1):
            self._cache, self._cached, self._floor = None, 0, 0
            return
        windows = [layer.sliding_window for layer in self._cache.layers if getattr(layer, "is_sliding", False)]
        self._floor = length if any(self._cached >= window for window in windows) else self._floor
        self._cache.crop(length - self._cached)
        self._cached = length


def cache_argument(model: Any) -> str:
    """The name of the argument that takes the cache, which later versions of transformers call `cache`."""
    return "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"


def last_logits_only(model: Any) -> dict[str, int]:
    """The option for the logits of the last token alone, if the model has it."""
    return {"logits_to_keep": 1} if "logits_to_keep" in inspect.signature(model.forward).parameters else {}


def engine(model: Any) -> HuggingFace | None:
    """The engine of a model of transformers; None for any other object."""
    from transformers import PreTrainedModel

    return HuggingFace(model) if isinstance(model, PreTrainedModel) else None
