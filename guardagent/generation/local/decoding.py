"""Generates one turn of a model without denied calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from guardagent.generation.local.ending import Ending
from guardagent.generation.local.engine import engine_of
from guardagent.generation.local.result import GeneratedTurn
from guardagent.generation.local.turn import ToolChoice
from guardagent.generation.local.turn_request import MAX_BACKTRACKS, Mode, TurnRequest
from guardagent.session.session import Session


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
