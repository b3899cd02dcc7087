"""The messages of an agent's executor, as rules read them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def chat(messages: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Returns role and text of each message."""
    return [{"role": str(one.get("role")), "content": _text(one.get("content"))} for one in list(messages)]


def result_ids(messages: Iterable[Mapping[str, Any]]) -> list[str]:
    """Returns the ids of the calls whose results are among the messages."""
    found = [one.get("tool_call_id") for one in list(messages) if one.get("role") == "tool"]
    return [one for one in found if isinstance(one, str)]


def last_user_text(messages: Any) -> str:
    """Returns the text of the user's last message; empty if there is none."""
    if isinstance(messages, str):
        return messages
    return next((one["content"] for one in reversed(chat(messages or ())) if one["role"] == "user"), "")


def _text(content: Any) -> str:
    if isinstance(content, list):
        parts = [one.get("text") for one in content if isinstance(one, Mapping)]
        return "\n".join(one for one in parts if isinstance(one, str))
    return content if isinstance(content, str) else ""
