"""Agents of smolagents whose model follows a script, in messages or in code."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from smolagents import CodeAgent, LogLevel, Model, Tool, ToolCallingAgent
from smolagents.models import (
    ChatMessage,
    ChatMessageStreamDelta,
    ChatMessageToolCall,
    ChatMessageToolCallFunction,
    ChatMessageToolCallStreamDelta,
    MessageRole,
)

from guardagent.testing.conformance import as_object, call_ids

Kind = Literal["calls", "code"]
Calls = Sequence[tuple[str, Any]]


class ScriptedModel(Model):
    """Says its turns, whole or word by word, then `done`.

    Attributes:
        read: the last message of each request.
    """

    def __init__(self, kind: Kind, turns: Iterable[str | Calls]) -> None:
        super().__init__()
        self._kind, self._turns, self.read = kind, iter(turns), list[str]()

    def generate(self, messages: list[Any], *args: Any, **kwargs: Any) -> ChatMessage:
        self.read.append(str(messages[-1].content))
        return spoken(self._kind, next(self._turns, "done"))

    def generate_stream(self, messages: list[Any], *args: Any, **kwargs: Any) -> Iterator[ChatMessageStreamDelta]:
        message = self.generate(messages)
        for word in str(message.content or "").splitlines(keepends=True):
            yield ChatMessageStreamDelta(content=word)
        calls = [
            ChatMessageToolCallStreamDelta(
                index=at, id=tool_call.id, type="function", function=_written(tool_call.function)
            )
            for at, tool_call in enumerate(message.tool_calls or ())
        ]
        yield ChatMessageStreamDelta(tool_calls=calls or None)


def spoken(kind: Kind, turn: str | Calls) -> ChatMessage:
    """Returns a message: calls, code, or a final answer. Text that begins with a mark of code is used as it is."""
    if isinstance(turn, str) and "<code>" in turn:
        return ChatMessage(role=MessageRole.ASSISTANT, content=turn)
    if kind == "code":
        lines = [f"final_answer({turn!r})"] if isinstance(turn, str) else [_code(name, args) for name, args in turn]
        return ChatMessage(role=MessageRole.ASSISTANT, content="<code>\n" + "\n".join(lines) + "\n</code>")
    calls = [("final_answer", {"answer": turn})] if isinstance(turn, str) else turn
    tool_calls = [_call(call_id, name, args) for call_id, (name, args) in zip(call_ids(calls), calls, strict=True)]
    return ChatMessage(role=MessageRole.ASSISTANT, content="", tool_calls=tool_calls)


def _code(name: str, args: Mapping[str, Any]) -> str:
    """Returns the code of a call; its error is printed, so that the next call is made, too."""
    return f"try:\n    print({name}(**{as_object(args)!r}))\nexcept Exception as error:\n    print(error)"


def _call(call_id: str, name: str, args: Any) -> ChatMessageToolCall:
    function = ChatMessageToolCallFunction(name=name, arguments=args)
    return ChatMessageToolCall(id=call_id, type="function", function=function)


def _written(function: ChatMessageToolCallFunction) -> ChatMessageToolCallFunction:
    """Returns a call as a stream has it: with its arguments as text."""
    return ChatMessageToolCallFunction(name=function.name, arguments=json.dumps(function.arguments))


def agent_of(kind: Kind, tools: Iterable[Tool], model: Model, **options: Any) -> Any:
    """Returns an agent without a guard."""
    made = CodeAgent if kind == "code" else ToolCallingAgent
    return made(tools=list(tools), model=model, verbosity_level=LogLevel.OFF, **options)
