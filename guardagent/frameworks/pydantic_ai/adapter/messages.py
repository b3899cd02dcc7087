"""The messages of a run, as rules read them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from pydantic_ai.messages import ModelRequest, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart

_NOT_EXECUTED = "Tool not executed - a final result was already processed."  # the host's text in place of a result


def chat(messages: Iterable[Any]) -> list[dict[str, str]]:
    """Returns role and text of what users and models have said."""
    shown = []
    for message in messages:
        role, kind = ("user", UserPromptPart) if isinstance(message, ModelRequest) else ("assistant", TextPart)
        texts = [_text(part.content) for part in message.parts if isinstance(part, kind)]
        shown += [{"role": role, "content": "\n".join(texts)}] if texts else []
    return shown


def result_ids(messages: Iterable[Any], outputs: Collection[str] = ()) -> list[str]:
    """Returns the ids of the calls whose results are among the messages.

    Args:
        messages: the host's.
        outputs: the names of output tools, whose results are not those of calls.
    """
    return [
        part.tool_call_id
        for message in messages
        for part in message.parts
        if isinstance(part, ToolReturnPart)
        and part.outcome == "success"
        and part.tool_name not in outputs
        and part.content != _NOT_EXECUTED
    ]


def last_user_text(messages: Iterable[dict[str, str]]) -> str:
    """Returns the text of the user's last message; empty if there is none."""
    return next((one["content"] for one in reversed(list(messages)) if one["role"] == "user"), "")


def proposal(messages: Iterable[Any], call_id: str) -> ToolCallPart | None:
    """Returns a call as the model proposed it; None if it is not among the messages."""
    calls = [
        part
        for message in messages
        for part in message.parts
        if isinstance(part, ToolCallPart) and part.tool_call_id == call_id
    ]
    return calls[-1] if calls else None


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(one for one in content if isinstance(one, str))
