"""The events of a stream, as rules read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ag2.events import ModelRequest, ModelResponse, TextInput, ToolResultEvent, ToolResultsEvent


def chat(events: Iterable[Any]) -> list[dict[str, str]]:
    """Returns role and text of each message among the events."""
    return [message for event in events for message in _messages(event)]


def result_ids(events: Iterable[Any]) -> list[str]:
    """Returns the ids of the calls whose results are among the events."""
    return [one.parent_id for event in events for one in _results(event)]


def last_user_text(messages: Iterable[dict[str, str]]) -> str:
    """Returns the text of the user's last message; empty if there is none."""
    return next((one["content"] for one in reversed(list(messages)) if one["role"] == "user"), "")


def text_of(parts: Iterable[Any]) -> str:
    """Returns the text of inputs."""
    return "\n".join(one.content if isinstance(one, TextInput) else str(getattr(one, "data", one)) for one in parts)


def _messages(event: Any) -> Iterator[dict[str, str]]:
    if isinstance(event, ModelRequest):
        yield {"role": "user", "content": text_of(event.parts)}
    if isinstance(event, ModelResponse) and event.message is not None:
        yield {"role": "assistant", "content": event.message.content}
    for one in _results(event):
        yield {"role": "tool", "content": text_of(one.result.parts)}


def _results(event: Any) -> list[Any]:
    if isinstance(event, ToolResultsEvent):
        return list(event.results)
    return [event] if isinstance(event, ToolResultEvent) else []
