"""A scripted model behind the APIs of OpenAI, Anthropic and Gemini: what programs send and get is real HTTP."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from guardagent.testing.conformance import OneId, call_ids

Turn = str | Sequence[tuple[str, Any]]
"""A final text, or the calls of a message; arguments that are a string are sent as they are.

In the Responses API, a name may have a namespace before a slash; `custom/` are tools whose input is a text.
"""

_ids = itertools.count(1)
_SCRIPT = re.compile(r"script (\d+)")


class Upstream(ThreadingHTTPServer):
    """Answers each request with the next turn of the script that its first message names.

    Attributes:
        url: its address.
        requests: the bodies of the requests.
        events: if set, the events of the next stream, in place of those of a turn.
        ids: if set, the ids of the next calls.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.requests: list[dict[str, Any]] = []
        self.events: list[bytes] | None = None
        self.ids: list[str] = []
        self._scripts: dict[int, Iterator[Turn]] = {}
        self._lock, self._numbers = threading.Lock(), itertools.count(1)

    def script(self, turns: Sequence[Turn]) -> str:
        """Adds a script. Returns the first message of a conversation that follows it."""
        number = next(self._numbers)
        self._scripts[number] = iter(turns)
        return f"script {number}"

    def next_turn(self, body: dict[str, Any]) -> Turn:
        with self._lock:
            self.requests.append(body)
            script_numbers = _SCRIPT.findall(
                json.dumps(body.get("messages") or body.get("input") or body.get("contents"))
            )
            return next(self._scripts[int(script_numbers[-1])], "done") if script_numbers else "done"

    def next_id(self) -> str:
        return self.ids.pop(0) if self.ids else f"call_{next(_ids)}"


@contextlib.contextmanager
def upstream() -> Iterator[Upstream]:
    """Runs a scripted model until the end of the block."""
    server = Upstream()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _args(args: Any) -> str:
    return args if isinstance(args, str) else json.dumps(args)


class _Handler(BaseHTTPRequestHandler):
    server: Upstream
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        turn = self.server.next_turn(body)
        if isinstance(turn, OneId):
            self.server.ids[:0] = call_ids(turn)
        path = self.path.partition("?")[0]
        kind = next(ending for ending in _APIS if path.endswith(ending))
        whole, events = _APIS[kind](turn, self.server.next_id, body)
        if not body.get("stream") and not path.endswith(_STREAM):
            self._send("application/json", json.dumps(whole).encode())
            return
        if self.server.events is not None:
            events, self.server.events = self.server.events, None
        self._send("text/event-stream", b"".join(events))

    def _send(self, kind: str, data: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: Any) -> None: ...


def event(data: Mapping[str, Any]) -> bytes:
    """Returns a server-sent event."""
    name = f"event: {data['type']}\n" if "type" in data else ""
    return f"{name}data: {json.dumps(data)}\n\n".encode()


def _pieces(text: str) -> list[str]:
    return [text[at : at + 4] for at in range(0, len(text), 4)]


def _chat(turn: Turn, new_id: Any, body: Mapping[str, Any]) -> tuple[Any, list[bytes]]:
    calls = [] if isinstance(turn, str) else turn
    named = [
        {"id": new_id(), "type": "function", "function": {"name": name, "arguments": _args(args)}}
        for name, args in calls
    ]
    text = turn if isinstance(turn, str) else None
    message: dict[str, Any] = {"role": "assistant", "content": text, **({"tool_calls": named} if named else {})}
    reason = "tool_calls" if named else "stop"
    about: dict[str, Any] = {"id": "answer", "created": 0, "model": str(body.get("model"))}
    usage: Any = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    choices: list[Any] = [
        {"index": at, "message": message, "finish_reason": reason} for at in range(body.get("n") or 1)
    ]
    whole = {**about, "object": "chat.completion", "choices": choices, "usage": usage}
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": piece} for piece in _pieces(text or "")]
    for at, call in enumerate(named):
        start = {**call, "index": at, "function": {"name": call["function"]["name"], "arguments": ""}}
        rest = [{"index": at, "function": {"arguments": piece}} for piece in _pieces(call["function"]["arguments"])]
        deltas += [{"role": "assistant", "tool_calls": [tool_call]} for tool_call in (start, *rest)]
    parts: list[Any] = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    parts.append({"index": 0, "delta": {}, "finish_reason": reason})
    chunks = [{**about, "object": "chat.completion.chunk", "choices": [part]} for part in parts]
    if (body.get("stream_options") or {}).get("include_usage"):
        chunks.append({**chunks[-1], "choices": [], "usage": usage})
    return whole, [*map(event, chunks), b"data: [DONE]\n\n"]


