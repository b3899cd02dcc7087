"""Sampling of the next token as in transformers' `generate`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from guardagent.errors import InputError

Processor = Callable[[Any, Any], Any]


class Sampler:
    """Chooses the same tokens as `model.generate` with the same seed.

    Every choice takes one draw from the generator, also if tokens are forbidden.

    Args:
        defaults: a generation configuration for options that are None.
        do_sample: whether to sample; otherwise the likeliest token is chosen.
        temperature, top_k, top_p: as in transformers.
        generator: a `torch.Generator`.
        seed: the seed of a new generator; without both, torch's default generator is used.
        processors: further processors of transformers, applied before anything is forbidden.
    """

    def __init__(
        self,
        defaults: Any,
        *,
        do_sample: bool | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        generator: Any = None,
        seed: int | None = None,
        processors: Iterable[Processor] = (),
    ) -> None:
        self.do_sample = bool(_value_or(do_sample, getattr(defaults, "do_sample", None)))
        self._generator, self._seed = generator, seed
        self._processors = [*_penalties(defaults), *processors]
        options = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
        settings = {name: _value_or(value, getattr(defaults, name, None)) for name, value in options.items()}
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

    found: list[Processor] = []
    try:
        found += [TemperatureLogitsWarper(float(temperature))] if temperature not in (None, 1.0) else []
        found += [TopKLogitsWarper(top_k)] if top_k else []
        found += [TopPLogitsWarper(top_p)] if top_p is not None and top_p < 1 else []
    except (TypeError, ValueError) as error:
        raise InputError(f"the sampling options are invalid: {error}") from None
    return found
