"""A request for one turn of a model, with its options."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from guardagent.errors import InputError
from guardagent.generation.local.decoder import Decoder
from guardagent.generation.local.ending import Ending, check_ending
from guardagent.generation.local.engine import ModelEngine
from guardagent.generation.local.prompt import end_tokens, prompt_end, prompt_tokens
from guardagent.generation.local.requests import vocabulary_of
from guardagent.generation.local.sampling import Sampler
from guardagent.generation.local.tool_schemas import read_tools
from guardagent.generation.local.turn import ToolChoice, TurnBuffer
from guardagent.generation.local.turn_check import ReserveCalls, TurnChecker
from guardagent.session.session import Session

Mode = Literal["exact", "fast"]
MAX_BACKTRACKS = 100


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
        temperature: likewise.
        top_k: likewise.
        top_p: likewise.
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
        return Decoder(
            engine,
            self._sampler(engine.defaults),
            TurnBuffer(
                vocabulary,
                format_used,
                list(schemas.values()),
                self.tool_choice if schemas else "none",
                prompt_end(tokenizer, prompt),
            ),
            TurnChecker(
                self.session, schemas, is_parallel=is_parallel, facts=self.facts, agent=self.agent, reserve=self.reserve
            ),
            ends=frozenset(ends),
            prompt=prompt,
            is_exact=self.mode == "exact",
            max_tokens=self.max_new_tokens,
            max_written=8 * self.max_new_tokens if self.max_total_tokens is None else self.max_total_tokens,
            max_backtracks=self.max_backtracks,
            ending=self.ending,
        )

    def _sampler(self, defaults: Any) -> Sampler:
        return Sampler(
            defaults, do_sample=self.do_sample, temperature=self.temperature, top_k=self.top_k, top_p=self.top_p,
            generator=self.generator, seed=self.seed, processors=self.logits_processor,
        )  # fmt: skip


def _check_count(name: str, value: object, least: int) -> None:
    if type(value) is not int or value < least:
        raise InputError(f"{name!r} is {value!r}; expected an integer of at least {least}")
