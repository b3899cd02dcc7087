"""A cache of keys and values in rows, one for each sequence, and each with a length of its own.

Cutting a row costs nothing: its later entries are masked, and written over.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin


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
