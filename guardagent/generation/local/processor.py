"""The guard as a logits processor for transformers' own `model.generate`.

    guarded = GuardedLogits(tokenizer, tools, session)
    output = model.generate(**inputs, logits_processor=[guarded])
    calls = guarded.release(output)

A processor cannot backtrack. It looks ahead one token, plus any tokens that the grammar forces, and masks tokens that
complete a name, argument or call that cannot comply. So no denied call is completed. But a call without an allowed
continuation stays incomplete, and the distribution is not that of the model conditioned on compliance.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from guardagent.errors import GuardError, InputError
from guardagent.generation.local.prompt import end_tokens
from guardagent.generation.local.result import GeneratedCall
from guardagent.generation.local.tool_schemas import read_tools
from guardagent.generation.local.turn import InvalidToken, MalformedCall, PartialCall, ToolChoice, TurnBuffer
from guardagent.generation.local.turn_check import TurnChecker
from guardagent.generation.local.vocabulary import vocabulary_of
from guardagent.session.session import Session

WIDTH = 64


class GuardedLogits:
    """Masks tokens that would complete a denied call. For one turn of one sequence.

    Args:
        tokenizer: the model's fast tokenizer.
        tools: as for a chat template.
        session: judges the calls.
        tool_format: the format of calls; `auto` detects it from the chat template.
        tool_choice: `auto`, `required` or `none`.
        parallel: whether the calls of the turn may run in any order; by default as the format defines.
        facts: the facts of this turn.
        agent: the name of the agent.
        ends: the tokens that end a turn; by default those of the tokenizer.
        width: the number of completing tokens to check, likeliest first; the others are masked.
    """

    def __init__(
        self,
        tokenizer: Any,
        tools: Iterable[Any],
        session: Session,
        *,
        tool_format: str = "auto",
        tool_choice: ToolChoice = "auto",
        parallel: bool | None = None,
        facts: Mapping[str, Any] | None = None,
        agent: str | None = None,
        ends: Sequence[int] | None = None,
        width: int = WIDTH,
    ) -> None:
        schemas = read_tools(tools)
        self._ends = list(ends) if ends is not None else end_tokens(tokenizer, None)
        self._vocabulary = vocabulary_of(tokenizer, self._ends)
        format_used = self._vocabulary.format(tool_format)
        self._turn = TurnBuffer(
            self._vocabulary, format_used, list(schemas.values()), tool_choice if schemas else "none"
        )
        is_parallel = format_used.is_parallel if parallel is None else parallel
        self._checker = TurnChecker(session, schemas, is_parallel=is_parallel, facts=facts, agent=agent)
        self._seen: int | None = None  # the number of tokens read so far, prompt included
        self._width, self._is_over, self._is_released = width, False, False

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        if self._is_released:
            raise InputError("this processor has already released its calls; expected a new processor for each turn")
        if len(input_ids) != 1:
            raise InputError(
                f"'generate' writes {len(input_ids)} sequences at once; expected one sequence, without beams"
            )
        self._read(input_ids)
        bits = self._turn.allowed()
        if bits is None and not self._is_over:
            return scores
        return scores.masked_fill(~self._allowed(bits, scores).to(scores.device), -float("inf"))

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
        calls = self._checker.reserve()
        if calls is None:
            raise GuardError("a call is no longer allowed, because the session has changed meanwhile")
        return calls

    # --- reading

    def _read(self, sequences: Any) -> None:
        """Reads the new tokens."""
        if self._seen is None:
            self._seen = sequences.shape[1]
        for token in sequences[0, self._seen :].tolist():
            self._seen += 1
            self._is_over = self._is_over or token in self._ends or not self._push(token)

    def _push(self, token: int) -> bool:
        try:
            found = self._turn.push(token)
        except (InvalidToken, MalformedCall):
            return False
        return all(self._accept(written) for written in found)

    def _accept(self, written: PartialCall) -> bool:
        if not self._complies(written):
            return False
        if written.is_complete:
            self._checker.accept(written.tool, written.args)
            self._turn.accept()
        return True

    def _complies(self, written: PartialCall) -> bool:
        if not written.is_complete:
            return self._checker.can_comply(written.tool, written.args)
        verdict = self._checker.check(written.tool, written.args)
        return verdict is None or not verdict.label

    # --- masking

    def _allowed(self, bits: bytes | None, scores: Any) -> Any:
        import torch

        allowed = np.zeros(scores.shape[1], dtype=bool)
        if bits is not None and not self._is_over:
            bitmask = np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little")[: len(allowed)].astype(bool)
            allowed[: len(bitmask)] = bitmask
            self._look_ahead(allowed, scores[0].detach().float().cpu().numpy())
        if not allowed.any():  # no allowed continuation: the turn ends with the calls completed so far
            self._is_over = True
            allowed[self._ends] = True
        return torch.from_numpy(allowed)

    def _look_ahead(self, allowed: Any, scores: Any) -> None:
        """Masks tokens that lead to a violation: checks all if few are allowed, else those that complete a value."""
        looked_at = np.flatnonzero(allowed)
        if len(looked_at) > self._width:
            looked_at = np.flatnonzero(allowed[: self._vocabulary.size] & self._vocabulary.is_ending[: len(allowed)])
        likeliest = looked_at[np.argsort(-scores[looked_at], kind="stable")]
        allowed[likeliest[self._width :]] = False
        for token in likeliest[: self._width]:
            allowed[token] = token in self._ends or self._would_comply(int(token))

    def _would_comply(self, token: int) -> bool:
        try:
            found = self._turn.completed_by(token)
        except MalformedCall:
            return False
        mark = self._checker.mark()
        try:
            return all(self._would_accept(written) for written in found)
        finally:
            self._checker.rollback(mark)

    def _would_accept(self, written: PartialCall) -> bool:
        stands = self._complies(written)
        if stands and written.is_complete:
            self._checker.accept(written.tool, written.args)
        return stands
