"""The request for a turn, the engine that runs its model, and the decoder between them.

The decoder chooses tokens, checks the calls that they complete, and backtracks from denied ones. Each engine has a file
of its own, with a function `engine(model)`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from guardagent.errors import InputError
from guardagent.generation.local import huggingface, llama_cpp
from guardagent.generation.local.checks import Ended, GeneratedCall, GeneratedTurn, ReserveCalls, TurnChecker
from guardagent.generation.local.tool_schemas import read_tools
from guardagent.generation.local.turn import InvalidToken, MalformedCall, PartialCall, ToolChoice, TurnBuffer
from guardagent.generation.local.vocabulary import end_tokens, prompt_end, prompt_tokens, vocabulary_of
from guardagent.session.session import Session
from guardagent.types import Decision, Verdict, freeze, unchecked_verdict

Mode = Literal["exact", "fast"]
Ending = Literal["silence", "refusal", "question"] | Callable[[Verdict | None], str]
Processor = Callable[[Any, Any], Any]
MAX_BACKTRACKS = 100
PATIENCE = 8
"""The number of denied values with the same prefix after which that prefix is forbidden."""
_ENDINGS = ("silence", "refusal", "question")
_ENGINES = (huggingface.engine, llama_cpp.engine)  # each returns its engine of a model; None for any other object
_NO_LONGER_ALLOWED = "a call is no longer allowed, because the session has changed meanwhile"


@runtime_checkable
class ModelEngine(Protocol):
    """Runs a model on one sequence of tokens, and holds the model's computation on it.

    Attributes:
        defaults: a generation configuration of transformers, or anything with some of its attributes.
    """

    defaults: Any

    def start(self, prompt: Sequence[int]) -> None:
        """Begins a sequence with the tokens of a prompt."""
        ...

    def logits(self) -> Any:
        """The tensor of logits of the next token."""
        ...

    def step(self, token: int) -> None:
        """Appends a token. It need not be computed before `logits` is called."""
        ...

    def cut(self, length: int) -> None:
        """Truncates the sequence, prompt included, to a length; the computation on the kept tokens is reused."""
        ...


def engine_of(model: Any) -> ModelEngine:
    """The engine of a model; an engine is returned as it is.

    Raises:
        InputError: no engine supports the model.
    """
    if isinstance(model, ModelEngine):
        return model
    for engine_for in _ENGINES:
        engine: ModelEngine | None = engine_for(model)
        if engine is not None:
            return engine
    expected = "a model of transformers or llama.cpp, or a ModelEngine"
    raise InputError(f"'model' is a {type(model).__name__}; expected {expected}")


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """A turn to generate.

    Attributes:
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
        temperature: as in transformers; by default from the model's configuration.
        top_k: as in transformers; by default from the model's configuration.
        top_p: as in transformers; by default from the model's configuration.
        seed: the seed for sampling.
        generator: a `torch.Generator` instead of a seed.
        logits_processor: further logits processors of transformers.
        reserve: reserves the calls of the turn elsewhere than in the session; they have no permits then.

    Raises:
        InputError: an option is invalid.
    """

    messages: Any
    tools: Iterable[Any]
    session: Session | None
    mode: Mode = "exact"
    max_new_tokens: int = 512
    max_total_tokens: int | None = None
    max_backtracks: int = MAX_BACKTRACKS
    ending: Ending = "refusal"
    tool_format: str = "auto"
    tool_choice: ToolChoice = "auto"
    parallel: bool | None = None
    facts: Mapping[str, Any] | None = None
    agent: str | None = None
    do_sample: bool | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    seed: int | None = None
    generator: Any = None
    logits_processor: Iterable[Callable[[Any, Any], Any]] = ()
    reserve: ReserveCalls | None = None

    def __post_init__(self) -> None:
        check_ending(self.ending)
        if self.mode not in ("exact", "fast"):
            raise InputError(f"'mode' is {self.mode!r}; expected 'exact' or 'fast'")
        _check_count("max_new_tokens", self.max_new_tokens, 1)
        _check_count("max_backtracks", self.max_backtracks, 0)
        if self.max_total_tokens is not None:
            _check_count("max_total_tokens", self.max_total_tokens, 1)

    def prompt(self, tokenizer: Any) -> list[int]:
        """The tokens of the prompt.

        Raises:
            InputError: it is not a prompt, or the tokenizer has no chat template.
        """
        return prompt_tokens(tokenizer, self.messages, self.tools)

    def decoder(self, engine: ModelEngine, tokenizer: Any, prompt: list[int]) -> Decoder:
        """A decoder of the turn.

        Args:
            engine: runs the model on this sequence.
            tokenizer: the model's fast tokenizer.
            prompt: the tokens of the prompt.

        Raises:
            InputError: a tool, the tokenizer or an option is invalid.
        """
        check = getattr(engine, "check_tokenizer", None)  # of an engine whose model brings a vocabulary
        if check is not None:
            check(tokenizer)
        schemas, ends = read_tools(self.tools), end_tokens(tokenizer, engine.defaults)
        vocabulary = vocabulary_of(tokenizer, ends)
        format_used = vocabulary.format(self.tool_format)
        is_parallel = format_used.is_parallel if self.parallel is None else self.parallel
        choice: ToolChoice = self.tool_choice if schemas else "none"
        turn = TurnBuffer(vocabulary, format_used, list(schemas.values()), choice, prompt_end(tokenizer, prompt))
        checker = TurnChecker(
            self.session, schemas, is_parallel=is_parallel, facts=self.facts, agent=self.agent, reserve=self.reserve
        )
        return Decoder(self, engine, turn, checker, frozenset(ends), prompt)


def _check_count(name: str, value: object, least: int) -> None:
    if type(value) is not int or value < least:
        raise InputError(f"{name!r} is {value!r}; expected an integer of at least {least}")


class _NoAllowedCall(Exception):  # noqa: N818 - used for control flow
    """No allowed call was found within the budget; the message has the reason."""


class Decoder:
    """Generates one turn, a token at a time.

    Args:
        request: its options.
        engine: runs the model; the prompt is its sequence.
        turn: the tokens so far.
        checker: checks the calls.
        ends: the tokens that end a turn.
        prompt: the tokens of the prompt.

    Attributes:
        result: the turn; None until it has ended. Its calls are in flight from then on, and none before.
    """

    def __init__(
        self,
        request: TurnRequest,
        engine: ModelEngine,
        turn: TurnBuffer,
        checker: TurnChecker,
        ends: frozenset[int],
        prompt: Sequence[int],
    ) -> None:
        self._request, self._engine, self._turn, self._checker, self._ends = request, engine, turn, checker, ends
        self._sampler = Sampler(engine.defaults, request)
        self._is_exact = request.mode == "exact"
        total = request.max_total_tokens
        self._max_written = 8 * request.max_new_tokens if total is None else total
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
        closing = ending_text(self._request.ending, verdict)
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
        if len(self._turn.tokens) >= self._request.max_new_tokens:
            return "length", f"the turn has reached the limit of {self._request.max_new_tokens} tokens"
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
        partial_calls: Sequence[PartialCall] | None
        try:
            partial_calls = self._turn.push(token)
        except InvalidToken:
            self._invalid.setdefault(len(self._turn.tokens), set()).add(token)
            return
        except MalformedCall as problem:
            self._checker.deny(unchecked_verdict(str(problem), checked_by="policy"))
            partial_calls = None
        self._engine.step(token)
        if self._trie is not None:
            self._trie.push(token)
        if partial_calls is None:
            self._backtrack(len(self._turn.tokens) - 1)
        elif partial_calls:
            self._check_completed(partial_calls)

    def _check_completed(self, partial_calls: Sequence[PartialCall]) -> None:
        """Checks what the last token completes; if any of it fails, backtracks."""
        mark, root = self._checker.mark(), self._turn.root
        for at, written in enumerate(partial_calls):
            if not self._complies(written, partial_calls[at + 1 :]):
                self._checker.rollback(mark)
                self._turn.root = root
                self._backtrack(self._turn.token_at(written.start))
                return
        if partial_calls[-1].is_complete or self._turn.root != root:
            self._trie = None

    def _complies(self, written: PartialCall, later: Sequence[PartialCall]) -> bool:
        """Judges a complete call; queries whether a partial one can comply, unless the same token completes it."""
        if not written.is_complete:
            return any(call.is_complete for call in later) or self._checker.can_comply(written.tool, written.args)
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
        if self._backtracks >= self._request.max_backtracks:
            raise _NoAllowedCall(f"no allowed call was found in {self._request.max_backtracks + 1} attempts")
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


# --- sampling, as in transformers' `generate`


class Sampler:
    """Chooses the same tokens as `model.generate` with the same seed.

    Every choice takes one draw from the generator, also if tokens are forbidden.

    Args:
        defaults: a generation configuration for options that are None.
        request: the options, as in transformers; its processors are applied before anything is forbidden. Without a
            generator and a seed, torch's default generator is used.
    """

    def __init__(self, defaults: Any, request: TurnRequest) -> None:
        self.do_sample = bool(_value_or(request.do_sample, getattr(defaults, "do_sample", None)))
        self._generator, self._seed = request.generator, request.seed
        self._processors = [*_penalties(defaults), *request.logits_processor]
        names = ("temperature", "top_k", "top_p")
        settings = {name: _value_or(getattr(request, name), getattr(defaults, name, None)) for name in names}
        self._warpers = _warpers(**settings) if self.do_sample else []

    @property
    def looks_back(self) -> bool:
        """Whether the choice depends on earlier tokens."""
        return bool(self._processors)

    def choose(self, tokens: Sequence[int], logits: Any, allowed: Any) -> int | None:
        """Chooses the next token; None if none is allowed.

        Args:
            tokens: the tokens so far, prompt included.
            logits: the logits of the next token.
            allowed: a mask of allowed tokens; None if all are allowed.
        """
        import torch

        scores = logits[None].to(torch.float32)
        if self._processors:
            before = torch.tensor([tokens], device=logits.device)
            for processor in self._processors:
                scores = processor(before, scores)
        if allowed is not None:
            scores = scores.masked_fill(~allowed.to(scores.device), -math.inf)
            if float(scores.max()) == -math.inf:
                return None
        return self._draw(scores)

    def _draw(self, scores: Any) -> int:
        import torch

        if not self.do_sample:
            return int(torch.argmax(scores, dim=-1))
        for warper in self._warpers:
            scores = warper(None, scores)
        probabilities = torch.nn.functional.softmax(scores, dim=-1)
        return int(torch.multinomial(probabilities, 1, generator=self._generator_on(scores.device)))

    def _generator_on(self, device: Any) -> Any:
        import torch

        if self._generator is None and self._seed is not None:
            self._generator = torch.Generator(device=device).manual_seed(self._seed)
        return self._generator


def _value_or(value: Any, default: Any) -> Any:
    return default if value is None else value


def _penalties(defaults: Any) -> list[Processor]:
    from transformers import RepetitionPenaltyLogitsProcessor

    penalty = getattr(defaults, "repetition_penalty", None)
    return [] if penalty in (None, 1.0) else [RepetitionPenaltyLogitsProcessor(penalty)]


def _warpers(temperature: float | None, top_k: int | None, top_p: float | None) -> list[Processor]:
    from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

    processors: list[Processor] = []
    try:
        processors += [TemperatureLogitsWarper(float(temperature))] if temperature not in (None, 1.0) else []
        processors += [TopKLogitsWarper(top_k)] if top_k else []
        processors += [TopPLogitsWarper(top_p)] if top_p is not None and top_p < 1 else []
    except (TypeError, ValueError) as error:
        raise InputError(f"the sampling options are invalid: {error}") from None
    return processors


# --- token sequences that the decoder must not try again


@dataclass(slots=True)
class _TrieNode:
    forbidden: set[int] = field(default_factory=set)
    children: dict[int, _TrieNode] = field(default_factory=dict)
    denials: int = 0
    is_denied: bool = False  # a value that ends here was denied


class ForbiddenTrie:
    """The forbidden continuations after one position of a turn.

    Args:
        root: the position.
    """

    def __init__(self, root: int) -> None:
        self.root = root
        self._tree = _TrieNode()
        self._path: list[_TrieNode | None] = [
            self._tree
        ]  # the node of each position from the root on; None if outside the trie

    def push(self, token: int) -> None:
        node = self._path[-1]
        self._path.append(node.children.get(token) if node is not None else None)

    def cut(self, length: int) -> None:
        del self._path[max(length - self.root, 0) + 1 :]

    @property
    def here(self) -> set[int]:
        """The tokens that may not come next."""
        node = self._path[-1]
        return node.forbidden if node is not None else set()

    def forbid(self, tokens: list[int]) -> int:
        """Forbids the last token of a turn at its position.

        Returns:
            The number of tokens to keep.
        """
        self._node(tokens, len(tokens) - 1).forbidden.add(tokens[-1])
        return len(tokens) - 1

    def deny(self, tokens: list[int], begins: int) -> int:
        """Forbids the last token after a denial, or a longer suffix of the denied value.

        If the value extends a denied value (9000 after 900), that value's last token is forbidden too. If many denied
        values share a prefix, the prefix is forbidden.

        Args:
            tokens: the turn.
            begins: the token in which the value begins.

        Returns:
            The number of tokens to keep.
        """
        kept = self.forbid(tokens)
        for place in range(max(begins, self.root), len(tokens) - 1):
            node = self._node(tokens, place + 1)
            node.denials += 1
            if node.is_denied or node.denials >= PATIENCE:
                return self.forbid(tokens[: place + 1])
        if len(tokens) - 1 > max(begins, self.root):
            self._node(tokens, len(tokens) - 1).is_denied = True
        return kept

    def _node(self, tokens: list[int], place: int) -> _TrieNode:
        """The node of a position; created if missing."""
        node = self._tree
        for at in range(self.root, place):
            node = node.children.setdefault(tokens[at], _TrieNode())
            self._path[at - self.root + 1] = node
        return node


# --- the final text for the user if no allowed call was found


def check_ending(ending: object) -> None:
    """Checks that a value is a valid ending.

    Raises:
        InputError: it is not.
    """
    if not callable(ending) and ending not in _ENDINGS:
        raise InputError(f"'ending' is {ending!r}; expected one of {', '.join(map(repr, _ENDINGS))}, or a function")


def ending_text(ending: Ending, verdict: Verdict | None) -> str:
    """The text of an ending, with the rules' messages on the last denied call.

    Args:
        ending: the kind of ending, or a function of the verdict.
        verdict: the verdict on the last complete call that was denied, if there was one.
    """
    if callable(ending):
        return ending(verdict)
    if ending == "silence":
        return ""
    reason = _reason(verdict)
    if ending == "refusal":
        return " ".join(["I cannot do this.", *reason])
    needs_approval = verdict is not None and verdict.decision is Decision.ESCALATE
    return " ".join(
        ["I cannot do this as it is.", *reason, "May it be done?" if needs_approval else "What shall I do?"]
    )


def _reason(verdict: Verdict | None) -> list[str]:
    """The rules' messages. The evidence is left out: it may hold data that the user must not see."""
    if verdict is None:
        return []
    messages = [violation.message for violation in verdict.violations] or ["It could not be checked."]
    return [*dict.fromkeys(messages)]
