"""Any OpenAI-compatible endpoint, through the `openai` client; with the parts that other remote backends share.

- Streamed answers are assembled. Nothing is passed on before an answer is complete.
- `Endpoint` is the base of remote models: bounded connections, one deadline, retries, and errors without secrets.
- All model requests run in one event loop, in a daemon thread. The sync and async methods of a model share its client,
  its connections and their bound; and a caller that is cancelled or interrupted ends its request, whatever thread or
  event loop it waited in.
- The random marks of a prompt are found in its messages. A prompt declares each mark in a line
  `MARK is 3f9c2d10aa55e7b1.`, and then fences data between `<data NAME MARK>` and `</data MARK>`. Data that copies
  either line declares nothing, as it lies within a fence.
"""

from __future__ import annotations

import asyncio
import email.utils
import hashlib
import json
import math
import os
import random
import re
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import urlsplit

from guardagent._terminal import strip_control_characters
from guardagent.errors import AnswerError, CutAnswerError, InputError, ModelError, UnsentError
from guardagent.models import Completion, Message, require_timeout
from guardagent.models.backends import checked_prices, cost_of
from guardagent.models.chat import ChatAnswer, ChatCandidate, WrittenCall, checked_candidate, written_calls
from guardagent.models.redaction import hide_secrets_in_logs, register_secret, scrub
from guardagent.types import Usage

if TYPE_CHECKING:
    import openai
    from openai import AsyncOpenAI
    from openai.types.chat import ChatCompletion

    from guardagent.models import Completion
    from guardagent.types import Usage


@dataclass
class _StreamedCall:
    id: str = ""
    problem: str = ""
    name: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)

    def add(self, delta: Any) -> int:
        call_id = getattr(delta, "id", None)
        if self.id and call_id and call_id != self.id:
            self.problem = "its fragments have the ids of two calls"
        self.id = self.id or (call_id if isinstance(call_id, str) else "")
        if getattr(delta, "type", "function") not in ("function", None):
            self.problem = "it is not a function call"
        return self.add_function(getattr(delta, "function", None))

    def add_function(self, function: Any) -> int:
        """Adds a fragment and returns its number of characters."""
        name, arguments = getattr(function, "name", None), getattr(function, "arguments", None)
        if not isinstance(name, str | None) or not isinstance(arguments, str | None):
            self.problem = "its name or its arguments are not strings"
            return 0
        self.name.append(name or "")
        self.arguments.append(arguments or "")
        return len(name or "") + len(arguments or "")

    def assemble(self) -> WrittenCall:
        return WrittenCall("".join(self.name), "".join(self.arguments), self.id, self.problem)


@dataclass
class _PartialChoice:
    strings: list[str] = field(default_factory=list)
    calls: dict[int, _StreamedCall] = field(default_factory=dict)
    legacy_call: _StreamedCall | None = None  # the format before `tool_calls`
    finish_reason: str | None = None

    def add(self, choice: Any) -> int:
        self.finish_reason = getattr(choice, "finish_reason", None) or self.finish_reason
        delta = getattr(choice, "delta", None)
        text = getattr(delta, "content", None) or getattr(delta, "refusal", None)
        self.strings += [text] if isinstance(text, str) else []
        size = len(self.strings[-1]) if isinstance(text, str) else 0
        for fragment in getattr(delta, "tool_calls", None) or ():
            size += self.calls.setdefault(_index(fragment), _StreamedCall()).add(fragment)
        if function := getattr(delta, "function_call", None):
            self.legacy_call = self.legacy_call or _StreamedCall()
            size += self.legacy_call.add_function(function)
        return size

    def assemble(self, longest: int) -> ChatCandidate:
        calls = [call.assemble() for _, call in sorted(self.calls.items())]
        calls += [self.legacy_call.assemble()] if self.legacy_call else []
        return checked_candidate("".join(self.strings), calls, self.finish_reason, longest)


class Deltas:
    """The answers so far.

    Attributes:
        size: the number of characters received.
    """

    def __init__(self) -> None:
        self.size = 0
        self._choices: dict[int, _PartialChoice] = {}

    def add(self, chunk: Any) -> None:
        """Adds one chunk of the stream."""
        for choice in getattr(chunk, "choices", None) or ():
            self.size += self._choices.setdefault(_index(choice), _PartialChoice()).add(choice)

    @property
    def ended(self) -> bool:
        """Whether every answer has a finish reason."""
        return bool(self._choices) and all(choice.finish_reason for choice in self._choices.values())

    def assemble(self, longest: int) -> tuple[ChatCandidate, ...]:
        return tuple(choice.assemble(longest) for _, choice in sorted(self._choices.items()))


