"""Generates one turn of a model without denied calls."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from guardagent.errors import InputError
from guardagent.generation.local.ending import Ending, check_ending, ending_text
from guardagent.generation.local.engines import ModelEngine, engine_of
from guardagent.generation.local.prompt import end_tokens, prompt_tokens
from guardagent.generation.local.result import Ended, GeneratedCall, GeneratedTurn
from guardagent.generation.local.sampling import Sampler
from guardagent.generation.local.token_trie import ForbiddenTrie
from guardagent.generation.local.tool_schemas import read_tools
from guardagent.generation.local.turn import InvalidToken, MalformedCall, PartialCall, ToolChoice, TurnBuffer
from guardagent.generation.local.turn_check import TurnChecker
from guardagent.generation.local.vocabulary import Vocabulary, vocabulary_of
from guardagent.session.session import Session
from guardagent.types import freeze, unchecked_verdict

Mode = Literal["exact", "fast"]
MAX_BACKTRACKS = 100
_NO_LONGER_ALLOWED = "a call is no longer allowed, because the session has changed meanwhile"


def guarded_generate(
    model: Any,
    tokenizer: Any,
    messages: Any,
    tools: Iterable[Any],
    session: Session | None,
    *,
    mode: Mode = "exact",
    max_new_tokens: int = 512,
    max_total_tokens: int | None = None,
    max_backtracks: int = MAX_BACKTRACKS,
    ending: Ending = "refusal",
    tool_format: str = "auto",
    tool_choice: ToolChoice = "auto",
    parallel: bool | None = None,
    facts: Mapping[str, Any] | None = None,
    agent: str | None = None,
    do_sample: bool | None = None,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int | None = None,
    generator: Any = None,
    logits_processor: Iterable[Callable[[Any, Any], Any]] = (),
) -> GeneratedTurn:
    """Generates one turn. Its calls conform to the tools' schemas, and are released only if the session allows them.

    After each complete name or argument, the session is queried whether any completion of the call can comply. If none
    can, or if a complete call is denied, the decoder backtracks.

    Args:
        model: a causal language model of transformers, or a `ModelEngine`.
        tokenizer: its fast tokenizer.
        messages: chat messages for the tokenizer's template, or a prompt as a string or as tokens.
        tools: as for a chat template: function definitions as mappings, or documented functions.
        session: judges the calls; None generates unguarded.
        mode: `exact` restarts the call, so that calls follow the model's distribution conditioned on compliance;
            `fast` backtracks to the nearest alternative, and forbids the path that was denied.
        max_new_tokens: the most tokens of the turn.
        max_total_tokens: the most tokens generated, discarded ones included; by default eight times as many.
        max_backtracks: the most backtracks.
        ending: the text for the user after giving up: `silence`, a `refusal` with the reason, a `question`, or a
            function from the last denied verdict to a string.
        tool_format: the format of calls; `auto` detects it from the chat template.
        tool_choice: `auto`, `required` (the turn begins with a call) or `none`.
        parallel: whether the calls of the turn may run in any order; by default as the format defines.
        facts: the facts of this turn.
        agent: the name of the agent.
        do_sample: as in transformers; by default from the model's configuration.
        temperature: likewise.
        top_k: likewise.
        top_p: likewise.
        seed: the seed for sampling.
        generator: a `torch.Generator` instead of a seed.
        logits_processor: further logits processors of transformers.

    Returns:
        The turn. Its calls are in flight.

    Raises:
        InputError: an option, a tool, the tokenizer or the model is invalid.
    """
    check_ending(ending)
    _check_options(mode, max_new_tokens, max_backtracks)
    engine, schemas = engine_of(model), read_tools(tools)
    ends = end_tokens(tokenizer, engine.defaults)
    vocabulary = vocabulary_of(tokenizer, ends)
    format_used = vocabulary.format(tool_format)
    is_parallel = format_used.is_parallel if parallel is None else parallel
    sampler = Sampler(
        engine.defaults, do_sample=do_sample, temperature=temperature, top_k=top_k, top_p=top_p,
        generator=generator, seed=seed, processors=logits_processor,
    )  # fmt: skip
    prompt = prompt_tokens(tokenizer, messages, tools)
    decoder = _Decoder(
        engine,
        sampler,
        TurnBuffer(vocabulary, format_used, list(schemas.values()), tool_choice if schemas else "none"),
        TurnChecker(session, schemas, is_parallel=is_parallel, facts=facts, agent=agent),
        vocabulary=vocabulary,
        ends=frozenset(ends),
        prompt=prompt,
        is_exact=mode == "exact",
        max_tokens=max_new_tokens,
        max_written=8 * max_new_tokens if max_total_tokens is None else max_total_tokens,
        max_backtracks=max_backtracks,
    )
    return decoder.run(ending)


def _check_options(mode: str, max_new_tokens: int, max_backtracks: int) -> None:
    if mode not in ("exact", "fast"):
        raise InputError(f"'mode' is {mode!r}; expected 'exact' or 'fast'")
    if type(max_new_tokens) is not int or max_new_tokens < 1:
        raise InputError(f"'max_new_tokens' is {max_new_tokens!r}; expected an integer of at least 1")
    if type(max_backtracks) is not int or max_backtracks < 0:
        raise InputError(f"'max_backtracks' is {max_backtracks!r}; expected an integer of at least 0")


class _NoAllowedCall(Exception):  # noqa: N818 - used for control flow
    """No allowed call was found within the budget; the message has the reason."""


class _Decoder:
    """Generates one turn.

    Args:
        engine: runs the model.
        sampler: chooses tokens.
        turn: the tokens so far.
        checker: checks the calls.
        vocabulary: the vocabulary of the tokenizer.
        ends: the tokens that end a turn.
        prompt: the tokens of the prompt.
        is_exact: whether to restart a denied call from its beginning.
        max_tokens: the most tokens of the turn.
        max_written: the most tokens generated, discarded ones included.
        max_backtracks: the most backtracks.
    """

    def __init__(
        self,
        engine: ModelEngine,
        sampler: Sampler,
        turn: TurnBuffer,
        checker: TurnChecker,
        *,
        vocabulary: Vocabulary,
        ends: frozenset[int],
        prompt: Sequence[int],
        is_exact: bool,
        max_tokens: int,
        max_written: int,
        max_backtracks: int,
    ) -> None:
        self._engine, self._sampler, self._turn, self._checker = engine, sampler, turn, checker
        self._vocabulary, self._ends, self._is_exact = vocabulary, ends, is_exact
        self._max_tokens, self._max_written, self._max_backtracks = max_tokens, max_written, max_backtracks
        self._prompt = list(prompt)
        self._written = self._backtracks = self._discarded = 0
        self._trie: ForbiddenTrie | None = None  # from the beginning of the last denied call
        self._invalid: dict[int, set[int]] = {}  # by position
        engine.start(self._prompt)

    def run(self, ending: Ending) -> GeneratedTurn:
        ended: Ended
        try:
            ended, why = self._decode()
            self._drop_open_call()
        except _NoAllowedCall as signal:
            return self._give_up(str(signal), ending)
        calls = self._checker.reserve()
        if calls is None:
            return self._give_up(_NO_LONGER_ALLOWED, ending)
        return self._result(self._turn.free_text(), calls, ended, why)

    def _give_up(self, why: str, ending: Ending) -> GeneratedTurn:
        self._drop_open_call()
        verdict = self._checker.denied
        if verdict is not None and verdict.reasons:
            why += f"; reasons for the last call: {'; '.join(verdict.reasons)}"
        text = self._turn.free_text()
        gap = "\n\n" if text.strip() else ""
        closing = ending_text(ending, verdict)
        self._turn.drop_calls()
        return self._result(f"{text}{gap}{closing}" if closing else text, (), "gave up", why)

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

    def _decode(self) -> tuple[Ended, str]:
        """Generates tokens to the end of the turn.

        Raises:
            _NoAllowedCall: a budget is exhausted, or there is no allowed continuation.
        """
        while len(self._turn.tokens) < self._max_tokens:
            if self._written >= self._max_written:
                raise _NoAllowedCall(
                    f"{self._max_written} tokens were generated, discarded ones included, which is the limit"
                )
            token = self._choose()
            if token is None:
                self._forbid_last_token()
            elif token in self._ends:
                return "end", "the model ended its turn"
            else:
                self._add(token)
        return "length", f"the turn has reached the limit of {self._max_tokens} tokens"

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
