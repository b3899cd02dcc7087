"""Guarded decoding in vLLM: it cannot backtrack, so tokens that would complete a denied call are masked.

    llm = LLM("Qwen/Qwen3-8B", logits_processors=[GuardedLogitsProcessor])
    request = GuardedRequest(tokenizer, tools, session)
    [output] = llm.chat(messages, SamplingParams(extra_args=request.extra_args), tools=tools)
    calls = request.release(output.outputs[0].token_ids)

An engine in this process finds a request by its id, and gives it a row of its batch. `logits_processor` has
`GuardedLogitsProcessor`, the class for vLLM; only that module needs vLLM.
"""

from __future__ import annotations

import secrets
import weakref
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Unpack

from guardagent.errors import GuardError, InputError
from guardagent.generation.local.checks import GeneratedCall, MaskedTurn, MaskOptions
from guardagent.session.session import Session

__all__ = ["GuardedRequest"]
KEY = "guardagent"  # in `extra_args`
_REQUESTS: weakref.WeakValueDictionary[str, GuardedRequest] = weakref.WeakValueDictionary()


class GuardedRequest:
    """A request for one turn. The engine finds it for as long as the caller keeps it.

    Args:
        tokenizer: the model's fast tokenizer.
        tools: as for a chat template.
        session: judges the calls.
        options: see `MaskOptions`.

    Attributes:
        extra_args: for the request's `SamplingParams`.
        row: the row of the engine's batch that the request has; None before it has one.
    """

    def __init__(self, tokenizer: Any, tools: Iterable[Any], session: Session, **options: Unpack[MaskOptions]) -> None:
        self._new_turn = partial(MaskedTurn, tokenizer, list(tools), session, **options)
        self._turn = self._new_turn()
        self._tokens: list[int] = []
        self._problem: Exception | None = None
        self._is_released = False
        self.row: object = None
        self.extra_args = {KEY: secrets.token_hex(16)}
        _REQUESTS[self.extra_args[KEY]] = self

    @property
    def ends(self) -> list[int]:
        """The tokens that end the turn."""
        return self._turn.ends

    def allowed(self, tokens: Sequence[int], scores: Any) -> Any:
        """The mask of tokens that are allowed next; None if all are. After a problem, only the end is.

        Args:
            tokens: the generated tokens so far.
            scores: the one-dimensional tensor of the scores of the next token.
        """
        if self._is_released or self._problem is not None:
            return ends_only(self.ends, len(scores))
        try:
            self._read(tokens)
            return self._turn.allowed(scores)
        except Exception as problem:  # noqa: BLE001 - an engine that it reached would end all of its requests
            self._problem = problem
            return ends_only(self.ends, len(scores))

    def release(self, tokens: Sequence[int]) -> tuple[GeneratedCall, ...]:
        """Releases the calls of the turn. They are in flight in the session.

        Args:
            tokens: the generated tokens, the `token_ids` of vLLM's output.

        Raises:
            InputError: no engine in this process has run the request, or its calls are already released.
            GuardError: a call is no longer allowed, because the session has changed meanwhile, or the turn could not
                be checked.
        """
        if self._is_released:
            raise InputError("the calls are already released; expected a new request for each turn")
        if self.row is None:
            raise InputError(
                "no engine in this process has run the request; expected an engine with the logits processor "
                "'GuardedLogitsProcessor', and VLLM_ENABLE_V1_MULTIPROCESSING=0"
            )
        self._is_released = True
        if self._problem is not None:
            raise GuardError(f"the turn could not be checked: {self._problem}") from self._problem
        self._read(tokens)
        return self._turn.reserve()

    def _read(self, tokens: Sequence[int]) -> None:
        """Reads the new tokens. If the engine has replaced earlier ones, reads all of them anew."""
        known = len(self._tokens)
        if list(tokens[:known]) != self._tokens:
            self._turn, self._tokens, known = self._new_turn(), [], 0
        new = list(tokens[known:])
        self._tokens += new
        self._turn.read(new)


def find_request(extra_args: Any) -> GuardedRequest | None:
    """The request of an engine's `extra_args`; None if it is unknown, or its caller has dropped it."""
    key = extra_args.get(KEY) if isinstance(extra_args, dict) else None
    return _REQUESTS.get(key) if isinstance(key, str) else None


def ends_only(ends: Iterable[int], size: int) -> Any:
    """The mask of tokens that end a turn. Without one, the first token alone is allowed, which completes no call."""
    import numpy as np

    allowed = np.zeros(size, dtype=bool)
    allowed[[end for end in ends if 0 <= end < size] or [0]] = True
    return allowed


class MaskedRow:
    """A request that the engine runs; without a guarded request it may only end.

    A request has one row at a time: the engine may take its row away and give it another one later.

    Args:
        params: the request's `SamplingParams`; None for a row of an unknown request.
        tokens: the generated tokens, a list that the engine appends to.
    """

    def __init__(self, params: Any, tokens: Sequence[int] = ()) -> None:
        self.tokens = tokens
        self._request: GuardedRequest | None = find_request(getattr(params, "extra_args", None))
        self._ends = sorted(getattr(params, "all_stop_token_ids", None) or ())
        if self._request is not None:
            self._request.row = self

    def mask(self, scores: Any) -> None:
        """Masks tokens in the scores of the next one."""
        allowed = self._allowed(scores)
        if allowed is not None:
            import torch

            scores.masked_fill_(~torch.from_numpy(allowed).to(scores.device), -float("inf"))

    def _allowed(self, scores: Any) -> Any:
        request = self._request
        if request is None or request.row is not self:
            return ends_only(request.ends if request is not None else self._ends, len(scores))
        if any(token < 0 for token in self.tokens[-1:]):  # a placeholder of a token that is not known yet
            return ends_only(request.ends, len(scores))
        return request.allowed(self.tokens, scores)


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