def _index(part: Any) -> int:
    """Returns the index of the answer or call. Fragments of several without an index merge, and make no valid call."""
    index = getattr(part, "index", 0)
    return index if isinstance(index, int) else 0


T = TypeVar("T")

MAX_ANSWER = 200_000  # characters
_MAX_MESSAGE = 300
_FIRST_PAUSE = 0.5  # seconds; doubled each time
_LONGEST_PAUSE = 8.0
_TRANSIENT = (408, 409, 425, 429)
_HINTS = {
    401: "expected a valid key in the environment",
    403: "expected a key that may use this model",
    404: "expected a model of this endpoint, and a base URL with the path that its documentation gives, often '/v1'",
    429: "too many requests, or no credit left",
}


class Endpoint:
    """Sends requests to one remote model.

    Args:
        name: the model's name in errors.
        timeout: seconds for one answer, including waits and retries.
        retries: the number of retries after a transient failure.
        max_connections: the number of concurrent requests; further ones wait.
    """

    def __init__(self, name: str, *, timeout: float = 120.0, retries: int = 3, max_connections: int = 16) -> None:
        require_timeout(timeout)
        if retries < 0 or max_connections < 1:
            raise InputError(
                "'retries' or 'max_connections' is too small; expected at least 0 retries and at least 1 connection"
            )
        self.name = name
        self.timeout = timeout
        self._retries = retries
        self._max_connections = max_connections
        self._slots: tuple[asyncio.AbstractEventLoop, asyncio.Semaphore] | None = None

    async def request(self, send: Callable[[], Awaitable[T]]) -> T:
        """Returns the answer of `send`, retried while its failures are transient.

        Raises:
            ModelError: there was no answer; the message has no secret of the environment.
        """
        import openai  # noqa: F401 - the first import takes a second, which must not count as the endpoint's time

        slots, deadline = self._semaphore(), None
        try:
            async with slots:  # waiting for a slot does not count as the endpoint's time
                deadline = time.monotonic() + self.timeout
                async with asyncio.timeout(self.timeout):
                    return await self._send_with_retries(send, deadline)
        except TimeoutError:
            raise self.error(f"gave no answer within {self.timeout:g} seconds") from None

    def error(self, message: str) -> ModelError:
        """Returns an error of this model: one line, without secrets."""
        return ModelError(self._line(message))

    def unsent(self, message: str) -> UnsentError:
        """Returns the error for a request that cannot be sent."""
        return UnsentError(self._line(message))

    def _line(self, message: str) -> str:
        line = " ".join(scrub(strip_control_characters(message)).split())
        return f"model {self.name!r} {line if len(line) <= _MAX_MESSAGE else line[:_MAX_MESSAGE] + '…'}"

    def completion(self, message: Any, finish_reason: str | None, usage: Usage, *, called_tool: bool) -> Completion:
        """Returns the endpoint's answer, with secrets removed.

        Raises:
            AnswerError: it is no text, or is incomplete.
        """
        if finish_reason == "length" and not called_tool:
            cut = f"model {self.name!r} exceeded its token limit; the answer is cut off; allow more with '--max-tokens'"
            raise CutAnswerError(cut, usage)
        try:
            text = text_of(message)
        except AnswerError as error:
            raise AnswerError(f"model {self.name!r}: {error}", usage) from None
        problem = _problem(text, finish_reason, called_tool=called_tool)
        if problem:
            raise AnswerError(f"model {self.name!r} {problem}", usage)
        valid_text = str(text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # without lone surrogates
        return Completion(scrub(valid_text), usage)

    async def _send_with_retries(self, send: Callable[[], Awaitable[T]], deadline: float) -> T:
        import openai

        for attempt in range(self._retries + 1):
            try:
                return await send()
            except openai.APIError as error:
                pause = _pause(error, attempt)
                if pause is None or attempt == self._retries:
                    raise self.error(_error_message(error, attempt + 1)) from None
                if time.monotonic() + pause > deadline:
                    late = f"the next attempt would be in {round(pause, 1):g} seconds, after the timeout"
                    raise self.error(f"{_error_message(error, attempt + 1)}; {late}") from None
                await asyncio.sleep(pause)
            except ModelError:
                raise
            except Exception as error:  # noqa: BLE001 - a client library may raise anything on an unreadable answer
                raise self.error(f"gave an unreadable answer ({type(error).__name__}: {error})") from None
        raise AssertionError

    def _semaphore(self) -> asyncio.Semaphore:
        """Returns the semaphore of the running loop; after a fork that is another one."""
        loop = asyncio.get_running_loop()
        if self._slots is None or self._slots[0] is not loop:
            self._slots = (loop, asyncio.Semaphore(self._max_connections))
        return self._slots[1]


def text_of(message: Any) -> object:
    """The text of a message, which some endpoints give as a list of parts.

    Raises:
        AnswerError: it is a refusal; with its words.
    """
    content = getattr(message, "content", None)
    if not content and isinstance(refusal := getattr(message, "refusal", None), str) and refusal.strip():
        raise AnswerError(f"the model refused: {scrub(' '.join(refusal.split()))[:_MAX_MESSAGE]!r}")
    if not isinstance(content, list):
        return content
    parts = [part.get("text") if isinstance(part, dict) else getattr(part, "text", None) for part in content]
    return "".join(part for part in parts if isinstance(part, str))


def _problem(text: object, finish_reason: str | None, *, called_tool: bool) -> str:
    if called_tool:
        return "called a tool instead of answering with text"
    if finish_reason == "content_filter":
        return "was stopped by a content filter"
    if not isinstance(text, str) or not text.strip():
        return "gave an empty answer"
    if len(text) > MAX_ANSWER:
        return f"answered with {len(text):,} characters; expected at most {MAX_ANSWER:,}"
    return ""


def _pause(error: openai.APIError, attempt: int) -> float | None:
    """Returns the seconds until the next attempt, or None if a retry is of no use."""
    import openai

    if isinstance(error, openai.APIStatusError):
        status = error.status_code
        if status not in _TRANSIENT and status < 500:
            return None
        headers = (
            getattr(error, "litellm_response_headers", None) or error.response.headers
        )  # LiteLLM keeps them separately
        requested_pause = _retry_after(headers.get("retry-after"))
        if requested_pause is not None:
            return requested_pause
    elif not isinstance(error, openai.APIConnectionError):
        return None
    return min(_FIRST_PAUSE * 2.0**attempt, _LONGEST_PAUSE) * random.uniform(0.75, 1.25)  # noqa: S311 - spreads the load


def _retry_after(header: str | None) -> float | None:
    """Returns seconds, from a number or an HTTP date."""
    if not header:
        return None
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(header).timestamp() - time.time())
    except (TypeError, ValueError):
        return None


