"""Plain clients of the proxy: each runs the tool calls that a response has, until there are none."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.frameworks.litellm.upstream import sse_events

Call = tuple[str, str, Any]
"""The id, the tool and the arguments of a call."""


class GatewayClient(ABC):
    """The requests and responses of one API.

    Attributes:
        path: its path.
        model: the model of the proxy's configuration that speaks it.
    """

    path: str
    model: str

    @abstractmethod
    def body(self, items: Sequence[Any], tools: Mapping[str, Any], *, stream: bool = False) -> dict[str, Any]:
        """Returns a request."""

    @abstractmethod
    def tool(self, name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the declaration of a tool."""

    @abstractmethod
    def read(self, response: Mapping[str, Any]) -> tuple[str, list[Call], list[Any]]:
        """Returns the text and the calls of a response, and what a client keeps of it."""

    @abstractmethod
    def read_stream(self, events: Iterable[Mapping[str, Any]]) -> tuple[str, list[Call], list[Any]]:
        """As `read`, for a stream."""

    @abstractmethod
    def call(self, call: Call) -> Any:
        """Returns a message with a call, as a model makes it."""

    @abstractmethod
    def results(self, results: Sequence[tuple[str, Any]]) -> list[Any]:
        """Returns the messages with the results of calls."""

    def user(self, text: str) -> Any:
        """Returns a message of the user."""
        return {"role": "user", "content": text}

    def read_text(self, text: str, *, stream: bool) -> tuple[str, list[Call], list[Any]]:
        """Reads the text of an HTTP response."""
        return self.read_stream(sse_events(text)) if stream else self.read(json.loads(text))


