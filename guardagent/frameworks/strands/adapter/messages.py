"""The messages of an agent, as rules read them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any


def chat(messages: Iterable[Any]) -> list[dict[str, str]]:
    """Returns role and text of each message; a tool's results are messages of the role `tool`."""
    found: list[dict[str, str]] = []
    for message in messages:
        results = [one["toolResult"] for one in _blocks(message) if "toolResult" in one]
        found += [{"role": "tool", "content": "\n".join(map(_text, one.get("content") or ()))} for one in results]
        if (text := message_text(message)) or not results:
            found.append({"role": str(message.get("role", "")), "content": text})
    return found


def message_text(message: Any) -> str:
    """Returns the text of a message, with that of its citations."""
    return "\n".join(_texts(_blocks(message)))


def result_ids(messages: Iterable[Any]) -> list[str]:
    """Returns the ids of the calls whose results are among the messages."""
    results = [one["toolResult"] for message in messages for one in _blocks(message) if "toolResult" in one]
    return [found for one in results if isinstance(found := one.get("toolUseId"), str)]


def tool_uses(message: Any) -> list[dict[str, Any]]:
    """Returns the calls that a message proposes."""
    return [one["toolUse"] for one in _blocks(message) if "toolUse" in one]


def last_user_text(messages: Iterable[dict[str, str]]) -> str:
    """Returns the text of the user's last message; empty if there is none."""
    return next((one["content"] for one in reversed(list(messages)) if one["role"] == "user"), "")


def _blocks(message: Any) -> list[dict[str, Any]]:
    return [one for one in message.get("content") or () if isinstance(one, dict)]


def _texts(blocks: Iterable[dict[str, Any]]) -> Iterator[str]:
    for block in blocks:
        if "text" in block:
            yield str(block["text"])
        for cited in (block.get("citationsContent") or {}).get("content") or ():
            if isinstance(cited, dict) and "text" in cited:
                yield str(cited["text"])


def _text(part: Any) -> str:
    if isinstance(part, dict) and "text" in part:
        return str(part["text"])
    return json.dumps(part, ensure_ascii=False, default=str)
