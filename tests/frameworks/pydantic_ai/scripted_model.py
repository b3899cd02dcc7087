"""A model of Pydantic AI that follows a script, in one piece or as a stream."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

from guardagent.testing.conformance import call_ids

Turn = str | Sequence[tuple[str, Any]]
"""A text, or calls with their arguments as an object or as JSON text."""


class ScriptedModel(FunctionModel):
    """Says one turn after the other, and `done` after the last.

    Attributes:
        read: the last message that the model has read before each turn, as text.
        shown: the tools that the model has been shown, by name.
    """

    def __init__(self, turns: Iterable[Turn] = (), **options: Any) -> None:
        super().__init__(self._say, stream_function=self._stream, **options)
        self._turns = iter(turns)
        self.read: list[str] = []
        self.shown: dict[str, Any] = {}

    def _next(self, messages: list[Any], info: AgentInfo) -> Turn:
        self.read.append(str(messages[-1]))
        self.shown = {function_tool.name: function_tool for function_tool in [*info.function_tools, *info.output_tools]}
        return next(self._turns, "done")

    def _say(self, messages: list[Any], info: AgentInfo) -> ModelResponse:
        turn = self._next(messages, info)
        if isinstance(turn, str):
            return ModelResponse(parts=[TextPart(turn)])
        calls = zip(call_ids(turn), turn, strict=True)
        return ModelResponse(parts=[ToolCallPart(name, args, tool_call_id=call_id) for call_id, (name, args) in calls])

    async def _stream(self, messages: list[Any], info: AgentInfo) -> AsyncIterator[Any]:
        turn = self._next(messages, info)
        if isinstance(turn, str):
            for at in range(0, len(turn), 4):
                yield turn[at : at + 4]
            return
        for at, (call_id, (name, args)) in enumerate(zip(call_ids(turn), turn, strict=True)):
            text = args if isinstance(args, str) else json.dumps(args)
            yield {at: DeltaToolCall(name=name, json_args=text, tool_call_id=call_id)}
