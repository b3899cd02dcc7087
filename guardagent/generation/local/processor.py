"""The guard as a processor of logits, for transformers' own `model.generate`.

    guarded = GuardedLogits(tokenizer, tools, session)
    output = model.generate(**inputs, logits_processor=[guarded])
    calls = guarded.release(output)

A processor cannot take anything back. It looks one token ahead, and as far as the grammar leaves no choice, and masks
what leads to something complete that cannot comply. So no denied call is completed; but a call with no allowed way on
is not completed at all, and what is written is not distributed as the model's own calls that comply.
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
    """Masks what would complete a call that the session does not allow. For one turn, of one sequence.

    Args:
        tokenizer: the model's fast tokenizer.
        tools: as for a chat template.
        session: judges the calls.
        tool_format: how the model writes calls; `auto` asks its chat template.
        tool_choice: `auto`, `required` or `none`.
        parallel: whether the calls of the turn may run in any order; where it is not given, the format says so.
        facts: what the host knows at this turn.
        agent: which agent writes.
        ends: the tokens that end a turn; the tokenizer's, where they are not given.
        width: so many of the tokens that would complete something are looked at, the likeliest; the others are masked.
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
        self._seen: int | None = None  # how many tokens of the sequence were read, with the prompt
        self._width, self._is_over, self._is_released = width, False, False

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        if self._is_released:
            raise InputError("this processor has released its calls; expected a new one for each turn")
        if len(input_ids) != 1:
            raise InputError(f"generate writes {len(input_ids)} sequences at once; expected one, without beams")
        self._read(input_ids)
        bits = self._turn.allowed()
        if bits is None and not self._is_over:
            return scores
        return scores.masked_fill(~self._allowed(bits, scores).to(scores.device), -float("inf"))

    def release(self, sequence: Any) -> tuple[GeneratedCall, ...]:
        """The calls of the turn, which take their places in the session and are in flight.

        Args:
            sequence: what `generate` gave back.

        Raises:
            InputError: the processor has seen nothing of it, or released its calls before.
            GuardError: something else happened in the session meanwhile, and a call is no longer allowed.
        """
        if self._seen is None or self._is_released:
            raise InputError("there is nothing to release; expected what generate wrote with this processor, once")
        self._read(getattr(sequence, "sequences", sequence))
        self._is_released = True
        calls = self._checker.reserve()
        if calls is None:
            raise GuardError("something else happened in the session meanwhile, and a call is no longer allowed")
        return calls

    # --- reading

    def _read(self, sequences: Any) -> None:
        """Reads what was written since."""
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
        if not allowed.any():  # no allowed way on: the turn ends with what was complete before
            self._is_over = True
            allowed[self._ends] = True
        return torch.from_numpy(allowed)

    def _look_ahead(self, allowed: Any, scores: Any) -> None:
        """Takes out what leads to what cannot stand: of all tokens where few are allowed, or of those that end one."""
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
