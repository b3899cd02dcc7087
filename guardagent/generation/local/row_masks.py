"""Attention masks over the rows of a cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from guardagent.errors import InputError

_FULL, _SLIDING = "full_attention", "sliding_attention"


class RowMasks:
    """Builds the masks that a model expects: a token sees its row up to itself, or a window of it.

    Args:
        config: the configuration of the model's decoder.
        dtype: of the model.

    Raises:
        InputError: the model has layers that are no attention over earlier tokens.
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