def _error_message(error: openai.APIError, attempts: int) -> str:
    """Returns the cause of a failed request."""
    import openai

    tries = f" after {attempts} attempts" if attempts > 1 else ""
    if isinstance(error, openai.APIStatusError):
        hint = f"; {_HINTS[error.status_code]}" if error.status_code in _HINTS else ""
        return f"answered HTTP {error.status_code}{tries}{hint}: {_detail(error)}"
    if isinstance(error, openai.APIConnectionError):
        cause = error.__cause__ or error.__context__
        return f"could not be reached{tries}: {error}" + (f" ({cause})" if cause else "")
    return f"gave an unreadable answer: {error}"


def _detail(error: openai.APIStatusError) -> str:
    body = error.body
    if isinstance(body, dict):
        return str(body.get("message") or body)
    return str(body or error.message)


_lock = threading.RLock()  # garbage collection of a model may need it while it is held
_loops: list[asyncio.AbstractEventLoop] = []  # at most one, created on demand


def submit(coroutine: Coroutine[Any, Any, T]) -> Future[T]:
    """Starts a coroutine in the background; cancelling the future cancels it."""
    return asyncio.run_coroutine_threadsafe(coroutine, _loop())


def wait(coroutine: Coroutine[Any, Any, T]) -> T:
    """Returns the result of a coroutine that runs in the background; an interrupt here cancels it there."""
    job = _CancellableJob(coroutine)
    try:
        return submit(job.run()).result()
    except BaseException:  # the job failed, or an interrupt
        job.cancel()
        raise


class _CancellableJob(Generic[T]):
    """A coroutine that can be cancelled at any time, even before it starts or its future exists."""

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._coroutine = coroutine
        self._task: asyncio.Task[Any] | None = None
        self._cancelled = False

    async def run(self) -> T:
        self._task = asyncio.current_task()
        if self._cancelled:
            self._coroutine.close()
            raise asyncio.CancelledError
        return await self._coroutine

    def cancel(self) -> None:
        self._cancelled = True
        _loop().call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()


def _loop() -> asyncio.AbstractEventLoop:
    with _lock:
        if not _loops:
            loop = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="guardagent-models", daemon=True).start()
            _loops.append(loop)
        return _loops[0]


def _reset_after_fork() -> None:
    """Drops the loop in a forked child, which does not inherit the thread."""
    global _lock  # noqa: PLW0603 - another thread may have held it
    _lock = threading.RLock()
    _loops.clear()


os.register_at_fork(after_in_child=_reset_after_fork)


Clients = dict[tuple[asyncio.AbstractEventLoop, str, str], "AsyncOpenAI"]  # by event loop, URL and key

_DEFAULT_URL = "https://api.openai.com/v1"
_DROPPABLE_OPTIONS = ("temperature", "n", "stream_options")  # options that some endpoints reject


