"""One turn of an engine that cannot backtrack: tokens that would complete a denied call are masked.

It looks ahead one token, plus any tokens that the grammar forces. So no denied call is completed. But a call without an
allowed continuation stays incomplete, and the distribution is not that of the model conditioned on compliance.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict, Unpack

import numpy as np

from guardagent.errors import GuardError
from guardagent.generation.local.prompt import end_tokens
from guardagent.generation.local.requests import vocabulary_of
from guardagent.generation.local.result import GeneratedCall
from guardagent.generation.local.tool_schemas import read_tools
from guardagent.generation.local.turn import InvalidToken, MalformedCall, PartialCall, ToolChoice, TurnBuffer
from guardagent.generation.local.turn_check import TurnChecker
from guardagent.session.session import Session

WIDTH = 64


class MaskOptions(TypedDict, total=False):
    """The options of a masked turn.

    Attributes:
        tool_format: the format of calls; `auto`, the default, detects it from the chat template.
        tool_choice: `auto`, `required` or `none`.
        parallel: whether the calls of the turn may run in any order; by default as the format defines.
        facts: the facts of this turn.
        agent: the name of the agent.
        ends: the tokens that end a turn; by default those of the tokenizer.
        width: the number of completing tokens to check, likeliest first; the others are masked.
        prompt: the prompt, or its last characters: the turn may begin in thinking that it opens. transformers shows the
            prompt; for other engines the caller states it.
    """

    tool_format: str
    tool_choice: ToolChoice
    parallel: bool | None
    facts: Mapping[str, Any] | None
    agent: str | None
    ends: Sequence[int] | None
    width: int
    prompt: str


class MaskedTurn:
    """The state of one sequence.

    Args:
        tokenizer: the model's fast tokenizer.
        tools: as for a chat template.
        session: judges the calls.
        options: see `MaskOptions`.

    Attributes:
        ends: the tokens that end the turn.
    """

    def __init__(self, tokenizer: Any, tools: Iterable[Any], session: Session, **options: Unpack[MaskOptions]) -> None:
        schemas, ends = read_tools(tools), options.get("ends")
        self.ends = list(ends) if ends is not None else end_tokens(tokenizer, None)
        self._vocabulary = vocabulary_of(tokenizer, self.ends)
        format_used = self._vocabulary.format(options.get("tool_format", "auto"))
        choice: ToolChoice = options.get("tool_choice", "auto") if schemas else "none"
        prompt = options.get("prompt", "")
        self._turn = TurnBuffer(self._vocabulary, format_used, list(schemas.values()), choice, prompt)
        parallel = options.get("parallel")
        is_parallel = format_used.is_parallel if parallel is None else parallel
        facts, agent = options.get("facts"), options.get("agent")
        self._checker = TurnChecker(session, schemas, is_parallel=is_parallel, facts=facts, agent=agent)
        self._width, self._is_over = options.get("width", WIDTH), False

    def read(self, tokens: Iterable[int]) -> None:
        """Reads generated tokens. One that was not allowed ends the turn: later calls do not count."""
        for token in tokens:
            self._is_over = self._is_over or token in self.ends or not self._push(token)

    def allowed(self, scores: Any) -> Any:
        """The mask of tokens that are allowed next; None if all are. Without an allowed continuation, the turn ends.

        Args:
            scores: the one-dimensional tensor of their scores.
        """
        bits = None if self._is_over else self._turn.allowed()
        if bits is None and not self._is_over:
            return None
        allowed = np.zeros(len(scores), dtype=bool)
        if bits is not None:
            bitmask = np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little")[: len(allowed)].astype(bool)
            allowed[: len(bitmask)] = bitmask
            self._look_ahead(allowed, scores.detach().float().cpu().numpy())
        if not allowed.any():  # no allowed continuation: the turn ends with the calls completed so far
            allowed[self.ends] = True
        return allowed

    def reserve(self) -> tuple[GeneratedCall, ...]:
        """Reserves the calls in the session.

        Raises:
            GuardError: a call is no longer allowed, because the session has changed meanwhile.
        """
        calls = self._checker.reserve()
        if calls is None:
            raise GuardError("a call is no longer allowed, because the session has changed meanwhile")
        return calls

    # --- reading

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

    def _look_ahead(self, allowed: Any, scores: Any) -> None:
        """Masks tokens that lead to a violation: checks all if few are allowed, else those that complete a value."""
        looked_at = np.flatnonzero(allowed)
        if len(looked_at) > self._width:
            looked_at = np.flatnonzero(allowed[: self._vocabulary.size] & self._vocabulary.is_ending[: len(allowed)])
        likeliest = looked_at[np.argsort(-scores[looked_at], kind="stable")]
        allowed[likeliest[self._width :]] = False
        for token in likeliest[: self._width]:
            allowed[token] = token in self.ends or self._would_comply(int(token))

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
