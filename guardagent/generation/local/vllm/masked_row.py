"""One request in an engine's batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from guardagent.generation.local.vllm.guarded_request import GuardedRequest, ends_only, find_request


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