def _messages(turn: Turn, new_id: Any, body: Mapping[str, Any]) -> tuple[Any, list[bytes]]:
    blocks: list[dict[str, Any]] = [{"type": "text", "text": turn}] if isinstance(turn, str) else []
    texts = []
    for name, args in () if isinstance(turn, str) else turn:
        blocks.append({"type": "tool_use", "id": new_id(), "name": name, "input": args})
        texts.append(_args(args))
    reason = "end_turn" if isinstance(turn, str) else "tool_use"
    about = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": str(body.get("model")),
        "stop_sequence": None,
    }
    usage = {"input_tokens": 1, "output_tokens": 1}
    whole = {**about, "content": blocks, "stop_reason": reason, "usage": usage}
    events: list[Any] = [{"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}}]
    for at, block in enumerate(blocks):
        is_text = block["type"] == "text"
        start = {**block, "text": ""} if is_text else {**block, "input": {}}
        events.append({"type": "content_block_start", "index": at, "content_block": start})
        for piece in _pieces(block["text"] if is_text else texts[at]):
            delta = (
                {"type": "text_delta", "text": piece}
                if is_text
                else {"type": "input_json_delta", "partial_json": piece}
            )
            events.append({"type": "content_block_delta", "index": at, "delta": delta})
        events.append({"type": "content_block_stop", "index": at})
    events.append({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage})
    events.append({"type": "message_stop"})
    return whole, [*map(event, events)]


def _responses(turn: Turn, new_id: Any, body: Mapping[str, Any]) -> tuple[Any, list[bytes]]:
    items: list[dict[str, Any]] = []
    if isinstance(turn, str):
        content = [{"type": "output_text", "text": turn, "annotations": []}]
        items = [{"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": content}]
    for name, args in () if isinstance(turn, str) else turn:
        space, _, short = name.rpartition("/")
        call = {"id": f"fc_{next(_ids)}", "call_id": new_id(), "status": "completed", "name": short}
        if space == "custom":
            items.append({**call, "type": "custom_tool_call", "input": args})
        else:
            items.append(
                {**call, "type": "function_call", "arguments": _args(args), **({"namespace": space} if space else {})}
            )
    about = {"id": "resp_1", "object": "response", "created_at": 1, "model": str(body.get("model")), "tools": []}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    more = {"parallel_tool_calls": True, "tool_choice": "auto", "temperature": 1, "top_p": 1}
    whole = {**about, **more, "status": "completed", "output": items, "usage": usage}
    events: list[Any] = [{"type": "response.created", "response": {**whole, "status": "in_progress", "output": []}}]
    for at, item in enumerate(items):
        place = {"output_index": at, "item_id": item["id"]}
        events.append({"type": "response.output_item.added", "output_index": at, "item": item})
        if item["type"] == "message":
            about = {"type": "response.output_text.delta", **place, "content_index": 0}
            events += [{**about, "delta": piece} for piece in _pieces(item["content"][0]["text"])]
        elif item["type"] == "function_call":
            events.append({"type": "response.function_call_arguments.delta", **place, "delta": item["arguments"]})
            events.append({"type": "response.function_call_arguments.done", **place, "arguments": item["arguments"]})
        events.append({"type": "response.output_item.done", "output_index": at, "item": item})
    events.append({"type": "response.completed", "response": whole})
    return whole, [event({**payload, "sequence_number": at}) for at, payload in enumerate(events)]


def _generate_content(turn: Turn, new_id: Any, body: Mapping[str, Any]) -> tuple[Any, list[bytes]]:
    calls = [] if isinstance(turn, str) else turn
    parts: list[Any] = [{"functionCall": {"id": new_id(), "name": name, "args": args}} for name, args in calls]
    content = {"role": "model", "parts": [{"text": turn}] if isinstance(turn, str) else parts}
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    whole = {"candidates": [{"content": content, "finishReason": "STOP", "index": 0}], "usageMetadata": usage}
    return whole, [event(whole)]


_STREAM = ":streamGenerateContent"
_APIS = {
    "/chat/completions": _chat,
    "/messages": _messages,
    "/responses": _responses,
    ":generateContent": _generate_content,
    _STREAM: _generate_content,
}


def sse_events(text: str) -> list[dict[str, Any]]:
    """Returns the data of a stream's events."""
    lines = [line[6:] for line in text.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]
