"""The host's messages, in a graph's state and in tool results."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def messages_of(state: Any, key: str = "messages") -> Sequence[Any]:
    """Returns the messages of a graph's state of any kind."""
    if isinstance(state, list):
        return state
    found = state.get(key) if isinstance(state, Mapping) else getattr(state, key, None)
    return found if isinstance(found, list | tuple) else []


def last_of(messages: Sequence[Any]) -> Sequence[Any]:
    """Returns the model's last message and those after it."""
    start = next((at for at in range(len(messages) - 1, -1, -1) if messages[at].type == "ai"), 0)
    return [one for one in messages[start:] if one.type in ("ai", "tool")]


def returned_messages(response: Any) -> list[Any]:
    """Returns the messages in a tool's result, alone, in a list or in a Command."""
    from langchain_core.messages import BaseMessage
    from langgraph.types import Command

    if isinstance(response, BaseMessage):
        return [response]
    if isinstance(response, Command):
        update = response.update
        parts: Iterable[Any] = update.values() if isinstance(update, Mapping) else [update]
        return [one for part in parts for one in returned_messages(part)]
    return [one for part in response for one in returned_messages(part)] if isinstance(response, list) else []


def ends_run(response: Any) -> bool:
    """Whether a tool's result ends the run by a Command."""
    from langgraph.graph import END
    from langgraph.types import Command

    if isinstance(response, list):
        return any(map(ends_run, response))
    goto = response.goto if isinstance(response, Command) else ()
    return END in ([goto] if isinstance(goto, str) else goto if isinstance(goto, list | tuple) else [])


def text_of(message: Any) -> str:
    """Returns the text of a message; other content as JSON."""
    content = message.content
    return content if isinstance(content, str) else json.dumps(content, default=str)
