# ruff: noqa: E402 - the extra is looked for first
"""Guarded decoding: a local model never emits a tool call that the rules forbid.

    turn = guarded_generate(model, tokenizer, messages, tools, session)

Or the guard is a logits processor for transformers' own `model.generate`:

    guarded = GuardedLogits(tokenizer, tools, session)
    output = model.generate(**inputs, logits_processor=[guarded])
    calls = guarded.release(output)

- `batch`: many turns at once; `transformers_batch`: its engine for transformers' models
- `decoder`: what is asked for, the choice of tokens, and backtracking; `huggingface`, `llama_cpp`: the engines
- `checks`: the checks against the session, and the generated turn; `tool_schemas`: the tools
- `turn`: the tokens of the turn; `formats`: the formats of tool calls; `vocabulary`: tokens as bytes, grammars, prompts
- `vllm`: the same in vLLM, which masks tokens
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib.util import find_spec
from typing import Any, Unpack

from guardagent._support.requirements import install_hint
from guardagent.errors import InputError

_MISSING = [name for name in ("torch", "transformers", "llguidance") if find_spec(name) is None]
if _MISSING:
    raise InputError(f"{', '.join(_MISSING)} missing; for guarded decoding {install_hint('generation')}")

from guardagent.generation.local.batch import BatchEngine, GuardedBatch, PendingTurn, guarded_generate_batch
from guardagent.generation.local.checks import GeneratedCall, GeneratedTurn, MaskedTurn, MaskOptions
from guardagent.generation.local.decoder import MAX_BACKTRACKS, Ending, Mode, ModelEngine, TurnRequest, engine_of
from guardagent.generation.local.formats import Format
from guardagent.generation.local.formats.models import format_names
from guardagent.generation.local.transformers_batch import TransformersBatch
from guardagent.generation.local.turn import ToolChoice
from guardagent.generation.local.vocabulary import prompt_end
from guardagent.session.session import Session

__all__ = [
    "BatchEngine",
    "Format",
    "GeneratedCall",
    "GeneratedTurn",
    "GuardedBatch",
    "GuardedLogits",
    "ModelEngine",
    "PendingTurn",
    "TransformersBatch",
    "TurnRequest",
    "format_names",
    "guarded_generate",
    "guarded_generate_batch",
]


def guarded_generate(  # noqa: D417 - TurnRequest describes them
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
    can, or if a complete call is denied, the decoder backtracks. `guarded_generate_batch` generates many turns at once.

    Args:
        model: a causal language model of transformers, or a `ModelEngine`.
        tokenizer: its fast tokenizer.
        messages: this and all further arguments are the attributes of a `TurnRequest`.

    Returns:
        The turn. Its calls are in flight.

    Raises:
        InputError: an option, a tool, the tokenizer or the model is invalid.
    """
    request = TurnRequest(
        messages, tools, session, mode=mode, max_new_tokens=max_new_tokens, max_total_tokens=max_total_tokens,
        max_backtracks=max_backtracks, ending=ending, tool_format=tool_format, tool_choice=tool_choice,
        parallel=parallel, facts=facts, agent=agent, do_sample=do_sample, temperature=temperature, top_k=top_k,
        top_p=top_p, seed=seed, generator=generator, logits_processor=logits_processor,
    )  # fmt: skip
    return request.decoder(engine_of(model), tokenizer, request.prompt(tokenizer)).run()


class GuardedLogits:
    """Masks tokens that would complete a denied call. For one turn of one sequence.

    Args:
        tokenizer: the model's fast tokenizer.
        tools: as for a chat template.
        session: judges the calls.
        options: see `MaskOptions`.
    """

    def __init__(self, tokenizer: Any, tools: Iterable[Any], session: Session, **options: Unpack[MaskOptions]) -> None:
        self._tokenizer = tokenizer
        self._new_turn = partial(MaskedTurn, tokenizer, list(tools), session, **options)
        self._turn = self._new_turn()
        self._seen: int | None = None  # the number of tokens read so far, prompt included
        self._is_released = False

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        import torch

        if self._is_released:
            raise InputError("this processor has already released its calls; expected a new processor for each turn")
        if len(input_ids) != 1:
            raise InputError(
                f"'generate' writes {len(input_ids)} sequences at once; expected one sequence, without beams"
            )
        self._read(input_ids)
        allowed = self._turn.allowed(scores[0])
        if allowed is None:
            return scores
        return scores.masked_fill(~torch.from_numpy(allowed).to(scores.device), -float("inf"))

    def release(self, sequence: Any) -> tuple[GeneratedCall, ...]:
        """Releases the calls of the turn. They are in flight in the session.

        Args:
            sequence: the result of `generate`.

        Raises:
            InputError: the processor was not used for the sequence, or has already released its calls.
            GuardError: a call is no longer allowed, because the session has changed meanwhile.
        """
        if self._seen is None or self._is_released:
            raise InputError("there is nothing to release; expected the result of 'generate' with this processor, once")
        self._read(getattr(sequence, "sequences", sequence))
        self._is_released = True
        return self._turn.reserve()

    def _read(self, sequences: Any) -> None:
        """Reads the new tokens."""
        if self._seen is None:
            self._seen = sequences.shape[1]
            self._turn = self._new_turn(prompt=prompt_end(self._tokenizer, sequences[0].tolist()))
        self._turn.read(sequences[0, self._seen :].tolist())
        self._seen = sequences.shape[1]
