"""Runs a model of transformers on several sequences at once.

With `invariant`, each computation has the same shape: all slots, occupied or not, and the whole length of the cache. So
the tokens of a sequence do not depend on the others, nor on their number, not even by rounding. Otherwise the slots up
to the last occupied one are computed, as far as the longest of them.

The cache of keys and values has a row for each sequence, and each with a length of its own. Cutting a row costs
nothing: its later entries are masked, and written over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin

from guardagent.errors import InputError
from guardagent.generation.local.huggingface import cache_argument, last_logits_only

MAX_LENGTH = 4096
_ATTENTION = ("eager", "sdpa")
_FULL, _SLIDING = "full_attention", "sliding_attention"


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
        pending = [sequence for sequence in sequences if not sequence.is_computed]
        for pending_sequence in pending:
            if len(pending_sequence.tokens) - pending_sequence.cached > 1:  # a prompt is computed alone
                self._compute_row(pending_sequence)
        if one_token := [sequence for sequence in pending if not sequence.is_computed]:
            self._compute_rows(one_token)

    # --- computing

    def _compute_row(self, sequence: TransformersSequence) -> None:
        tokens = sequence.tokens[sequence.cached :]
        positions = torch.arange(sequence.cached, len(sequence.tokens), device=self._model.device)[None]
        sequence.take(
            self._forward(
                slice(sequence.row, sequence.row + 1),
                [tokens],
                positions,
                len(sequence.tokens),
            )[0]
        )

    def _compute_rows(self, sequences: Sequence[TransformersSequence]) -> None:
        last = self.slots if self._invariant else 1 + max(sequence.row for sequence in sequences)
        tokens, places = [0] * last, [self.max_length] * last
        for transformers_sequence in sequences:
            tokens[transformers_sequence.row], places[transformers_sequence.row] = (
                transformers_sequence.tokens[-1],
                transformers_sequence.cached,
            )
        width = self.max_length if self._invariant else 1 + max(sequence.cached for sequence in sequences)
        positions = torch.tensor(places, device=self._model.device)[:, None]
        logits = self._forward(slice(last), [[token] for token in tokens], positions, width)
        for transformers_sequence in sequences:
            transformers_sequence.take(logits[transformers_sequence.row])

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


@dataclass(slots=True)
class RowWrite:
    """The places of the next tokens, in all layers.

    Attributes:
        rows: the rows that are computed, as a slice; all of them if their number is fixed.
        positions: int64 [rows, tokens], the position of each token in its row.
        width: the number of positions that attention reads.
    """

    rows: slice
    positions: Any
    width: int


class RowLayer(CacheLayerMixin):  # type: ignore[misc]
    """The keys and values of one layer.

    Args:
        write: where the next tokens are written; shared by all layers.
        slots: the number of rows.
        length: the number of positions of a row.
    """

    is_sliding = False
    is_croppable = True

    def __init__(self, write: RowWrite, slots: int, length: int) -> None:
        super().__init__()
        self._write, self._slots, self._length = write, slots, length

    def lazy_initialization(self, key_states: Any, value_states: Any) -> None:
        def rows(of: Any) -> Any:
            return torch.zeros((self._slots, of.shape[1], self._length, of.shape[3]), dtype=of.dtype, device=of.device)

        self.keys, self.values = rows(key_states), rows(value_states)
        self.is_initialized = True

    def update(self, key_states: Any, value_states: Any, *_: Any, **__: Any) -> tuple[Any, Any]:
        """Writes the states [rows, heads, tokens, size] of new tokens; returns those of the rows as far as is read."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        write = self._write
        index = write.positions[:, None, :, None]
        for kept, new in ((self.keys, key_states), (self.values, value_states)):
            kept[write.rows].scatter_(2, index.expand(new.shape), new)
        read = (write.rows, slice(None), slice(write.width))
        return self.keys[read], self.values[read]

    def get_seq_length(self) -> int:
        return self._write.width

    def get_max_length(self) -> int:
        return self._length

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:  # noqa: ARG002 - the interface's
        return self._write.width, 0


def row_cache(write: RowWrite, layers: int, slots: int, length: int) -> Any:
    """A cache of transformers with rows in each layer."""
    return Cache(layers=[RowLayer(write, slots, length) for _ in range(layers)])


class RowMasks:
    """Builds the masks that a model expects: a token sees its row up to itself, or a window of it.

    Args:
        config: the configuration of the model's decoder.
        dtype: of the model.

    Raises:
        InputError: the model has layers that are not attention over earlier tokens.
    """

    def __init__(self, config: Any, dtype: Any) -> None:
        kinds: Sequence[str] = getattr(config, "layer_types", None) or ()
        if unknown := sorted({*kinds} - {_FULL, _SLIDING}):
            raise InputError(f"the model has layers of the type {unknown[0]!r}; a batch supports attention layers only")
        self._window: int | None = getattr(config, "sliding_window", None)
        self._kinds = {*kinds} or {_SLIDING if self._window else _FULL}
        self._dtype = dtype

    def of(self, positions: Any, width: int) -> Any:
        """The mask of tokens at positions [rows, tokens], over the first positions of their rows.

        Returns:
            A tensor [rows, 1, tokens, width] to add to the scores; or, if the layers differ, one for each type.
        """
        masks = {kind: self._mask(positions, width, self._window if kind == _SLIDING else None) for kind in self._kinds}
        return masks if len(masks) > 1 else next(iter(masks.values()))

    def _mask(self, positions: Any, width: int, window: int | None) -> Any:
        keys = torch.arange(width, device=positions.device)
        queries = positions[:, :, None]
        hidden = keys > queries
        if window is not None:
            hidden |= keys <= queries - window
        mask = torch.zeros(hidden.shape, dtype=self._dtype, device=positions.device)
        return mask.masked_fill_(hidden, torch.finfo(self._dtype).min)[:, None]
