"""A model of Google ADK that follows a script."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types
from pydantic import PrivateAttr

from guardagent.testing.conformance import OneId, as_object, call_ids

Turn = str | Sequence[tuple[str, Any]]


class ScriptedLlm(BaseLlm):
    """Says its turns, whole or word by word, then `done`."""

    _turns: Any = PrivateAttr()
    _read: list[LlmRequest] = PrivateAttr(default_factory=list)

    def __init__(self, turns: Iterable[Turn]) -> None:
        super().__init__(model="scripted")
        self._turns = iter(turns)

    @property
    def read(self) -> list[LlmRequest]:
        """The requests."""
        return self._read

    async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> AsyncIterator[LlmResponse]:  # noqa: FBT002 - the host's signature
        self._read.append(llm_request.model_copy(deep=True, update={"tools_dict": {}}))
        turn = next(self._turns, "done")
        if isinstance(turn, str):
            for word in turn.split(" ") if stream else ():
                yield LlmResponse(content=_content([types.Part(text=f"{word} ")]), partial=True)
            parts = [types.Part(text=turn)]
        else:
            ids = call_ids(turn) if isinstance(turn, OneId) else [None] * len(turn)  # the host gives each its own
            calls = [
                types.FunctionCall(id=call_id, name=name, args=as_object(args))
                for call_id, (name, args) in zip(ids, turn, strict=True)
            ]
            parts = [types.Part(function_call=call) for call in calls]
        yield LlmResponse(content=_content(parts), partial=False)


def _content(parts: list[Any]) -> types.Content:
    return types.Content(role="model", parts=parts)
