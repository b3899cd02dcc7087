"""Guarded decoding of many turns at once. Each has a session and a decoder of its own, and takes a slot until it ends.

turns = guarded_generate_batch(model, tokenizer, [TurnRequest(messages, tools, session), ...], slots=16)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from guardagent.errors import GuardError, InputError
from guardagent.generation.local.checks import GeneratedTurn
from guardagent.generation.local.decoder import Decoder, ModelEngine, TurnRequest
from guardagent.generation.local.transformers_batch import TransformersBatch


class CancelledTurnError(GuardError):
    """The turn was cancelled before its end; none of its calls was reserved."""


class PendingTurn:
    """A turn that is generated in a batch.

    Attributes:
        request: the request.
        prompt: the tokens of its prompt.
        error: why it failed; None if it did not.
        decoder: generates it; None while it waits for a slot.
    """

    def __init__(self, request: TurnRequest, prompt: list[int]) -> None:
        self.request, self.prompt = request, prompt
        self.error: Exception | None = None
        self.decoder: Decoder | None = None

    @property
    def is_done(self) -> bool:
        return self.error is not None or (self.decoder is not None and self.decoder.result is not None)

    @property
    def settled_text(self) -> str:
        """The text for the user, as far as it will not change any more."""
        return "" if self.decoder is None else self.decoder.settled_text

    def result(self) -> GeneratedTurn:
        """The turn, when it has ended.

        Raises:
            GuardError: it has not ended, or was cancelled; other errors that generating it raised.
        """
        if self.error is not None:
            raise self.error
        if self.decoder is None or self.decoder.result is None:
            raise GuardError("the turn has not ended; call 'step' of its batch until 'is_done'")
        return self.decoder.result

    def cancel(self) -> None:
        """Ends the turn at the next step, without calls; a turn that has ended stays as it is."""
        if not self.is_done:
            self.error = CancelledTurnError("the turn was cancelled")


@dataclass(slots=True)
class _Slot:
    """A turn with its sequence."""

    pending: PendingTurn
    sequence: BatchSequence

    def begin(self, tokenizer: Any) -> None:
        pending = self.pending
        pending.decoder = pending.request.decoder(self.sequence, tokenizer, pending.prompt)

    def advance(self) -> None:
        """Chooses tokens until the model is needed again, or the turn ends."""
        decoder = self.pending.decoder
        assert decoder is not None
        while self.sequence.is_computed and not self.pending.is_done:
            decoder.advance()


class GuardedBatch:
    """Generates turns in the order in which they were added, as many at once as the engine has slots.

    Not thread-safe: one thread adds turns and steps. What fails in one turn ends that turn alone.

    Args:
        model: a causal language model of transformers, or a `BatchEngine`.
        tokenizer: its fast tokenizer.
        slots: the most turns at once; of the engine, if there is one.

    Attributes:
        tokenizer: the same.
        max_length: the most tokens of a prompt with its turn.

    Raises:
        InputError: the model is not supported.
    """

    def __init__(self, model: Any, tokenizer: Any, slots: int | None = None) -> None:
        self._engine = _engine_of(model, slots)
        self.tokenizer, self.max_length = tokenizer, self._engine.max_length
        self._waiting: deque[PendingTurn] = deque()
        self._open: list[_Slot] = []

    @property
    def is_idle(self) -> bool:
        return not self._waiting and not self._open

    def add(self, request: TurnRequest) -> PendingTurn:
        """Adds a turn, which waits for a free slot.

        Raises:
            InputError: the prompt is invalid, or the turn would exceed the engine's `max_length`.
        """
        prompt, longest = request.prompt(self.tokenizer), self.max_length
        if len(prompt) + request.max_new_tokens > longest:
            raise InputError(
                f"the prompt has {len(prompt)} tokens and the turn at most {request.max_new_tokens}, more than the "
                f"{longest} of a sequence; expected a shorter prompt, fewer 'max_new_tokens' or a larger 'max_length'"
            )
        pending = PendingTurn(request, prompt)
        self._waiting.append(pending)
        return pending

    def step(self) -> list[PendingTurn]:
        """Runs the model once, and lets each turn choose its next token. Returns the turns that have ended."""
        ended = self._fill()
        needed = [slot.sequence for slot in self._open if not slot.pending.is_done]
        if needed:
            self._engine.compute(needed)
        for slot in self._open:
            _guarded(slot.pending, slot.advance)
        ended += [slot.pending for slot in self._open if slot.pending.is_done]
        for slot in [slot for slot in self._open if slot.pending.is_done]:
            self._close(slot)
        return ended

    def run(self, requests: Iterable[TurnRequest]) -> list[PendingTurn]:
        """Generates turns to their end; returns them in the order of the requests.

        Raises:
            InputError: a request is invalid; no turn has begun.
        """
        added = [self.add(request) for request in requests]
        while not all(turn.is_done for turn in added):
            self.step()
        return added

    # --- internals

    def _fill(self) -> list[PendingTurn]:
        """Gives free slots to turns that wait. Returns those that ended before they began."""
        ended = []
        while self._waiting and len(self._open) < self._engine.slots:
            pending = self._waiting.popleft()
            if not pending.is_done:
                slot = _Slot(pending, self._engine.open())
                self._open.append(slot)
                _guarded(pending, lambda slot=slot: slot.begin(self.tokenizer))
            else:
                ended.append(pending)
        return ended

    def _close(self, slot: _Slot) -> None:
        self._open.remove(slot)
        self._engine.close(slot.sequence)


def guarded_generate_batch(
    model: Any, tokenizer: Any, requests: Iterable[TurnRequest], *, slots: int = 16
) -> list[GeneratedTurn]:
    """Generates many turns, as `guarded_generate` would each of them.

    Args:
        model: a causal language model of transformers, or a `BatchEngine`.
        tokenizer: its fast tokenizer.
        requests: the turns; more than `slots` wait for their turn.
        slots: the most turns at once.

    Returns:
        The turns, in the order of the requests. Their calls are in flight.

    Raises:
        InputError: a request or the model is invalid.
        ExceptionGroup: turns have failed. The other ones ended, and their calls are withdrawn.
    """
    batch = GuardedBatch(model, tokenizer, slots)
    turns = batch.run(requests)
    failed = [turn.error for turn in turns if turn.error is not None]
    if failed:
        for batch_turn in turns:
            _withdraw(batch_turn)
        raise ExceptionGroup(f"{len(failed)} of {len(turns)} turns failed", failed)
    return [turn.result() for turn in turns]


def _guarded(pending: PendingTurn, work: Any) -> None:
    """Does work for a turn; whatever it raises ends that turn alone."""
    if pending.is_done:
        return
    try:
        work()
    except Exception as error:  # noqa: BLE001 - such as that of a caller's logits processor
        pending.error = error


def _withdraw(pending: PendingTurn) -> None:
    """Withdraws the calls of a turn that is not returned."""
    session = pending.request.session
    if pending.error is None and session is not None:
        for call in pending.result().calls:
            if call.permit is not None:
                session.withdraw(call.permit, "another turn of the batch has failed")


def _engine_of(model: Any, slots: int | None) -> BatchEngine:
    if hasattr(model, "open") and hasattr(model, "compute"):
        engine: BatchEngine = model
        return engine
    from transformers import PreTrainedModel

    if isinstance(model, PreTrainedModel):
        return TransformersBatch(model, 16 if slots is None else slots)
    raise InputError(f"'model' is a {type(model).__name__}; expected a model of transformers, or a BatchEngine")


class BatchSequence(ModelEngine, Protocol):
    """One sequence of a batch, which is written and cut like that of any engine."""

    @property
    def is_computed(self) -> bool:
        """Whether the logits of the next token are known."""
        ...


class BatchEngine(Protocol):
    """Runs a model on sequences that begin, end and are cut independently.

    Attributes:
        defaults: a generation configuration of transformers, or anything with some of its attributes.
        slots: the most sequences at once.
        max_length: the most tokens of a sequence, prompt included.
    """

    defaults: Any
    slots: int
    max_length: int

    def open(self) -> BatchSequence:
        """Takes a free slot for a new sequence, which `start` begins."""
        ...

    def close(self, sequence: Any) -> None:
        """Frees the slot of a sequence."""
        ...

    def compute(self, sequences: Sequence[Any]) -> None:
        """Computes the logits of these sequences, which are all that are open and not computed yet."""
        ...
