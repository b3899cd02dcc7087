"""The interface to one API of the proxy: its requests, its responses and its streams.

Chat completions, responses, and Anthropic's messages implement it in the modules of this package. A stream of bytes is
cut at the ends of its server-sent events.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from guardagent.enforcement import Outcome, ToolSpec
from guardagent.errors import InputError

# --- the interface

Data = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class GatewayCall:
    """A call of a tool in a response of the model, or in the messages of a client.

    Attributes:
        id: its id; "" if it has none.
        name: the tool.
        args: the arguments, as text or read.
    """

    id: str
    name: str
    args: Any


@dataclass(frozen=True, slots=True)
class ShownHistory:
    """A client's messages.

    Attributes:
        messages: their texts, with roles.
        calls: the calls in messages of the model.
        results: the id of a call -> its outcome.
        user: the last message of the user.
        new_turn: whether the user spoke last.
    """

    messages: Sequence[Data]
    calls: Sequence[GatewayCall]
    results: Mapping[str, Outcome]
    user: str
    new_turn: bool


_TOKENS = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
"""The members of Anthropic's usage, which do not overlap."""


@dataclass(frozen=True, slots=True)
class ModelMessage:
    """A response of the model.

    Attributes:
        body: the whole response, as plain JSON.
        calls: its tool calls.
        texts: its answer, or several if the client wants to choose one.
    """

    body: dict[str, Any]
    calls: Sequence[GatewayCall]
    texts: Sequence[str]

    @property
    def tokens(self) -> int | None:
        """The tokens of the request and the response; None if the host does not state them."""
        usage = self.body.get("usage") or {}
        used: Mapping[str, Any] = usage if isinstance(usage, Mapping) else usage.model_dump()
        parts: list[int] = [used[name] for name in _TOKENS if used.get(name) is not None]
        total: int | None = used.get("total_tokens", sum(parts) if parts else None)
        return total


@dataclass(slots=True)
class Rewriting:
    """The changes of a response.

    Attributes:
        calls: the place of each call that the client gets -> the call, with the judged arguments.
        note: the reasons of the denials, or the text in place of an answer; empty if there is none.
    """

    calls: dict[int, GatewayCall] = field(default_factory=dict)
    note: str = ""


