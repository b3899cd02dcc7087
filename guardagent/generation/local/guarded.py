"""Writes one turn of a model, from which no denied call comes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from guardagent.errors import InputError
from guardagent.generation.local.ending import Ending, check_ending, said
from guardagent.generation.local.engines import Engine, engine_of
from guardagent.generation.local.forbidden import Forbidden
from guardagent.generation.local.judge import Judge
from guardagent.generation.local.prompt import ends_of, prompt_tokens
from guardagent.generation.local.result import Ended, Guarded, ReleasedCall
from guardagent.generation.local.sampling import Sampler
from guardagent.generation.local.tools import read_tools
from guardagent.generation.local.turn import Choice, Misfit, Turn, Unreadable, Written
from guardagent.generation.local.vocabulary import Vocabulary, vocabulary_of
from guardagent.session.session import Session
from guardagent.types import freeze, unchecked_verdict

Mode = Literal["exact", "fast"]
MAX_BACKTRACKS = 100
_OVERTAKEN = "something else happened in the session meanwhile, and a call is no longer allowed"


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
    tool_choice: Choice = "auto",
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
) -> Guarded:
    """Writes one turn. Its calls are held to the tools' schemas, and released only where the session allows them.

    When a name or an argument is complete, the session is asked whether any completion of the call can comply. If none
    can, or if a whole call is denied, what was written of it is taken back.

    Args:
        model: a causal language model of transformers, or an `Engine`.
        tokenizer: its fast tokenizer.
        messages: chat messages, for the tokenizer's template; or a prompt, as a text or as tokens.
        tools: as for a chat template: mappings in the shape of function calling, or documented functions.
        session: judges the calls; None writes the same way, unguarded.
        mode: `exact` goes back to the call's beginning, so that calls are distributed as the model's own that comply;
            `fast` goes back only as far as there is another way, and forbids the one that led here.
        max_new_tokens: how long the turn may be.
        max_total_tokens: how many tokens may be written with those that are taken back; eight times as many where it
            is not given.
        max_backtracks: how often something may be taken back.
        ending: what the user is told where it gives up: `silence`, a `refusal` with the reason, a `question`, or a
            function of the last denied verdict that gives a text.
        tool_format: how the model writes calls; `auto` asks its chat template.
        tool_choice: `auto`, `required` (the turn begins with a call) or `none`.
        parallel: whether the calls of the turn may run in any order; where it is not given, the format says so.
        facts: what the host knows at this turn.
        agent: which agent writes.
        do_sample: as in transformers; by default as the model's configuration has it.
        temperature: in the same way.
        top_k: in the same way.
        top_p: in the same way.
        seed: of the choices.
        generator: a `torch.Generator`, instead of a seed.
        logits_processor: further processors of transformers.

    Returns:
        The turn. Its calls are in flight.

    Raises:
        InputError: an option, a tool, the tokenizer or the model is not what is expected.
    """
    check_ending(ending)
    _check_options(mode, max_new_tokens, max_backtracks)
    engine, known = engine_of(model), read_tools(tools)
    ends = ends_of(tokenizer, engine.defaults)
    vocabulary = vocabulary_of(tokenizer, ends)
    form = vocabulary.format(tool_format)
    is_parallel = form.is_parallel if parallel is None else parallel
    sampler = Sampler(
        engine.defaults, do_sample=do_sample, temperature=temperature, top_k=top_k, top_p=top_p,
        generator=generator, seed=seed, processors=logits_processor,
    )  # fmt: skip
    prompt = prompt_tokens(tokenizer, messages, tools)
    writing = _Writing(
        engine,
        sampler,
        Turn(vocabulary, form, list(known.values()), tool_choice if known else "none"),
        Judge(session, known, is_parallel=is_parallel, facts=facts, agent=agent),
        vocabulary=vocabulary,
        ends=frozenset(ends),
        prompt=prompt,
        is_exact=mode == "exact",
        longest=max_new_tokens,
        total=8 * max_new_tokens if max_total_tokens is None else max_total_tokens,
        backtracks=max_backtracks,
    )
    return writing.written(ending)


def _check_options(mode: str, max_new_tokens: int, max_backtracks: int) -> None:
    if mode not in ("exact", "fast"):
        raise InputError(f"mode is {mode!r}; expected 'exact' or 'fast'")
    if type(max_new_tokens) is not int or max_new_tokens < 1:
        raise InputError(f"max_new_tokens is {max_new_tokens!r}; expected a whole number from 1")
    if type(max_backtracks) is not int or max_backtracks < 0:
        raise InputError(f"max_backtracks is {max_backtracks!r}; expected a whole number from 0")


class _GaveUp(Exception):  # noqa: N818 - it is no error
    """No allowed call was found within the budget; the text says why."""


class _Writing:
    """The writing of one turn.

    Args:
        engine: runs the model.
        sampler: chooses tokens.
        turn: what has been written.
        judge: judges its calls.
        vocabulary: of the tokenizer.
        ends: the tokens that end a turn.
        prompt: what comes before it.
        is_exact: whether a denied call is begun anew.
        longest: how many tokens the turn may have.
        total: how many may be written.
        backtracks: how often something may be taken back.
    """

    def __init__(
        self,
        engine: Engine,
        sampler: Sampler,
        turn: Turn,
        judge: Judge,
        *,
        vocabulary: Vocabulary,
        ends: frozenset[int],
        prompt: Sequence[int],
        is_exact: bool,
        longest: int,
        total: int,
        backtracks: int,
    ) -> None:
        self._engine, self._sampler, self._turn, self._judge = engine, sampler, turn, judge
        self._vocabulary, self._ends, self._is_exact = vocabulary, ends, is_exact
        self._longest, self._total, self._most = longest, total, backtracks
        self._prompt = list(prompt)
        self._written = self._backtracks = self._discarded = 0
        self._forbidden: Forbidden | None = None  # behind the beginning of the call that was denied last
        self._misfits: dict[int, set[int]] = {}  # by their place
        engine.start(self._prompt)

    def written(self, ending: Ending) -> Guarded:
        ended: Ended
        try:
            ended, why = self._write()
            self._drop_open_call()
        except _GaveUp as given_up:
            return self._gave_up(str(given_up), ending)
        calls = self._judge.place()
        if calls is None:
            return self._gave_up(_OVERTAKEN, ending)
        return self._result(self._turn.free_text(), calls, ended, why)

    def _gave_up(self, why: str, ending: Ending) -> Guarded:
        self._drop_open_call()
        verdict = self._judge.denied
        if verdict is not None and verdict.reasons:
            why += f"; of the last call: {'; '.join(verdict.reasons)}"
        spoken = self._turn.free_text()
        gap = "\n\n" if spoken.strip() else ""
        told = said(ending, verdict)
        self._turn.forget_calls()
        return self._result(f"{spoken}{gap}{told}" if told else spoken, (), "gave up", why)

    def _drop_open_call(self) -> None:
        """What was not judged whole does not leave, not even as tokens."""
        if self._turn.is_calling:
            self._cut(self._turn.root)

    def _result(self, text: str, calls: tuple[ReleasedCall, ...], ended: Ended, why: str) -> Guarded:
        judge = self._judge
        return Guarded(
            text, calls, ended, why, judge.denied, freeze(dict(judge.rules)), judge.unchecked, tuple(self._turn.tokens),
            self._backtracks, self._discarded, judge.questions, judge.checks,
        )  # fmt: skip

    # --- writing

    def _write(self) -> tuple[Ended, str]:
        """Writes to the end.

        Raises:
            _GaveUp: a budget is used up, or there is no way on.
        """
        while len(self._turn.tokens) < self._longest:
            if self._written >= self._total:
                raise _GaveUp(f"{self._total} tokens were written, with those that were taken back: no more may be")
            token = self._choose()
            if token is None:
                self._stuck()
            elif token in self._ends:
                return "end", "the model ended its turn"
            else:
                self._add(token)
        return "length", f"the turn has {self._longest} tokens"

    def _choose(self) -> int | None:
        turn = self._turn
        barred = self._barred()
        bits = turn.allowed()
        logits = self._engine.logits()
        if bits is None and not barred:
            return self._sampler.choose(self._tokens, logits, None)
        return self._sampler.choose(self._tokens, logits, _allowed(bits, barred, len(logits)))

    @property
    def _tokens(self) -> Sequence[int]:
        return [*self._prompt, *self._turn.tokens] if self._sampler.looks_back else ()

    def _barred(self) -> set[int]:
        """The tokens that are forbidden here."""
        misfits = self._misfits.get(len(self._turn.tokens), set()) if self._misfits else set()
        return misfits | self._forbidden.here if self._forbidden is not None else misfits

    def _add(self, token: int) -> None:
        self._written += 1
        found: Sequence[Written] | None
        try:
            found = self._turn.push(token)
        except Misfit:
            self._misfits.setdefault(len(self._turn.tokens), set()).add(token)
            return
        except Unreadable as problem:
            self._judge.deny(unchecked_verdict(str(problem), checked_by="policy"))
            found = None
        self._engine.step(token)
        if self._forbidden is not None:
            self._forbidden.push(token)
        if found is None:
            self._back(len(self._turn.tokens) - 1)
        elif found:
            self._look_at(found)

    def _look_at(self, found: Sequence[Written]) -> None:
        """Asks of what is complete by the last token; all of it stands, or the token does not."""
        mark, root = self._judge.mark(), self._turn.root
        for at, written in enumerate(found):
            if not self._stands(written, found[at + 1 :]):
                self._judge.rollback(mark)
                self._turn.root = root
                self._back(self._turn.token_at(written.start))
                return
        if found[-1].is_whole or self._turn.root != root:
            self._forbidden = None

    def _stands(self, written: Written, later: Sequence[Written]) -> bool:
        """A call that is whole by the same token is judged whole; nobody asks first whether it could comply."""
        if not written.is_whole:
            return any(one.is_whole for one in later) or self._judge.can_comply(written.tool, written.args)
        verdict = self._judge.judge(written.tool, written.args)
        if verdict is not None and verdict.label:
            self._judge.deny(verdict)
            return False
        self._judge.accept(written.tool, written.args)
        self._turn.accept()
        return True

    # --- going back

    def _back(self, begins: int) -> None:
        """Takes back what led to a denial.

        Args:
            begins: the token in which what was denied begins.

        Raises:
            _GaveUp: that was done often enough, or would lead here again.
        """
        if self._backtracks >= self._most:
            raise _GaveUp(f"no call that is allowed was found in {self._most + 1} attempts")
        if self._is_exact and not self._sampler.do_sample:
            raise _GaveUp("the likeliest call is denied, and would only come again without sampling; try mode='fast'")
        self._backtracks += 1
        if self._is_exact:
            self._cut(self._turn.root)
            return
        forbidden = self._forbidding()
        self._cut(forbidden.deny(self._turn.tokens, begins))

    def _stuck(self) -> None:
        """No token is left here: the one before is forbidden, too.

        Raises:
            _GaveUp: there is none before.
        """
        if len(self._turn.tokens) <= self._turn.root:
            raise _GaveUp("every way to go on is forbidden")
        self._cut(self._forbidding().forbid(self._turn.tokens))

    def _forbidding(self) -> Forbidden:
        """What is forbidden behind the root of the call that is being written."""
        if self._forbidden is None or self._forbidden.root != self._turn.root:
            self._forbidden = Forbidden(self._turn.root)
            for token in self._turn.tokens[self._turn.root :]:
                self._forbidden.push(token)
        return self._forbidden

    def _cut(self, length: int) -> None:
        self._discarded += len(self._turn.tokens) - length
        self._turn.cut(length)
        self._engine.cut(len(self._prompt) + length)
        self._misfits = {place: tokens for place, tokens in self._misfits.items() if place <= length}
        if self._forbidden is not None:
            self._forbidden.cut(length)


def _allowed(bits: bytes | None, barred: Collection[int], size: int) -> Any:
    """Whether each token may come, of what the grammar says and what is barred."""
    import torch

    if bits is None:
        allowed = np.ones(size, dtype=bool)
    else:
        allowed = np.unpackbits(np.frombuffer(bits, np.uint8), count=size, bitorder="little").view(bool)
    if barred:
        allowed[list(barred)] = False
    return torch.from_numpy(allowed)