class ChatClient(GatewayClient):
    """Chat completions."""

    path, model = "/v1/chat/completions", "chat"

    def body(self, items: Sequence[Any], tools: Mapping[str, Any], *, stream: bool = False) -> dict[str, Any]:
        return {"model": self.model, "messages": list(items), "tools": list(tools.values()), "stream": stream}

    def tool(self, name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
        return {"type": "function", "function": {"name": name, "parameters": dict(schema)}}

    def read(self, response: Mapping[str, Any]) -> tuple[str, list[Call], list[Any]]:
        message = response["choices"][0]["message"]
        calls = [
            (tool_call["id"], tool_call["function"]["name"], json.loads(tool_call["function"]["arguments"]))
            for tool_call in message.get("tool_calls") or ()
        ]
        return message.get("content") or "", calls, [message]

    def read_stream(self, events: Iterable[Mapping[str, Any]]) -> tuple[str, list[Call], list[Any]]:
        text, calls = "", dict[int, dict[str, Any]]()
        for choice in (choice for event in events for choice in event.get("choices") or ()):
            text += choice["delta"].get("content") or ""
            for part in choice["delta"].get("tool_calls") or ():
                call = calls.setdefault(part["index"], {"type": "function", "function": {"name": "", "arguments": ""}})
                call["id"] = part.get("id") or call.get("id")
                call["function"]["name"] += part["function"].get("name") or ""
                call["function"]["arguments"] += part["function"].get("arguments") or ""
        message: dict[str, Any] = {"role": "assistant", "content": text or None}
        message |= {"tool_calls": list(calls.values())} if calls else {}
        return self.read({"choices": [{"message": message}]})

    def call(self, call: Call) -> Any:
        function = {"name": call[1], "arguments": json.dumps(call[2])}
        tool_call = {"id": call[0], "type": "function", "function": function}
        return {"role": "assistant", "content": None, "tool_calls": [tool_call]}

    def results(self, results: Sequence[tuple[str, Any]]) -> list[Any]:
        return [{"role": "tool", "tool_call_id": name, "content": _parts(output, "text")} for name, output in results]


class MessagesClient(GatewayClient):
    """Anthropic's messages."""

    path, model = "/v1/messages", "messages"

    def body(self, items: Sequence[Any], tools: Mapping[str, Any], *, stream: bool = False) -> dict[str, Any]:
        about = {"model": self.model, "max_tokens": 100, "stream": stream}
        return {**about, "messages": list(items), "tools": list(tools.values())}

    def tool(self, name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
        return {"name": name, "input_schema": dict(schema)}

    def read(self, response: Mapping[str, Any]) -> tuple[str, list[Call], list[Any]]:
        blocks = response["content"]
        text = "".join(block["text"] for block in blocks if block["type"] == "text")
        calls = [(block["id"], block["name"], block["input"]) for block in blocks if block["type"] == "tool_use"]
        return text, calls, [{"role": "assistant", "content": blocks}]

    def read_stream(self, events: Iterable[Mapping[str, Any]]) -> tuple[str, list[Call], list[Any]]:
        blocks: dict[int, dict[str, Any]] = {}
        for event in events:
            if event["type"] == "content_block_start":
                blocks[event["index"]] = {**event["content_block"], "json": ""}
            elif event["type"] == "content_block_delta":
                blocks[event["index"]]["json"] += event["delta"].get("partial_json", "")
                if "text" in event["delta"]:
                    blocks[event["index"]]["text"] += event["delta"]["text"]
            elif event["type"] == "error":
                raise AssertionError(event)
        for block in blocks.values():
            text = block.pop("json")
            if block["type"] == "tool_use":
                block["input"] = json.loads(text)
        return self.read({"content": [blocks[at] for at in sorted(blocks)]})

    def call(self, call: Call) -> Any:
        block = {"type": "tool_use", "id": call[0], "name": call[1], "input": call[2]}
        return {"role": "assistant", "content": [block]}

    def results(self, results: Sequence[tuple[str, Any]]) -> list[Any]:
        content = [
            {"type": "tool_result", "tool_use_id": name, "content": _parts(output, "text")} for name, output in results
        ]
        return [{"role": "user", "content": content}]


class ResponsesClient(GatewayClient):
    """The Responses API."""

    path, model = "/v1/responses", "responses"

    def body(self, items: Sequence[Any], tools: Mapping[str, Any], *, stream: bool = False) -> dict[str, Any]:
        return {"model": self.model, "input": list(items), "tools": list(tools.values()), "stream": stream}

    def tool(self, name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
        return {"type": "function", "name": name, "parameters": dict(schema)}

    def read(self, response: Mapping[str, Any]) -> tuple[str, list[Call], list[Any]]:
        items = response["output"]
        text = "".join(part["text"] for item in items if item["type"] == "message" for part in item["content"])
        calls = [
            (item["call_id"], item["name"], json.loads(item["arguments"]))
            for item in items
            if item["type"] == "function_call"
        ]
        return text, calls, list(items)

    def read_stream(self, events: Iterable[Mapping[str, Any]]) -> tuple[str, list[Call], list[Any]]:
        text, ended = "", None
        for event in events:
            text += event["delta"] if event.get("type") == "response.output_text.delta" else ""
            ended = event["response"] if event.get("type") == "response.completed" else ended
        assert ended is not None
        whole, calls, items = self.read(ended)
        return (text if text == whole else text + whole), calls, items

    def call(self, call: Call) -> Any:
        return {"type": "function_call", "call_id": call[0], "name": call[1], "arguments": json.dumps(call[2])}

    def results(self, results: Sequence[tuple[str, Any]]) -> list[Any]:
        return [
            {"type": "function_call_output", "call_id": name, "output": _parts(output, "input_text")}
            for name, output in results
        ]


CLIENTS: dict[str, GatewayClient] = {"chat": ChatClient(), "messages": MessagesClient(), "responses": ResponsesClient()}


def _parts(output: Any, kind: str) -> Any:
    """Returns the output of a tool: a string, or a part for each of several."""
    if isinstance(output, list):
        return [{"type": kind, "text": str(part)} for part in output]
    return output if isinstance(output, str) else json.dumps(output)