class ModelApi(ABC):
    """Reads and rewrites the requests and responses of one API.

    Attributes:
        call_type: the host's name of its requests.
        says_all_twice: whether a stream has each text in parts and at its end, of which a client may show either.
    """

    call_type: str
    says_all_twice = False

    # --- requests

    @abstractmethod
    def tools(self, data: Data, unguarded: Collection[str]) -> list[ToolSpec]:
        """Returns the tools that a request declares.

        Args:
            data: the request.
            unguarded: the kinds of tools that run at the provider, or in the proxy, and that the operator allows.

        Raises:
            InputError: the calls of a tool could not be judged.
        """

    @abstractmethod
    def history(self, data: Data, unguarded: Collection[str]) -> ShownHistory:
        """Reads the messages of a request.

        Raises:
            InputError: one cannot be confirmed.
        """

    @abstractmethod
    def with_feedback(self, data: Data, message: ModelMessage, denials: Mapping[int, str]) -> dict[str, Any]:
        """Returns a request that tells the model why all calls of its last response were denied."""

    # --- responses

    @abstractmethod
    def read(self, response: Any, unguarded: Collection[str]) -> ModelMessage:
        """Reads a response.

        Raises:
            InputError: it has another form, or calls that cannot be judged.
        """

    @abstractmethod
    def rewritten(self, response: Any, message: ModelMessage, changes: Rewriting) -> Any:
        """Returns a response with the calls that the client gets, in the form of the host."""

    # --- streams

    @abstractmethod
    def frames(self, chunks: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Yields the chunks of a stream such that each can be read by itself."""

    @abstractmethod
    def has_call(self, frame: Any) -> bool:
        """Whether a part of a stream has a part of a tool call, or cannot be read."""

    @abstractmethod
    def assembled(self, frames: Sequence[Any]) -> Any:
        """Returns the response that a stream consists of.

        Raises:
            InputError: the stream is incomplete, or has another form.
        """

    def joins_alike(self, frames: Sequence[Any], response: Any) -> bool:  # noqa: ARG002 - for subclasses
        """Whether every client joins the calls of a stream to this response of `assembled`, so that it gets them."""
        return False

    @abstractmethod
    def streamed(self, response: Any) -> Iterable[Any]:
        """Returns the stream of a response."""

    def restreamed(self, frames: Sequence[Any], response: Any, message: ModelMessage, changes: Rewriting) -> list[Any]:  # noqa: ARG002 - for subclasses
        """Returns a stream with the calls that the client gets.

        Args:
            frames: the model's own stream.
            response: the response that it consists of.
            message: the same, as it was judged.
            changes: the changes.
        """
        return list(self.streamed(self.rewritten(response, message, changes)))


# --- parts of requests and responses


def listed(data: Data, name: str) -> list[Any]:
    """Returns a list of a request; empty if it is missing.

    Raises:
        InputError: it is something else.
    """
    values = data.get(name)
    if values is None:
        return []
    if not isinstance(values, list):
        raise InputError(f"{name!r} is a {type(values).__name__}; expected a list")
    return values


def member(value: Any, what: str) -> dict[str, Any]:
    """Returns a part of a request as a plain object.

    Raises:
        InputError: it is something else.
    """
    if not isinstance(value, Mapping):
        dump = getattr(value, "model_dump", None)
        value = dump(exclude_none=True) if callable(dump) else value
    if not isinstance(value, Mapping):
        raise InputError(f"{what} is a {type(value).__name__}; expected an object")
    return dict(value)


def refuse_kind(kind: str, unguarded: Collection[str]) -> None:
    """Refuses a tool that runs outside of the client.

    Raises:
        InputError: the operator does not allow its kind.
    """
    if kind not in unguarded:
        raise InputError(
            f"no guard sees the calls of a tool of the kind {kind!r}, which runs at the provider or in the proxy; "
            f"expected functions of the client, or 'unguarded_tools: [{kind}]' in the guardrail's options"
        )


def content_text(content: Any) -> str:
    """Returns the text of a message, which a refusal of the model has under another name."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    plain = [part for part in parts if isinstance(part, str | Mapping)]
    texts = [part if isinstance(part, str) else part.get("text") or part.get("refusal") for part in plain]
    return "\n".join(text for text in texts if isinstance(text, str))


def outcome_of(content: Any, *, failed: bool = False) -> Outcome:
    """Returns the outcome in a result of a tool: its text, and each of its parts."""
    if isinstance(content, str) or content is None:
        return Outcome(content or "", failed=failed)
    plain = [part if isinstance(part, str) else member(part, "a part of a result") for part in content]
    whole = all(isinstance(part, str) or isinstance(part.get("text"), str) for part in plain)
    texts = [part if isinstance(part, str) else part.get("text") for part in plain]
    output = "\n".join(map(str, texts)) if whole else plain
    return Outcome(output, failed=failed, other_outputs=tuple(text for text in texts if isinstance(text, str)))


def as_json(args: Any) -> str:
    """Returns judged arguments as a client reads them."""
    return json.dumps(args, ensure_ascii=False)


def call_id(value: Any) -> str:
    """Returns the id of a call; "" if it is missing."""
    return value if isinstance(value, str) else ""


def add_result(results: dict[str, Outcome], name: Any, outcome: Outcome) -> None:
    """Adds the result of a call.

    Raises:
        InputError: it has no id, or there are two.
    """
    if not isinstance(name, str) or not name:
        raise InputError("the result of a tool names no call; expected the id of the call")
    if name in results:
        raise InputError(f"the call {name!r} has two results; expected one")
    results[name] = outcome


# --- server-sent events

_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_LINE_END = re.compile("\r\n|\n|\r")  # `splitlines` also breaks at U+2028 and others, which texts may have
_MAX_BYTES = 8 * 1024 * 1024  # of one event, as the host has it


async def sse_frames(chunks: AsyncIterator[Any]) -> AsyncIterator[bytes]:
    """Yields whole events; a network may cut them anywhere.

    Raises:
        InputError: a part of the stream is not text, or an event is too long.
    """
    held = b""
    async for chunk in chunks:
        if not isinstance(chunk, bytes | str):
            raise InputError(f"a part of the stream is a {type(chunk).__name__}; expected server-sent events")
        held += chunk if isinstance(chunk, bytes) else chunk.encode()
        while (end := _END.search(held)) is not None:
            yield held[: end.end()]
            held = held[end.end() :]
        if len(held) > _MAX_BYTES:
            raise InputError("an event of the stream is too long")
    if held.strip():
        yield held


def sse_data(frame: bytes) -> dict[str, Any] | None:
    """Returns the data of an event; None if it has none, as a comment.

    Raises:
        InputError: it is not a JSON object.
    """
    lines = _LINE_END.split(frame.decode("utf-8", "replace"))
    text = "\n".join(line[5:].removeprefix(" ") for line in lines if line.startswith("data:"))
    if not text or text == "[DONE]":
        return None
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise InputError("an event of the stream is not a JSON object")
    return value


def sse_frame(data: Mapping[str, Any]) -> bytes:
    """Returns an event as bytes."""
    return f"event: {data['type']}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()
