"""A scripted model behind the API of Gemini, for the programs of the page: what they send and get is real HTTP."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.frameworks.model_server import ModelTurn


class GeminiServer(ThreadingHTTPServer):
    """Answers each request with the next turn.

    Attributes:
        url: the base URL.
        requests: the bodies of the requests.
    """

    daemon_threads = True

    def __init__(self, turns: Sequence[ModelTurn]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.requests: list[dict[str, Any]] = []
        self._turns, self._lock = iter(turns), threading.Lock()

    def next_content(self, body: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            self.requests.append(body)
            turn = next(self._turns, "done")
        parts: list[dict[str, Any]] = [{"text": turn}] if isinstance(turn, str) else []
        for name, args in turn if not isinstance(turn, str) else ():
            parts.append({"functionCall": {"name": name, "args": args}})
        return {"role": "model", "parts": parts}


class _Handler(BaseHTTPRequestHandler):
    server: GeminiServer
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        candidate = {"content": self.server.next_content(body), "finishReason": "STOP", "index": 0}
        data = json.dumps({"candidates": [candidate], "modelVersion": "scripted"}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: Any) -> None: ...


@contextlib.contextmanager
def gemini_server(turns: Sequence[ModelTurn]) -> Iterator[GeminiServer]:
    """Runs a scripted model until the end of the block."""
    server = GeminiServer(turns)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
