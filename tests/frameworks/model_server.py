"""A scripted model behind the chat API of OpenAI, for the programs of docs/hosts/: what they send and get is real HTTP.

with model_server([[("refund", {"amount": 500})], "Sorry."]) as server:
    ...  # OPENAI_BASE_URL=server.url
server.requests  # what the program sent
"""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ModelTurn = str | Sequence[tuple[str, Mapping[str, Any]]]
"""A final text, or the calls of a message. After the last turn the model answers `done`."""

_ids = itertools.count(1)


class ModelServer(ThreadingHTTPServer):
    """Answers each request with the next turn, as one body or as a stream.

    Attributes:
        url: the base URL.
        requests: the bodies of the requests.
    """

    daemon_threads = True

    def __init__(self, turns: Sequence[ModelTurn]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v1"
        self.requests: list[dict[str, Any]] = []
        self._turns, self._lock = iter(turns), threading.Lock()

    def next_message(self, body: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            self.requests.append(body)
            return message(next(self._turns, "done"))


def message(turn: ModelTurn) -> dict[str, Any]:
    """Returns a turn as a message of the chat API."""
    if isinstance(turn, str):
        return {"role": "assistant", "content": turn}
    calls = [
        {"id": f"call_{next(_ids)}", "type": "function", "function": {"name": name, "arguments": json.dumps(args)}}
        for name, args in turn
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


class _Handler(BaseHTTPRequestHandler):
    server: ModelServer
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        next_message = self.server.next_message(body)
        reason = "tool_calls" if next_message.get("tool_calls") else "stop"
        about = {"id": "answer", "created": 0, "model": str(body.get("model"))}
        if not body.get("stream"):
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            choice = {"index": 0, "message": next_message, "finish_reason": reason}
            self._send(
                "application/json",
                json.dumps({**about, "object": "chat.completion", "choices": [choice], "usage": usage}),
            )
            return
        calls = [{"index": at, **tool_call} for at, tool_call in enumerate(next_message.get("tool_calls") or ())]
        parts = [{"role": "assistant", "content": part} for part in _pieces(next_message["content"])]
        deltas = [*parts, *([{"role": "assistant", "tool_calls": calls}] if calls else [])]
        choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
        choices.append({"index": 0, "delta": {}, "finish_reason": reason})
        lines = [json.dumps({**about, "object": "chat.completion.chunk", "choices": [choice]}) for choice in choices]
        self._send("text/event-stream", "".join(f"data: {line}\n\n" for line in [*lines, "[DONE]"]))

    def _send(self, kind: str, text: str) -> None:
        data = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: Any) -> None: ...


def _pieces(text: str | None) -> list[str]:
    return [text[at : at + 4] for at in range(0, len(text), 4)] if text else []


@contextlib.contextmanager
def model_server(turns: Sequence[ModelTurn]) -> Iterator[ModelServer]:
    """Runs a scripted model until the end of the block."""
    server = ModelServer(turns)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
