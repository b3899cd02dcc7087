"""The messages of a run, as rules read them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def chat(messages: Iterable[Any]) -> list[dict[str, str]]:
    """Returns role and text of each message."""
    return [{"role": str(one.role), "content": one.text or ""} for one in messages]


def call_ids(messages: Iterable[Any], kind: str) -> list[str]:
    """Returns the ids of the calls in the contents of one type, such as `function_result`."""
    found = (one.call_id for message in messages for one in message.contents if one.type == kind)
    return [one for one in found if isinstance(one, str)]


def last_user_text(messages: Iterable[dict[str, str]]) -> str:
    """Returns the text of the user's last message; empty if there is none."""
    return next((one["content"] for one in reversed(list(messages)) if one["role"] == "user"), "")