class EndpointModel(ABC):
    """A model that answers through an endpoint."""

    name: str
    _endpoint: Endpoint

    def __repr__(self) -> str:
        return f"<model {self.name}>"

    def complete(self, messages: Sequence[Message], *, temperature: float = 0.0) -> Completion:
        """Answers as a `Model`."""
        return wait(self._ask(messages, temperature))

    async def acomplete(self, messages: Sequence[Message], *, temperature: float = 0.0) -> Completion:
        """Answers like `complete`, for an event loop."""
        return await asyncio.wrap_future(submit(self._ask(messages, temperature)))

    async def _ask(self, messages: Sequence[Message], temperature: float) -> Completion:
        return await self._endpoint.request(lambda: self._send(messages, temperature))

    @abstractmethod
    async def _send(self, messages: Sequence[Message], temperature: float) -> Completion:
        """Sends one request."""


class Backend(EndpointModel):
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

    @property
    def identity(self) -> tuple[str, str]:
        """The values that distinguish this model's answers in a cache."""
        return self.name, self._url()

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

    async def _send(self, messages: Sequence[Message], temperature: float) -> Completion:
        payload = [{"role": message.role, "content": message.content} for message in messages]
        return self._completion(await self._create({"messages": payload}, temperature))

    async def _chat(self, payload: dict[str, Any], temperature: float) -> ChatAnswer:
        return await self._endpoint.request(lambda: self._send_chat(payload, temperature))

    async def _send_chat(self, payload: dict[str, Any], temperature: float) -> ChatAnswer:
        answer = await self._create(payload, temperature)
        if "stream" in payload:
            return await self._assembled(answer, payload.get("n", 1))
        checked_candidates = [
            checked_candidate(
                getattr(choice.message, "content", None) or getattr(choice.message, "refusal", None),
                written_calls(choice.message),
                getattr(choice, "finish_reason", None),
                MAX_ANSWER,
            )
            for choice in self._choices(answer)
        ]
        return ChatAnswer(tuple(checked_candidates), self._usage(answer))

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
            message, choices[0].finish_reason, self._usage(answer), called_tool=called_tool
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


_LENGTH = 16
_SIGN = re.compile(
    rf"^MARK is ([0-9a-f]{{{_LENGTH}}})\.$|<data [^\n]{{1,200}} ([0-9a-f]{{{_LENGTH}}})>\n", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class MarkedRequest:
    """Messages with their marks.

    Attributes:
        messages: as they came.
        parts: for each message its strings, and between them the positions of the marks in `marks`.
        marks: in the order of their declaration.
    """

    messages: tuple[Message, ...]
    parts: tuple[tuple[str | int, ...], ...]
    marks: tuple[str, ...]

    def digest(self, *options: float) -> str:
        """Returns a hash of the request and its options that does not depend on the marks."""
        content = json.dumps([options, [message.role for message in self.messages], self.parts])
        return hashlib.sha256(content.encode()).hexdigest()

    def with_marks(self, marks: Sequence[str]) -> list[Message]:
        """Returns the messages with other marks."""
        strings = ("".join(marks[piece] if isinstance(piece, int) else piece for piece in part) for part in self.parts)
        return [replace(message, content=text) for message, text in zip(self.messages, strings, strict=True)]

    def constant_marks(self) -> tuple[str, ...]:
        """Returns a mark for each of `marks` that is the same in every run, and occurs nowhere in the strings."""
        text = "\n".join(piece for part in self.parts for piece in part if isinstance(piece, str))
        seed, constant_marks = self.digest(), list[str]()
        while len(constant_marks) < len(self.marks):
            seed = hashlib.sha256(seed.encode()).hexdigest()
            if seed[:_LENGTH] not in text:
                constant_marks.append(seed[:_LENGTH])
        return tuple(constant_marks)


def marked_request(messages: Sequence[Message]) -> MarkedRequest:
    """Finds the marks that the messages declare."""
    marks = tuple(_declared("\n".join(message.content for message in messages)))
    parts = tuple(tuple(_split(message.content, marks)) for message in messages)
    return MarkedRequest(tuple(messages), parts, marks)


def _declared(text: str) -> list[str]:
    names: list[str] = []
    place = 0
    while sign := _SIGN.search(text, place):
        declared, fence = sign.groups()
        place = sign.end()
        if declared and declared not in names:
            names.append(declared)
        elif fence in names:
            end = text.find(f"\n</data {fence}>", place - 1)
            place = len(text) if end < 0 else end
    return names


def _split(text: str, marks: Sequence[str]) -> list[str | int]:
    """Returns the strings between the marks, and the positions of the marks."""
    if not marks:
        return [text]
    return [marks.index(part) if part in marks else part for part in re.split(f"({'|'.join(marks)})", text)]
