"""The items that a run began with, as rules read them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def chat(items: Iterable[Any]) -> list[dict[str, Any]]:
    """The messages among the items, each with its role and its text."""
    messages = [one for one in items if isinstance(one, Mapping) and isinstance(one.get("role"), str)]
    return [{"role": one["role"], "content": text_of(one.get("content"))} for one in messages]


def text_of(content: Any) -> str:
    """The text of a message: of its parts, those that are text."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list | tuple) else ()
    return "\n".join(str(one["text"]) for one in parts if isinstance(one, Mapping) and isinstance(one.get("text"), str))


def result_ids(items: Iterable[Any]) -> list[str]:
    """The ids of the calls whose results are among the items."""
    results = [one for one in items if isinstance(one, Mapping) and one.get("type") == "function_call_output"]
    return [str(one.get("call_id")) for one in results]


def texts_of(output: Iterable[Any]) -> list[str]:
    """The texts of all messages in a model's response, refusals too."""
    parts = [part for one in output if one.type == "message" for part in one.content]
    return [getattr(one, "text", None) or getattr(one, "refusal", None) or "" for one in parts]
