"""The batch of vLLM's second model runner: each request has a slot, and the rows of a step name theirs."""

from __future__ import annotations

from typing import Any

from guardagent.generation.local.vllm.masked_row import MaskedRow


class RequestSlots:
    """The requests of an engine by slot. A slot is free again without notice, until another request is added to it.

    Args:
        states: the engine's `LogitsProcRequestState`.
    """

    def __init__(self, states: Any) -> None:
        self._states = states
        self._slots: dict[int, tuple[MaskedRow, list[int]]] = {}

    def add(self, slot: int, params: Any) -> None:
        """Adds a request, perhaps one that was taken away before and has generated tokens."""
        tokens: list[int] = []
        self._slots[slot] = MaskedRow(params, tokens), tokens

    def apply(self, logits: Any, step: Any) -> Any:
        """Masks each row.

        Args:
            logits: the logits of the step.
            step: its `LogitsContext`.
        """
        rows = zip(step.expanded_idx_mapping.tolist(), step.pos.tolist(), step.input_ids.tolist(), strict=True)
        for row, (slot, position, token) in enumerate(rows):
            length = position + 1
            if length < int(self._states.prefill_len.np[slot]):
                continue  # a part of a prompt, after which no token is generated
            if slot not in self._slots:
                self.add(slot, None)
            masked, tokens = self._slots[slot]
            self._follow(tokens, slot, length, token)
            masked.mask(logits[row])
        return logits

    def _follow(self, tokens: list[int], slot: int, length: int, last: int) -> None:
        """Updates the generated tokens of a slot: usually by the one that the step computes."""
        begin = int(self._states.prompt_len.np[slot])
        generated = length - begin
        if generated == len(tokens) + 1 and tokens:
            tokens.append(last)
        elif generated != len(tokens) or tokens[-1:] != [last][:generated]:
            tokens[:] = self._states.all_token_ids.gpu[slot, begin:length].tolist()
