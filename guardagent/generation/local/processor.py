"""The guard as a logits processor for transformers' own `model.generate`.

guarded = GuardedLogits(tokenizer, tools, session)
output = model.generate(**inputs, logits_processor=[guarded])
calls = guarded.release(output)
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Unpack

from guardagent.errors import InputError
from guardagent.generation.local.checks import MaskedTurn, MaskOptions
from guardagent.generation.local.prompt import prompt_end
from guardagent.generation.local.result import GeneratedCall
from guardagent.session.session import Session


class GuardedLogits:
    """Masks tokens that would complete a denied call. For one turn of one sequence.

    Args:
        tokenizer: the model's fast tokenizer.
        tools: as for a chat template.
        session: judges the calls.
        options: see `MaskOptions`.
    """

    def __init__(self, tokenizer: Any, tools: Iterable[Any], session: Session, **options: Unpack[MaskOptions]) -> None:
        self._tokenizer = tokenizer
        self._new_turn = partial(MaskedTurn, tokenizer, list(tools), session, **options)
        self._turn = self._new_turn()
        self._seen: int | None = None  # the number of tokens read so far, prompt included
        self._is_released = False

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        import torch

        if self._is_released:
            raise InputError("this processor has already released its calls; expected a new processor for each turn")
        if len(input_ids) != 1:
            raise InputError(
                f"'generate' writes {len(input_ids)} sequences at once; expected one sequence, without beams"
            )
        self._read(input_ids)
        allowed = self._turn.allowed(scores[0])
        if allowed is None:
            return scores
        return scores.masked_fill(~torch.from_numpy(allowed).to(scores.device), -float("inf"))

    def release(self, sequence: Any) -> tuple[GeneratedCall, ...]:
        """Releases the calls of the turn. They are in flight in the session.

        Args:
            sequence: the result of `generate`.

        Raises:
            InputError: the processor was not used for the sequence, or has already released its calls.
            GuardError: a call is no longer allowed, because the session has changed meanwhile.
        """
        if self._seen is None or self._is_released:
            raise InputError("there is nothing to release; expected the result of 'generate' with this processor, once")
        self._read(getattr(sequence, "sequences", sequence))
        self._is_released = True
        return self._turn.reserve()

    def _read(self, sequences: Any) -> None:
        """Reads the new tokens."""
        if self._seen is None:
            self._seen = sequences.shape[1]
            self._turn = self._new_turn(prompt=prompt_end(self._tokenizer, sequences[0].tolist()))
        self._turn.read(sequences[0, self._seen :].tolist())
        self._seen = sequences.shape[1]
