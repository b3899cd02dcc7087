"""A scripted model behind the Messages API, for the real program of the Claude Agent SDK: all of it is real HTTP.

A prompt names its script, as `script:KEY`, also that of a sub-agent; other prompts have the script with the empty key.
The turn is the number of answers after that prompt, so that a repeated request gets the same turn.

with messages_server({"k1": [[("mcp__shop__refund", {"amount": 500})], "Sorry."]}) as server:
    ...  # ANTHROPIC_BASE_URL=server.url
server.requests  # the requests of scripts
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import threading
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from guardagent.testing.conformance import OneId, written

ModelTurn = str | Sequence[str | tuple[str, Mapping[str, Any] | str]]
"""A final text, or the calls of a message, also with text beside them. After the last turn the model answers `done`."""

_KEY = re.compile(r"script:(\w+)")
_ids = itertools.count(1)


class MessagesServer(ThreadingHTTPServer):
    """Answers each request with the turn of its script.

    Attributes:
        url: the base URL.
        scripts: key -> turns.
        requests: the bodies of the requests that named a script.
    """

    daemon_threads = True

    def __init__(self, scripts: MutableMapping[str, Sequence[ModelTurn]]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.scripts, self.requests = scripts, list[dict[str, Any]]()
        self.paths: list[str] = []

    def blocks(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        """Returns the content of the answer to a request."""
        key, turn = _place(body["messages"])
        if key not in self.scripts or not body.get("tools"):
            return [{"type": "text", "text": "ok"}]  # a request of the program's own, such as one for a title
        self.requests.append(body)
        turns = self.scripts[key]
        return content(turns[turn] if turn < len(turns) else "done")


def content(turn: ModelTurn) -> list[dict[str, Any]]:
    """Returns a turn as content of the Messages API."""
    blocks = [_block(part) for part in ([turn] if isinstance(turn, str) else turn)]
    return [{**block, "id": blocks[0]["id"]} for block in blocks] if isinstance(turn, OneId) else blocks


def _block(part: str | tuple[str, Mapping[str, Any] | str]) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    return {"type": "tool_use", "id": f"toolu_{next(_ids):08}", "name": part[0], "input": part[1]}


def _place(messages: Sequence[Mapping[str, Any]]) -> tuple[str, int]:
    key, turn = "", 0
    for message in messages:
        if message["role"] == "assistant":
            turn += 1
        elif keys := _KEY.findall(_prompt(message["content"])):
            key, turn = keys[-1], 0
    return key, turn


def _prompt(message_content: Any) -> str:
    """Returns the text of a message without the results of tools."""
    if isinstance(message_content, str):
        return message_content
    return "\n".join(str(block["text"]) for block in message_content if block.get("type") == "text")


class _Handler(BaseHTTPRequestHandler):
    server: MessagesServer
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        self.server.paths.append(self.path)
        if "count_tokens" in self.path:
            return self._send("application/json", json.dumps({"input_tokens": 1}))
        if not self.path.startswith("/v1/messages"):
            return self._send("application/json", "{}")
        blocks = self.server.blocks(body)
        calls = any(block["type"] == "tool_use" for block in blocks)
        message = {
            "id": f"msg_{next(_ids):08}",
            "type": "message",
            "role": "assistant",
            "model": body.get("model"),
            "content": blocks,
            "stop_reason": "tool_use" if calls else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
        if not body.get("stream"):
            return self._send("application/json", json.dumps(message))
        return self._send("text/event-stream", "".join(_events(message)))

    def do_GET(self) -> None:
        self.server.paths.append(self.path)
        self._send("application/json", "{}")

    def do_HEAD(self) -> None:
        self.do_GET()

    def _send(self, kind: str, text: str) -> None:
        data = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, *args: Any) -> None: ...


def _events(message: dict[str, Any]) -> Iterator[str]:
    yield _event("message_start", message={**message, "content": [], "stop_reason": None})
    for at, block in enumerate(message["content"]):
        calls = block["type"] == "tool_use"
        yield _event(
            "content_block_start", index=at, content_block={**block, **({"input": {}} if calls else {"text": ""})}
        )
        if calls:
            delta = {"type": "input_json_delta", "partial_json": written(block["input"])}
            yield _event("content_block_delta", index=at, delta=delta)
        else:
            for piece in _pieces(block["text"]):
                yield _event("content_block_delta", index=at, delta={"type": "text_delta", "text": piece})
        yield _event("content_block_stop", index=at)
    ended = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield _event("message_delta", delta=ended, usage={"output_tokens": 1})
    yield _event("message_stop")


def _event(kind: str, **fields: Any) -> str:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n"


def _pieces(text: str) -> list[str]:
    return [text[at : at + 4] for at in range(0, len(text), 4)]


@contextlib.contextmanager
def messages_server(scripts: MutableMapping[str, Sequence[ModelTurn]]) -> Iterator[MessagesServer]:
    """Runs a scripted model until the end of the block."""
    server = MessagesServer(scripts)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
