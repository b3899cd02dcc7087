"""A chat client of the Agent Framework that follows a script."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

from agent_framework import (
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    Message,
)

from guardagent.testing.conformance import OneId, call_ids

Turn = str | Sequence[tuple[str, Any] | str]
"""A text, or calls, which may stand beside texts."""


class ScriptedClient(FunctionInvocationLayer[Any], ChatMiddlewareLayer[Any], BaseChatClient[Any]):
    """Says its turns, whole or word by word, then `done`.

    Attributes:
        turns: what it says next.
        read: the messages of each request.
        offered: the tools of each request, by name.
        service_id: the id of the conversation at the service, if it stores the messages.
    """

    def __init__(self, turns: Iterable[Turn], service_id: str | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.service_id = service_id
        self.turns = iter(turns)
        self.read: list[list[Message]] = []
        self.offered: list[dict[str, Any]] = []

    def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **kwargs: Any) -> Any:
        self.read.append(list(messages))
        self.offered.append({tool.name: tool for tool in options.get("tools") or () if hasattr(tool, "name")})
        contents = _contents(next(self.turns, "done"))
        if stream:
            return self._build_response_stream(_words(contents, self.service_id))
        return _whole(contents, self.service_id)


async def _whole(contents: list[Content], service_id: str | None) -> ChatResponse:
    return ChatResponse(messages=[Message(role="assistant", contents=contents)], conversation_id=service_id)


async def _words(contents: list[Content], service_id: str | None) -> AsyncIterator[ChatResponseUpdate]:
    for part in contents:
        words = (
            [Content.from_text(f"{word} ") for word in (part.text or "").split(" ")] if part.type == "text" else [part]
        )
        for content in words:
            yield ChatResponseUpdate(role="assistant", contents=[content], conversation_id=service_id)


def _contents(turn: Turn) -> list[Content]:
    if isinstance(turn, str):
        return [Content.from_text(turn)]
    if isinstance(turn, OneId):
        return [_call(call_id, *part) for call_id, part in zip(call_ids(turn), turn, strict=True)]
    return [Content.from_text(part) if isinstance(part, str) else _call(call_ids([part])[0], *part) for part in turn]


def _call(call_id: str, name: str, args: Any) -> Content:
    """Returns a call; the arguments are a text as the model writes it, or a value."""
    text = args if isinstance(args, str) else json.dumps(args)
    return Content.from_function_call(call_id=call_id, name=name, arguments=text)
