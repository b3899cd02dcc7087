"""A model of AG2 that follows a script."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ag2.config import LLMClient, ModelConfig
from ag2.events import ModelMessage, ModelMessageChunk, ModelResponse, ToolCallEvent, ToolCallsEvent

from guardagent.testing.conformance import call_ids

Turn = str | Sequence[tuple[str, Any]]


class ScriptedConfig(ModelConfig):
    """Says its turns, word by word and whole, then `done`. A call's arguments are values, or JSON text.

    Attributes:
        read: the events of each request.
        tools: the tools of each request, by name.
    """

    provider = "scripted"
    model = "scripted"

    def __init__(self, turns: Iterable[Turn]) -> None:
        self.turns = iter(turns)
        self.read: list[list[Any]] = []
        self.tools: list[Mapping[str, Any]] = []

    def copy(self, **_: Any) -> ScriptedConfig:
        return self

    def create(self) -> LLMClient:
        return _Client(self)

    def create_files_client(self) -> Any:
        raise NotImplementedError


class _Client(LLMClient):
    def __init__(self, config: ScriptedConfig) -> None:
        self.config = config

    async def __call__(self, messages: Sequence[Any], context: Any, *, tools: Any = (), **_: Any) -> ModelResponse:
        self.config.read.append(list(messages))
        self.config.tools.append({tool.function.name: tool for tool in tools if hasattr(tool, "function")})
        turn = next(self.config.turns, "done")
        if isinstance(turn, str):
            for word in turn.split(" "):
                await context.send(ModelMessageChunk(f"{word} "))
            await context.send(ModelMessage(turn))
            return ModelResponse(ModelMessage(turn))
        proposed = zip(call_ids(turn), turn, strict=True)
        calls = [ToolCallEvent(name, id=call_id, arguments=_text(args)) for call_id, (name, args) in proposed]
        return ModelResponse(tool_calls=ToolCallsEvent(calls))


def _text(args: Any) -> str:
    return args if isinstance(args, str) else json.dumps(args)
