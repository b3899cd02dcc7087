"""A function-calling model of LlamaIndex that follows a script."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, LLMMetadata
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from pydantic import PrivateAttr

from guardagent.testing.conformance import as_object, call_ids

Turn = str | Sequence[tuple[str, Any]]


class ScriptedLLM(FunctionCallingLLM):
    """Says its turns, whole or word by word, then `done`."""

    _turns: Any = PrivateAttr()
    _read: list[list[ChatMessage]] = PrivateAttr(default_factory=list)

    def __init__(self, turns: Iterable[Turn]) -> None:
        super().__init__()
        self._turns = iter(turns)

    @property
    def read(self) -> list[list[ChatMessage]]:
        """The messages of each request."""
        return self._read

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(is_function_calling_model=True, model_name="scripted")

    def get_tool_calls_from_response(self, response: Any, *args: Any, **kwargs: Any) -> list[ToolSelection]:
        return list(response.message.additional_kwargs.get("tool_calls", ()))

    async def achat_with_tools(self, *args: Any, **kwargs: Any) -> ChatResponse:
        return self._next_response(kwargs.get("chat_history") or [])

    async def achat(self, messages: Any, **kwargs: Any) -> ChatResponse:
        return self._next_response(messages)

    async def astream_chat_with_tools(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatResponse]:
        return _streamed(self._next_response(kwargs.get("chat_history") or []))

    async def astream_chat(self, messages: Any, **kwargs: Any) -> AsyncIterator[ChatResponse]:
        return _streamed(self._next_response(messages))

    def _next_response(self, messages: Iterable[ChatMessage]) -> ChatResponse:
        self._read.append(list(messages))
        turn = next(self._turns, "done")
        if isinstance(turn, str):
            return ChatResponse(message=ChatMessage(role="assistant", content=turn))
        calls = [
            ToolSelection(tool_id=tool_id, tool_name=name, tool_kwargs=as_object(args))
            for tool_id, (name, args) in zip(call_ids(turn), turn, strict=True)
        ]
        return ChatResponse(message=ChatMessage(role="assistant", content="", additional_kwargs={"tool_calls": calls}))

    def _prepare_chat_with_tools(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        raise NotImplementedError

    chat = stream_chat = complete = stream_complete = acomplete = astream_complete = _prepare_chat_with_tools


async def _streamed(whole: ChatResponse) -> AsyncIterator[ChatResponse]:
    text = ""
    for word in str(whole.message.content or "").split(" "):
        text += f"{word} "
        part = ChatMessage(role="assistant", content=text, additional_kwargs=whole.message.additional_kwargs)
        yield ChatResponse(message=part, delta=f"{word} ")
    yield whole
