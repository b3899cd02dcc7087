"""One request to an engine in this process, found by its id."""

from __future__ import annotations

import secrets
import weakref
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Unpack

from guardagent.errors import GuardError, InputError
from guardagent.generation.local.checks import MaskedTurn, MaskOptions
from guardagent.generation.local.result import GeneratedCall
from guardagent.session.session import Session

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
