"""Chat with tools: a model's answers, with its tool calls unparsed and unjudged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from guardagent.models.secrets import scrub
from guardagent.types import Usage

MAX_CALLS = 32  # in one answer
_ENDED_EARLY = {
    "length": "it exceeds the token limit and is cut off",
    "content_filter": "a content filter stopped it",
}


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """A tool call as a model wrote it.

    Attributes:
        name: of the tool.
        arguments: their text, which should be JSON.
        id: the model's id for the call; empty if it has none.
        problem: the reason why it is not a function call; empty if it is one.
    """

    name: str
    arguments: str
    id: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ChatCandidate:
    """One of a model's answers to the same request: text, calls, or both.

    Attributes:
        problem: the reason why the answer is unusable as a whole; empty if it is usable.
    """

    text: str = ""
    calls: tuple[WrittenCall, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """A model's answer: one or more candidates, and their usage together."""

    candidates: tuple[ChatCandidate, ...]
    usage: Usage = field(default_factory=Usage)


@runtime_checkable
class ChatModel(Protocol):
    """Answers a conversation, with tools to call.

    Optional: `achat`, a coroutine of the same shape (otherwise `chat` is called in a thread).
    """

    def chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]],
        *,
        candidates: int,
        stream: bool,
        temperature: float,
    ) -> ChatAnswer:
        """Returns the answer to a conversation.

        Args:
            messages: in the format of the chat completions API.
            tools: in the same format.
            candidates: the number of requested answers; there may be fewer.
            stream: whether the endpoint streams the answer. The result is complete either way.
            temperature: the sampling temperature.

        Raises:
            ModelError: there is no answer.
        """
        ...


def checked_candidate(
    text: object, calls: Sequence[WrittenCall], finish_reason: object, max_characters: int
) -> ChatCandidate:
    """Returns an answer with its form checked: a non-string, a truncated or an oversized one has a `problem`."""
    if isinstance(finish_reason, str) and finish_reason in _ENDED_EARLY:
        return ChatCandidate(problem=_ENDED_EARLY[finish_reason])
    if text is not None and not isinstance(text, str):
        return ChatCandidate(problem="its content is not a string")
    size = len(text or "") + sum(len(call.name) + len(call.arguments) for call in calls)
    if size > max_characters:
        return ChatCandidate(problem=f"it has {size:,} characters; expected at most {max_characters:,}")
    ids = [call.id for call in calls if call.id]
    if len(ids) > len(set(ids)):
        return ChatCandidate(problem="two of its calls have the same id")
    if len(calls) > MAX_CALLS:
        return ChatCandidate(problem=f"it has {len(calls)} calls; expected at most {MAX_CALLS} at once")
    if not calls and not (text or "").strip():
        return ChatCandidate(problem="it is empty")
    valid_text = (text or "").encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # without lone surrogates
    return ChatCandidate(scrub(valid_text), tuple(calls))


def written_calls(message: Any) -> list[WrittenCall]:
    """Returns the calls of a complete answer, including the form before `tool_calls`."""
    legacy = getattr(message, "function_call", None)
    calls = [_call(one) for one in _list(getattr(message, "tool_calls", None))]
    return calls + ([_function(legacy, "")] if legacy else [])


def _call(one: Any) -> WrittenCall:
    name = _text(getattr(one, "id", None))
    function = getattr(one, "function", None)
    if getattr(one, "type", "function") not in ("function", None) or function is None:
        return WrittenCall("", "", name, "it is not a function call")
    return _function(function, name)


def _function(function: Any, call_id: str) -> WrittenCall:
    name, arguments = getattr(function, "name", None), getattr(function, "arguments", None)
    problem = "" if isinstance(name, str) else "its name is not a string"
    problem = problem or ("" if isinstance(arguments, str) else "its arguments are not a JSON string")
    return WrittenCall(_text(name), _text(arguments), call_id, problem)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _list(value: object) -> Iterable[Any]:
    return value if isinstance(value, list) else ()
