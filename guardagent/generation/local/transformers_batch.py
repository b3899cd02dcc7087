"""Runs a model of transformers on several sequences at once.

With `invariant`, each computation has the same shape: all slots, occupied or not, and the whole length of the cache. So
the tokens of a sequence do not depend on the others, nor on their number, not even by rounding. Otherwise the slots up
to the last occupied one are computed, as far as the longest of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from guardagent.errors import InputError
from guardagent.generation.local.huggingface import cache_argument, last_logits_only
from guardagent.generation.local.key_value_rows import RowWrite, row_cache
from guardagent.generation.local.row_masks import RowMasks

MAX_LENGTH = 4096
_ATTENTION = ("eager", "sdpa")


class TransformersBatch:
    """Runs a model as it is: the caller sets `eval()`, device and dtype.

    Args:
        model: a causal language model.
        slots: the most sequences at once.
        max_length: the most tokens of a sequence, prompt included; by default the model's, and at most 4,096.
        invariant: whether a sequence's logits must not depend on the other ones.

    Raises:
        InputError: the model or an option is not supported.
    """

    def __init__(self, model: Any, slots: int = 16, max_length: int | None = None, *, invariant: bool = True) -> None:
        config = model.config.get_text_config(decoder=True)
        longest = getattr(config, "max_position_embeddings", None) or MAX_LENGTH
        self.max_length = min(MAX_LENGTH, longest) if max_length is None else max_length
        self.slots, self.defaults = slots, model.generation_config
        _check(model, config, slots, self.max_length, longest)
        self._model, self._invariant = model, invariant
        self._masks = RowMasks(config, model.dtype)
        self._write = RowWrite(slice(0), None, 0)
        # A last position takes what is computed for slots that are not occupied.
        cache = row_cache(self._write, config.num_hidden_layers, slots, self.max_length + 1)
        self._options = {cache_argument(model): cache, **last_logits_only(model)}
        self._free = list(range(slots))[::-1]

    def open(self) -> TransformersSequence:
        return TransformersSequence(self, self._free.pop())

    def close(self, sequence: TransformersSequence) -> None:
        sequence.computed = None
        self._free.append(sequence.row)

    def compute(self, sequences: Sequence[TransformersSequence]) -> None:
        pending = [one for one in sequences if not one.is_computed]
        for one in pending:
            if len(one.tokens) - one.cached > 1:  # a prompt is computed alone
                self._compute_row(one)
        if one_token := [one for one in pending if not one.is_computed]:
            self._compute_rows(one_token)

    # --- computing

    def _compute_row(self, one: TransformersSequence) -> None:
        tokens = one.tokens[one.cached :]
        positions = torch.arange(one.cached, len(one.tokens), device=self._model.device)[None]
        one.take(self._forward(slice(one.row, one.row + 1), [tokens], positions, len(one.tokens))[0])

    def _compute_rows(self, sequences: Sequence[TransformersSequence]) -> None:
        last = self.slots if self._invariant else 1 + max(one.row for one in sequences)
        tokens, places = [0] * last, [self.max_length] * last
        for one in sequences:
            tokens[one.row], places[one.row] = one.tokens[-1], one.cached
        width = self.max_length if self._invariant else 1 + max(one.cached for one in sequences)
        positions = torch.tensor(places, device=self._model.device)[:, None]
        logits = self._forward(slice(last), [[token] for token in tokens], positions, width)
        for one in sequences:
            one.take(logits[one.row])

    def _forward(self, rows: slice, tokens: Sequence[Sequence[int]], positions: Any, width: int) -> Any:
        """The logits [rows, vocabulary] after the last tokens."""
        write = self._write
        write.rows, write.positions, write.width = rows, positions, width
        with torch.no_grad():
            output = self._model(
                input_ids=torch.tensor(tokens, device=self._model.device),
                attention_mask=self._masks.of(positions, width),
                position_ids=positions.clamp(max=self.max_length - 1),
                use_cache=True,
                **self._options,
            )
        return output.logits[:, -1].to(torch.float32)


class TransformersSequence:
    """A sequence in a row of the cache.

    Args:
        batch: computes its logits.
        row: its row.
    """

    def __init__(self, batch: TransformersBatch, row: int) -> None:
        self.defaults, self.row = batch.defaults, row
        self.tokens: list[int] = []
        self.cached = 0  # the number of tokens in the cache
        self.computed: Any = None
        self._batch = batch

    @property
    def is_computed(self) -> bool:
        return self.computed is not None

    def take(self, logits: Any) -> None:
        """Takes over the logits after the last token."""
        self.computed, self.cached = logits, len(self.tokens)

    def start(self, prompt: Sequence[int]) -> None:
        if not prompt:
            raise InputError("the prompt is empty; expected at least one token")
        self.tokens, self.cached, self.computed = list(prompt), 0, None

    def step(self, token: int) -> None:
        self.tokens.append(token)
        self.computed = None

    def logits(self) -> Any:
        if self.computed is None:
            self._batch.compute([self])
        return self.computed

    def cut(self, length: int) -> None:
        if length < len(self.tokens):
            del self.tokens[length:]
            self.computed = None
            self.cached = min(self.cached, length - 1)  # the last token is computed again, for its logits


def _check(model: Any, config: Any, slots: int, length: int, longest: int) -> None:
    from transformers import DynamicCache
    from transformers.cache_utils import DynamicLayer

    if model.config.is_encoder_decoder:
        raise InputError("the model is an encoder-decoder; expected a causal language model")
    if not all(isinstance(layer, DynamicLayer) for layer in DynamicCache(config=config).layers):
        raise InputError("the model keeps a recurrent state, which cannot be cut; expected attention layers only")
    if (attention := config._attn_implementation) not in _ATTENTION:  # noqa: SLF001 - there is no other way to ask
        raise InputError(f"the model's attention is {attention!r}, without masks; expected {' or '.join(_ATTENTION)}")
    if type(slots) is not int or slots < 1:
        raise InputError(f"'slots' is {slots!r}; expected an integer of at least 1")
    if type(length) is not int or not 1 < length <= longest:
        raise InputError(f"'max_length' is {length!r}; expected an integer from 2 to the model's {longest}")
