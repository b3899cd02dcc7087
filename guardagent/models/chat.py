"""Chat with tools: what a model that is offered tools answers. Nothing of its calls is parsed or judged here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from guardagent.models.secrets import scrub
from guardagent.types import Usage

MAX_CALLS = 32  # in one answer
_ENDED_EARLY = {
    "length": "it is longer than the limit of tokens allows, and cut off",
    "content_filter": "a content filter stopped it",
}


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """A tool call as a model wrote it.

    Attributes:
        name: of the tool.
        arguments: their text, which should be JSON.
        id: the model's name for the call; empty where it gave none.
        problem: why it is no call of a function at all; empty where it is one.
    """

    name: str
    arguments: str
    id: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ChatCandidate:
    """One of the answers that a model gave to the same question: a text, calls, or both.

    Attributes:
        problem: why it is of no use as a whole; empty where nothing is wrong with it.
    """

    text: str = ""
    calls: tuple[WrittenCall, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """What a model answered: one candidate or several, and what all of them took."""

    candidates: tuple[ChatCandidate, ...]
    usage: Usage = field(default_factory=Usage)


@runtime_checkable
class ChatModel(Protocol):
    """Answers a conversation in which it is offered tools.

    Further methods are used where a model has them: `achat`, a coroutine of the same shape (otherwise `chat` is called
    in a thread).
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
        """The answer to a conversation.

        Args:
            messages: as the chat completions API has them.
            tools: the same.
            candidates: how many answers are wanted; there may be fewer.
            stream: whether the endpoint is to send it bit by bit. What comes back is whole all the same.
            temperature: of the choice of words.

        Raises:
            ModelError: there is none.
        """
        ...


def checked_candidate(
    text: object, calls: Sequence[WrittenCall], finish_reason: object, max_characters: int
) -> ChatCandidate:
    """An answer whose form is checked: a text that is none, one that was cut off, or too much of it, is a problem."""
    if isinstance(finish_reason, str) and finish_reason in _ENDED_EARLY:
        return ChatCandidate(problem=_ENDED_EARLY[finish_reason])
    if text is not None and not isinstance(text, str):
        return ChatCandidate(problem="its content is no text")
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
    valid_text = (text or "").encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # half a character is none
    return ChatCandidate(scrub(valid_text), tuple(calls))


def written_calls(message: Any) -> list[WrittenCall]:
    """The calls of an answer that came as a whole, one of the form before `tool_calls` too."""
    legacy = getattr(message, "function_call", None)
    written = [_call(one) for one in _list(getattr(message, "tool_calls", None))]
    return written + ([_function(legacy, "")] if legacy else [])


def _call(one: Any) -> WrittenCall:
    name = _text(getattr(one, "id", None))
    function = getattr(one, "function", None)
    if getattr(one, "type", "function") not in ("function", None) or function is None:
        return WrittenCall("", "", name, "it is no call of a function")
    return _function(function, name)


def _function(function: Any, call_id: str) -> WrittenCall:
    name, arguments = getattr(function, "name", None), getattr(function, "arguments", None)
    problem = "" if isinstance(name, str) else "its name is no text"
    problem = problem or ("" if isinstance(arguments, str) else "its arguments are no text that holds JSON")
    return WrittenCall(_text(name), _text(arguments), call_id, problem)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _list(value: object) -> Iterable[Any]:
    return value if isinstance(value, list) else ()
