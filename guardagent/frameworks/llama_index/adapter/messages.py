"""The messages of a run, as rules read them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def chat(messages: Iterable[Any]) -> list[dict[str, str]]:
    """Returns role and text of each message."""
    return [{"role": _role(one), "content": str(one.content or "")} for one in messages]


def result_ids(messages: Iterable[Any]) -> list[str]:
    """Returns the ids of the calls whose results are among the messages."""
    found = [one.additional_kwargs.get("tool_call_id") for one in messages if _role(one) == "tool"]
    return [one for one in found if isinstance(one, str)]


def last_user_text(messages: Iterable[dict[str, str]]) -> str:
    """Returns the text of the user's last message; empty if there is none."""
    return next((one["content"] for one in reversed(list(messages)) if one["role"] == "user"), "")


def _role(message: Any) -> str:
    return str(getattr(message.role, "value", message.role))
