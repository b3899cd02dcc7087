"""The decoder of one turn: chooses tokens, checks the calls that they complete, and backtracks from denied ones."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from guardagent.generation.local.ending import Ending, ending_text
from guardagent.generation.local.engine import ModelEngine
from guardagent.generation.local.result import Ended, GeneratedCall, GeneratedTurn
from guardagent.generation.local.sampling import Sampler
from guardagent.generation.local.token_trie import ForbiddenTrie
from guardagent.generation.local.turn import InvalidToken, MalformedCall, PartialCall, TurnBuffer
from guardagent.generation.local.turn_check import TurnChecker
from guardagent.types import freeze, unchecked_verdict

_NO_LONGER_ALLOWED = "a call is no longer allowed, because the session has changed meanwhile"


class _NoAllowedCall(Exception):  # noqa: N818 - used for control flow
    """No allowed call was found within the budget; the message has the reason."""


class Decoder:
    """Generates one turn, a token at a time.

    Args:
        engine: runs the model; the prompt is its sequence.
        sampler: chooses tokens.
        turn: the tokens so far.
        checker: checks the calls.
        ends: the tokens that end a turn.
        prompt: the tokens of the prompt.
        is_exact: whether to restart a denied call from its beginning.
        max_tokens: the most tokens of the turn.
        max_written: the most tokens generated, discarded ones included.
        max_backtracks: the most backtracks.
        ending: the text for the user after giving up.

    Attributes:
        result: the turn; None until it has ended. Its calls are in flight from then on, and none before.
    """

    def __init__(
        self,
        engine: ModelEngine,
        sampler: Sampler,
        turn: TurnBuffer,
        checker: TurnChecker,
        *,
        ends: frozenset[int],
        prompt: Sequence[int],
        is_exact: bool,
        max_tokens: int,
        max_written: int,
        max_backtracks: int,
        ending: Ending,
    ) -> None:
        self._engine, self._sampler, self._turn, self._checker = engine, sampler, turn, checker
        self._ends, self._is_exact, self._ending = ends, is_exact, ending
        self._max_tokens, self._max_written, self._max_backtracks = max_tokens, max_written, max_backtracks
        self._prompt = list(prompt)
        self.result: GeneratedTurn | None = None
        self._written = self._backtracks = self._discarded = 0
        self._trie: ForbiddenTrie | None = None  # from the beginning of the last denied call
        self._invalid: dict[int, set[int]] = {}  # by position
        engine.start(self._prompt)

    def run(self) -> GeneratedTurn:
        """Generates the turn to its end."""
        while self.result is None:
            self.advance()
        return self.result

    def advance(self) -> None:
        """Chooses one token, for which the engine's logits are read once. Sets `result` if that ends the turn."""
        try:
            ended = self._limit() or self._decode() or self._limit()
            if ended is None:
                return
            self._drop_open_call()
        except _NoAllowedCall as signal:
            self.result = self._give_up(str(signal))
            return
        calls = self._checker.reserve()
        self.result = self._give_up(_NO_LONGER_ALLOWED) if calls is None else self._finished(calls, *ended)

    @property
    def settled_text(self) -> str:
        """The text for the user, as far as it will not change any more."""
        return self._turn.settled_text() if self.result is None else self.result.text

    def _give_up(self, why: str) -> GeneratedTurn:
        self._drop_open_call()
        verdict = self._checker.denied
        if verdict is not None and verdict.reasons:
            why += f"; reasons for the last call: {'; '.join(verdict.reasons)}"
        text = self._turn.free_text()
        gap = "\n\n" if text.strip() else ""
        closing = ending_text(self._ending, verdict)
        self._turn.drop_calls()
        return self._result(f"{text}{gap}{closing}" if closing else text, (), "gave up", why)

    def _finished(self, calls: tuple[GeneratedCall, ...], ended: Ended, why: str) -> GeneratedTurn:
        return self._result(self._turn.free_text(), calls, ended, why)

    def _drop_open_call(self) -> None:
        """Removes an incomplete call from the turn, its tokens included."""
        if self._turn.is_calling:
            self._cut(self._turn.root)

    def _result(self, text: str, calls: tuple[GeneratedCall, ...], ended: Ended, why: str) -> GeneratedTurn:
        checker = self._checker
        return GeneratedTurn(
            text, calls, ended, why, checker.denied, freeze(dict(checker.rules)), checker.unchecked,
            tuple(self._turn.tokens), self._backtracks, self._discarded, checker.questions, checker.checks,
        )  # fmt: skip

    # --- decoding

    def _limit(self) -> tuple[Ended, str] | None:
        """The end of a turn that has reached its limit.

        Raises:
            _NoAllowedCall: the limit of generated tokens is reached, discarded ones included.
        """
        if len(self._turn.tokens) >= self._max_tokens:
            return "length", f"the turn has reached the limit of {self._max_tokens} tokens"
        if self._written >= self._max_written:
            raise _NoAllowedCall(
                f"{self._max_written} tokens were generated, discarded ones included, which is the limit"
            )
        return None

    def _decode(self) -> tuple[Ended, str] | None:
        """Chooses a token; returns the end of the turn if it is one.

        Raises:
            _NoAllowedCall: the backtracks are used up, or there is no allowed continuation.
        """
        token = self._choose()
        if token is None:
            self._forbid_last_token()
        elif token in self._ends:
            return "end", "the model ended its turn"
        else:
            self._add(token)
        return None

    def _choose(self) -> int | None:
        turn = self._turn
        forbidden = self._forbidden_tokens()
        bits = turn.allowed()
        logits = self._engine.logits()
        if bits is None and not forbidden:
            return self._sampler.choose(self._tokens, logits, None)
        return self._sampler.choose(self._tokens, logits, _allowed(bits, forbidden, len(logits)))

    @property
    def _tokens(self) -> Sequence[int]:
        return [*self._prompt, *self._turn.tokens] if self._sampler.looks_back else ()

    def _forbidden_tokens(self) -> set[int]:
        """The tokens that are forbidden at the current position."""
        misfits = self._invalid.get(len(self._turn.tokens), set()) if self._invalid else set()
        return misfits | self._trie.here if self._trie is not None else misfits

    def _add(self, token: int) -> None:
        self._written += 1
        found: Sequence[PartialCall] | None
        try:
            found = self._turn.push(token)
        except InvalidToken:
            self._invalid.setdefault(len(self._turn.tokens), set()).add(token)
            return
        except MalformedCall as problem:
            self._checker.deny(unchecked_verdict(str(problem), checked_by="policy"))
            found = None
        self._engine.step(token)
        if self._trie is not None:
            self._trie.push(token)
        if found is None:
            self._backtrack(len(self._turn.tokens) - 1)
        elif found:
            self._check_completed(found)

    def _check_completed(self, found: Sequence[PartialCall]) -> None:
        """Checks what the last token completes; if any of it fails, backtracks."""
        mark, root = self._checker.mark(), self._turn.root
        for at, written in enumerate(found):
            if not self._complies(written, found[at + 1 :]):
                self._checker.rollback(mark)
                self._turn.root = root
                self._backtrack(self._turn.token_at(written.start))
                return
        if found[-1].is_complete or self._turn.root != root:
            self._trie = None

    def _complies(self, written: PartialCall, later: Sequence[PartialCall]) -> bool:
        """Judges a complete call; queries whether a partial one can comply, unless the same token completes it."""
        if not written.is_complete:
            return any(one.is_complete for one in later) or self._checker.can_comply(written.tool, written.args)
        verdict = self._checker.check(written.tool, written.args)
        if verdict is not None and verdict.label:
            self._checker.deny(verdict)
            return False
        self._checker.accept(written.tool, written.args)
        self._turn.accept()
        return True

    # --- backtracking

    def _backtrack(self, begins: int) -> None:
        """Backtracks after a denial.

        Args:
            begins: the token in which the denied value begins.

        Raises:
            _NoAllowedCall: the backtracks are used up, or another attempt would repeat the denied call.
        """
        if self._backtracks >= self._max_backtracks:
            raise _NoAllowedCall(f"no allowed call was found in {self._max_backtracks + 1} attempts")
        if self._is_exact and not self._sampler.do_sample:
            raise _NoAllowedCall("the likeliest call is denied, and would repeat without sampling; try mode='fast'")
        self._backtracks += 1
        if self._is_exact:
            self._cut(self._turn.root)
            return
        forbidden = self._trie_of_call()
        self._cut(forbidden.deny(self._turn.tokens, begins))

    def _forbid_last_token(self) -> None:
        """Forbids the last token, since no token can follow it.

        Raises:
            _NoAllowedCall: the call has no token left.
        """
        if len(self._turn.tokens) <= self._turn.root:
            raise _NoAllowedCall("every continuation is forbidden")
        self._cut(self._trie_of_call().forbid(self._turn.tokens))

    def _trie_of_call(self) -> ForbiddenTrie:
        """The trie of forbidden continuations of the current call."""
        if self._trie is None or self._trie.root != self._turn.root:
            self._trie = ForbiddenTrie(self._turn.root)
            for token in self._turn.tokens[self._turn.root :]:
                self._trie.push(token)
        return self._trie

    def _cut(self, length: int) -> None:
        self._discarded += len(self._turn.tokens) - length
        self._turn.cut(length)
        self._engine.cut(len(self._prompt) + length)
        self._invalid = {place: tokens for place, tokens in self._invalid.items() if place <= length}
        if self._trie is not None:
            self._trie.cut(length)


def _allowed(bits: bytes | None, forbidden: Collection[int], size: int) -> Any:
    """The mask of tokens that the grammar allows and that are not forbidden."""
    import torch

    if bits is None:
        allowed = np.ones(size, dtype=bool)
    else:
        allowed = np.unpackbits(np.frombuffer(bits, np.uint8), count=size, bitorder="little").view(bool)
    if forbidden:
        allowed[list(forbidden)] = False
    return torch.from_numpy(allowed)
