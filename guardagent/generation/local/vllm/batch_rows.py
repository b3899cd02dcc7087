"""The batch of vLLM's first model runner: rows that are added, removed and moved."""

from __future__ import annotations

from typing import Any

from guardagent.generation.local.vllm.masked_row import MaskedRow


class BatchRows:
    """The requests of a batch by row."""

    def __init__(self) -> None:
        self._rows: dict[int, MaskedRow] = {}

    def update(self, change: Any) -> None:
        """Follows a change of the batch.

        Args:
            change: a `BatchUpdate`; its operations count in the order removed, added, moved. None for no change.
        """
        if change is None:
            return
        for row in change.removed:
            self._rows.pop(row, None)
        for row, params, _prompt, tokens in change.added:
            self._rows[row] = MaskedRow(params, tokens)
        for source, target, direction in change.moved:
            self._move(source, target, is_swap=direction.name == "SWAP")

    def apply(self, logits: Any) -> Any:
        """Masks each row. A row that was never added may only end."""
        for row in range(len(logits)):
            self._rows.setdefault(row, MaskedRow(None)).mask(logits[row])
        return logits

    def _move(self, source: int, target: int, *, is_swap: bool) -> None:
        moved, replaced = self._rows.pop(source, None), self._rows.pop(target, None)
        if moved is not None:
            self._rows[target] = moved
        if is_swap and replaced is not None:
            self._rows[source] = replaced
