"""The messages of a model's context, and of a run, as rules read them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from autogen_agentchat.messages import (
    BaseChatMessage,
    CodeGenerationEvent,
    HandoffMessage,
    SelectorEvent,
    StructuredMessage,
    ThoughtEvent,
)
from autogen_core.models import AssistantMessage, FunctionExecutionResultMessage, SystemMessage

from guardagent.enforcement.calls import plain_value
from guardagent.errors import InputError

_SPOKEN = (BaseChatMessage, CodeGenerationEvent, SelectorEvent, ThoughtEvent)


def chat(messages: Iterable[Any]) -> list[dict[str, str]]:
    """Returns role and text of each message of a model's context."""
    return [{"role": _role(one), "content": _content(one)} for one in messages]


def result_ids(messages: Iterable[Any]) -> list[str]:
    """Returns the ids of the calls whose results are among the messages."""
    found = [one.content for one in messages if isinstance(one, FunctionExecutionResultMessage)]
    return [result.call_id for results in found for result in results]


def spoken_text(event: Any) -> str | None:
    """Returns what a message or an event tells the user in the words of a model; None for other events."""
    if not isinstance(event, _SPOKEN):
        return None
    parts = [event.to_text()]
    if isinstance(event, StructuredMessage):
        parts.append(_json(event.content))
    if isinstance(event, HandoffMessage):
        parts += [one["content"] for one in chat(event.context)]
    return "\n".join(parts)


def _role(message: Any) -> str:
    if isinstance(message, AssistantMessage):
        return "assistant"
    if isinstance(message, FunctionExecutionResultMessage):
        return "tool"
    return "system" if isinstance(message, SystemMessage) else "user"


def _content(message: Any) -> str:
    if isinstance(message.content, str):
        return message.content
    if isinstance(message, FunctionExecutionResultMessage):
        return "\n".join(one.content for one in message.content)
    return "\n".join(one for one in message.content if isinstance(one, str))


def _json(value: Any) -> str:
    try:
        return json.dumps(plain_value(value), ensure_ascii=False, default=str)
    except (InputError, TypeError, ValueError):
        return str(value)
