"""Causal language models of Hugging Face's transformers. Their key-value cache is cut back with the tokens."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from guardagent.errors import InputError


class HuggingFace:
    """Runs a model of transformers, as it is (`eval()`, its device and its type of number are the caller's).

    Args:
        model: a causal language model.
    """

    def __init__(self, model: Any) -> None:
        if model.config.is_encoder_decoder:
            raise InputError("the model is an encoder and a decoder; expected a causal language model")
        self.defaults = model.generation_config
        self._model = model
        parameters = inspect.signature(model.forward).parameters
        self._last_only = {"logits_to_keep": 1} if "logits_to_keep" in parameters else {}
        self._tokens: list[int] = []
        self._cached = 0  # of how many tokens the cache knows
        self._floor = 0  # how far the cache can be cut back
        self._cache: Any = None
        self._logits: Any = None

    def start(self, prompt: Sequence[int]) -> None:
        if not prompt:
            raise InputError("the prompt is empty; expected a token at least")
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
        """A new cache. With a sliding window, it takes all but the last token, and then begins to keep the past."""
        from transformers import DynamicCache

        self._cache = DynamicCache(config=self._model.config)
        if any(self._cache.is_sliding):
            if before:
                self._computed(before)
            self._floor = len(before)
        self._cache.activate_past_recording()

    def _computed(self, tokens: Sequence[int]) -> Any:
        """The logits behind some tokens, which are computed.

        Raises:
            InputError: the cache cannot be cut back.
        """
        import torch

        with torch.no_grad():
            ids = torch.tensor([tokens], device=self._model.device)
            output = self._model(input_ids=ids, past_key_values=self._cache, use_cache=True, **self._last_only)
        self._cache = output.past_key_values
        self._cached += len(tokens)
        if not self._cache.is_croppable:
            raise InputError("the model keeps a running state, which cannot be cut back; expected attention only")
        return output.logits[0, -1].to(torch.float32)

    def _shorten(self, length: int) -> None:
        """Cuts the cache back, or drops it where it does not go back so far.

        Once a layer with a sliding window is full, a cut leaves it with no more than that window.
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


def engine(model: Any) -> HuggingFace | None:
    """The engine of a model; None where it is none of transformers."""
    from transformers import PreTrainedModel

    return HuggingFace(model) if isinstance(model, PreTrainedModel) else None
