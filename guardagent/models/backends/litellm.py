"""Models of many providers, through LiteLLM: `provider/model`, with the provider's key from the environment."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from guardagent._support.requirements import install_hint
from guardagent.errors import InputError
from guardagent.models import Completion, Message
from guardagent.models.backends import checked_prices, cost_of
from guardagent.models.backends.openai import Endpoint, EndpointModel
from guardagent.models.redaction import hide_secrets_in_logs
from guardagent.types import Usage


class Backend(EndpointModel):
    """A model of a provider that LiteLLM supports.

    Args:
        model: `provider/model`.
        timeout, retries, max_connections, max_tokens: as for the OpenAI-compatible backend.
        prices: US dollars per million prompt tokens and per million completion tokens; default: LiteLLM's own.

    Raises:
        InputError: LiteLLM is not installed, or an option is wrong.
    """

    def __init__(
        self,
        model: str,
        *,
        timeout: float = 120.0,
        retries: int = 3,
        max_connections: int = 16,
        max_tokens: int = 8192,
        prices: tuple[float, float] | None = None,
    ) -> None:
        self._litellm = _library(model)
        self.name = f"litellm/{model}"
        self.identity = (self.name,)
        self.max_tokens = max_tokens
        self.prices = checked_prices(prices) or _known_prices(self._litellm, model)
        self._model = model
        self._endpoint = Endpoint(self.name, timeout=timeout, retries=retries, max_connections=max_connections)

    async def _send(self, messages: Sequence[Message], temperature: float) -> Completion:
        import openai

        hide_secrets_in_logs()
        try:
            answer = await self._litellm.acompletion(
                model=self._model,
                messages=[{"role": message.role, "content": message.content} for message in messages],
                temperature=temperature,
                max_tokens=self.max_tokens,
                timeout=self._endpoint.timeout,
                max_retries=0,
                drop_params=True,  # some models reject some options
            )
        except openai.AuthenticationError:
            if keys := _missing_keys(self._litellm, self._model):
                raise self._endpoint.unsent(f"needs a key; set the environment variable {keys}") from None
            raise
        choice = answer.choices[0]
        called_tool = not choice.message.content and bool(getattr(choice.message, "tool_calls", None))
        return self._endpoint.completion(
            choice.message, choice.finish_reason, self._usage(answer), called_tool=called_tool
        )

    def _usage(self, answer: Any) -> Usage:
        counts = [
            getattr(getattr(answer, "usage", None), name, None) for name in ("prompt_tokens", "completion_tokens")
        ]
        return Usage(prompt_tokens=counts[0], completion_tokens=counts[1], cost=cost_of(self.prices, *counts))


def _library(model: str) -> Any:
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else its import requests prices from a server
    try:
        import litellm
    except ImportError:
        raise InputError(
            f"model {model!r} needs LiteLLM; {install_hint('litellm')}, "
            f"or use 'openai/{model}' for a model of an OpenAI-compatible endpoint"
        ) from None
    litellm.suppress_debug_info = True  # it prints advertisements on errors
    litellm.telemetry = False
    return litellm


def _missing_keys(litellm: Any, model: str) -> str:
    """Returns the environment variables that the provider needs and that are missing."""
    try:
        return " and ".join(map(repr, litellm.validate_environment(model)["missing_keys"]))
    except Exception:  # noqa: BLE001 - as below
        return ""


def _known_prices(litellm: Any, model: str) -> tuple[float, float] | None:
    try:
        info = litellm.get_model_info(model)
        return checked_prices((info["input_cost_per_token"] * 1e6, info["output_cost_per_token"] * 1e6))
    except Exception:  # noqa: BLE001 - it raises a bare Exception for an unknown model
        return None
