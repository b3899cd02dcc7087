"""Any OpenAI-compatible endpoint, through the `openai` client."""

from __future__ import annotations

import asyncio
import math
import os
import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from guardagent.models import Completion, Message
from guardagent.models.backends._deltas import Deltas
from guardagent.models.backends._endpoint import MAX_ANSWER, Endpoint
from guardagent.models.backends._event_loop import submit, wait
from guardagent.models.backends._prices import checked_prices, cost_of
from guardagent.models.chat import ChatAnswer, checked_candidate, written_calls
from guardagent.models.secrets import hide_secrets_in_logs, register_secret
from guardagent.types import Usage

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from openai.types.chat import ChatCompletion

Clients = dict[tuple[asyncio.AbstractEventLoop, str, str], "AsyncOpenAI"]  # by event loop, URL and key

_DEFAULT_URL = "https://api.openai.com/v1"
_DROPPABLE_OPTIONS = ("temperature", "n", "stream_options")  # options that some endpoints reject


class Backend:
    """A model behind the chat completions API.

    Args:
        model: its name at the endpoint.
        base_url: the endpoint; default: `OPENAI_BASE_URL`, else OpenAI's own.
        api_key_env: the environment variable with the key, which is read for each request and never stored.
            An endpoint other than OpenAI's may need none.
        timeout: seconds for one answer, including waits and retries.
        retries: the number of retries after a transient failure; Retry-After is honoured.
        max_connections: the number of concurrent requests.
        max_tokens: the longest answer.
        prices: US dollars per million prompt tokens and per million completion tokens.

    Raises:
        InputError: an option is wrong.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key_env: str = "OPENAI_API_KEY",
        timeout: float = 120.0,
        retries: int = 3,
        max_connections: int = 16,
        max_tokens: int = 8192,
        prices: tuple[float, float] | None = None,
    ) -> None:
        self.name = f"openai/{model}"
        self.prices = checked_prices(prices)
        self.max_tokens = max_tokens
        self._model = model
        self._base_url = base_url
        self._api_key_env = api_key_env
        register_secret(api_key_env)
        self._endpoint = Endpoint(self.name, timeout=timeout, retries=retries, max_connections=max_connections)
        self._clients: Clients = {}
        weakref.finalize(self, _disconnect_later, self._clients)
        # Some models reject some options, which are remembered.
        self._limit_option = "max_tokens"
        self._refused: set[str] = set()

    def __repr__(self) -> str:
        return f"<model {self.name}>"

    @property
    def identity(self) -> tuple[str, str]:
        """The values that distinguish this model's answers in a cache."""
        return self.name, self._url()

    def complete(self, messages: Sequence[Message], *, temperature: float = 0.0) -> Completion:
        """Answers as a `Model`."""
        return wait(self._ask(messages, temperature))

    async def acomplete(self, messages: Sequence[Message], *, temperature: float = 0.0) -> Completion:
        """Answers like `complete`, for an event loop."""
        return await asyncio.wrap_future(submit(self._ask(messages, temperature)))

    def chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]],
        *,
        candidates: int = 1,
        stream: bool = False,
        temperature: float = 0.0,
    ) -> ChatAnswer:
        """Answers as a `ChatModel`."""
        return wait(self._chat(_chat_request(messages, tools, candidates, stream=stream), temperature))

    async def achat(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]],
        *,
        candidates: int = 1,
        stream: bool = False,
        temperature: float = 0.0,
    ) -> ChatAnswer:
        """Answers like `chat`, for an event loop."""
        request = self._chat(_chat_request(messages, tools, candidates, stream=stream), temperature)
        return await asyncio.wrap_future(submit(request))

    def close(self) -> None:
        """Closes the connections; the model can be used again afterwards."""
        if self._clients:
            wait(_disconnect(self._clients))

    async def _ask(self, messages: Sequence[Message], temperature: float) -> Completion:
        return await self._endpoint.request(lambda: self._send(messages, temperature))

    async def _send(self, messages: Sequence[Message], temperature: float) -> Completion:
        payload = [{"role": message.role, "content": message.content} for message in messages]
        return self._completion(await self._create({"messages": payload}, temperature))

    async def _chat(self, payload: dict[str, Any], temperature: float) -> ChatAnswer:
        return await self._endpoint.request(lambda: self._send_chat(payload, temperature))

    async def _send_chat(self, payload: dict[str, Any], temperature: float) -> ChatAnswer:
        answer = await self._create(payload, temperature)
        if "stream" in payload:
            return await self._assembled(answer, payload.get("n", 1))
        found = [
            checked_candidate(
                getattr(one.message, "content", None) or getattr(one.message, "refusal", None),
                written_calls(one.message),
                getattr(one, "finish_reason", None),
                MAX_ANSWER,
            )
            for one in self._choices(answer)
        ]
        return ChatAnswer(tuple(found), self._usage(answer))

    async def _assembled(self, chunks: Any, candidates: int) -> ChatAnswer:
        """Returns the answers of a stream once it has ended."""
        import openai

        deltas, usage = Deltas(), self._usage(None)
        async for chunk in chunks:
            deltas.add(chunk)
            usage = self._usage(chunk) if getattr(chunk, "usage", None) else usage
            if deltas.size > MAX_ANSWER * candidates:
                await chunks.close()
                raise self._endpoint.error(f"sends more than {MAX_ANSWER:,} characters")
        if not deltas.ended:
            request = chunks.response.request
            raise openai.APIConnectionError(message="the stream broke off", request=request)
        return ChatAnswer(deltas.assemble(MAX_ANSWER), usage)

    async def _create(self, payload: Mapping[str, Any], temperature: float) -> Any:
        import openai

        client = self._client()
        hide_secrets_in_logs()
        while True:
            request = self._request(payload, temperature)
            try:
                return await client.chat.completions.create(**request)
            except openai.BadRequestError as error:
                self._adapt(str(error.param or ""), str(error))
                if self._request(payload, temperature) == request:
                    raise

    def _request(self, payload: Mapping[str, Any], temperature: float) -> dict[str, Any]:
        request = {"model": self._model, **payload, self._limit_option: self.max_tokens, "temperature": temperature}
        return {name: value for name, value in request.items() if name not in self._refused}

    def _adapt(self, option: str, message: str) -> None:
        """Notes an option that the endpoint rejects, so that this and later requests omit it."""
        if option == "max_tokens" or "'max_tokens'" in message:
            self._limit_option = "max_completion_tokens"
        self._refused |= {name for name in _DROPPABLE_OPTIONS if option == name or f"'{name}'" in message}

    def _choices(self, answer: ChatCompletion) -> list[Any]:
        choices: list[Any] = getattr(answer, "choices", None) or []
        if not choices or not all(getattr(choice, "message", None) for choice in choices):
            detail = getattr(answer, "error", None)  # some endpoints report it with status 200
            raise self._endpoint.error(
                "gave an answer that is not a chat completion; expected 'choices' with a 'message'"
                + (f": {detail}" if detail else "")
            )
        return choices

    def _completion(self, answer: ChatCompletion) -> Completion:
        choices = self._choices(answer)
        message = choices[0].message
        called_tool = not message.content and bool(message.tool_calls or message.function_call)
        return self._endpoint.completion(
            message.content, choices[0].finish_reason, self._usage(answer), called_tool=called_tool
        )

    def _usage(self, answer: Any) -> Usage:
        usage = getattr(answer, "usage", None)
        counts = [_count(getattr(usage, name, None)) for name in ("prompt_tokens", "completion_tokens")]
        reported_cost = getattr(usage, "cost", None)  # some endpoints report it
        if isinstance(reported_cost, int | float) and 0 <= reported_cost < math.inf:
            cost: float | None = float(reported_cost)
        else:
            cost = cost_of(self.prices, *counts)
        return Usage(prompt_tokens=counts[0], completion_tokens=counts[1], cost=cost)

    def _client(self) -> AsyncOpenAI:
        import openai

        url, key = self._url(), self._key()
        place = (asyncio.get_running_loop(), url, key)
        if place not in self._clients:
            # Requests go only to the endpoint that the operator configured.
            http = openai.DefaultAsyncHttpxClient(base_url=url, timeout=self._endpoint.timeout, follow_redirects=False)
            self._clients[place] = openai.AsyncOpenAI(api_key=key, base_url=url, max_retries=0, http_client=http)
        return self._clients[place]

    def _url(self) -> str:
        url = self._base_url or os.environ.get("OPENAI_BASE_URL") or _DEFAULT_URL
        try:
            parts = urlsplit(url)
        except ValueError:
            parts = urlsplit("")
        if (
            parts.scheme not in ("http", "https")
            or not parts.hostname
            or parts.username
            or parts.password
            or parts.query
        ):
            raise self._endpoint.unsent(
                "has an invalid base URL; expected 'https://HOST/PATH', without user, key or query"
            )
        return url

    def _key(self) -> str:
        key = os.environ.get(self._api_key_env, "").strip()
        if not key and self._url() == _DEFAULT_URL:
            raise self._endpoint.unsent(f"needs a key; set the environment variable {self._api_key_env!r}")
        if not key.isascii() or not key.isprintable():
            raise self._endpoint.unsent(
                f"has a key that cannot be sent; expected printable ASCII in {self._api_key_env!r}"
            )
        return key or "none"


def _chat_request(
    messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]], candidates: int, *, stream: bool
) -> dict[str, Any]:
    """Returns the request without the options that every request has."""
    payload: dict[str, Any] = {"messages": list(messages)}
    if tools:
        payload["tools"] = list(tools)
    if candidates > 1:
        payload["n"] = candidates
    if stream:
        payload |= {"stream": True, "stream_options": {"include_usage": True}}
    return payload


async def _disconnect(clients: Clients) -> None:
    """Closes the connections of clients, except those inherited by a fork."""
    loop = asyncio.get_running_loop()
    own_clients = [client for place, client in clients.items() if place[0] is loop]
    clients.clear()
    for client in own_clients:
        await client.close()


def _disconnect_later(clients: Clients) -> None:
    """Closes the connections of a garbage-collected model, without waiting."""
    if clients:
        submit(_disconnect(clients))


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and value >= 0 else None
