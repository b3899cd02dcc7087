"""A scripted OpenAI-compatible server: real HTTP, so that the real client code runs."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

JSON = "application/json"


@dataclass(frozen=True)
class Reply:
    """The server's reaction to a request: a delay, an answer, and possibly a broken connection.

    `cut` ends the connection half way through the body; `drip` sends a byte of it now and then; `raw` sends the body
    alone, without what makes it HTTP, and ends the connection.
    """

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = JSON
    seconds: float = 0.0
    cut: bool = False
    drip: bool = False
    raw: bool = False


def text(content: str | None, *, seconds: float = 0.0, finish_reason: str = "stop", **message: Any) -> Reply:
    """A chat completion with some text, of 100 prompt tokens and 10 completion tokens."""
    choice = {
        "index": 0,
        "finish_reason": finish_reason,
        "message": {"role": "assistant", "content": content} | message,
    }
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    completion = {"id": "c", "object": "chat.completion", "created": 0, "model": "test", "choices": [choice]}
    return Reply(json.dumps(completion | {"usage": usage}).encode(), seconds=seconds)


def tool_call() -> Reply:
    function = {"name": "label", "arguments": '{"label": 0}'}
    calls = [{"id": "t", "type": "function", "function": function}]
    return text(None, finish_reason="tool_calls", tool_calls=calls)


def status(code: int, message: str = "no", param: str | None = None, *, seconds: float = 0.0, **headers: str) -> Reply:
    error = {"error": {"message": message, "type": "error", "param": param, "code": None}}
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(json.dumps(error).encode(), code, sent, seconds=seconds)


Script = Iterable[Reply] | Callable[[dict[str, Any]], Reply]


class ScriptedServer:
    """Answers requests by a script: replies in order, of which the last is repeated, or a function of the request.

    Attributes:
        requests: the bodies that came.
        keys: their Authorization headers.
        most: how many requests were being answered at once, at most.
        most_connections: how many connections were open at once, at most.
        open: how many are now.
    """

    def __init__(self, script: Script) -> None:
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.most = self.open = 0
        self._script = script if callable(script) else _in_order(script)
        self._lock = threading.Lock()
        self._over = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                server.answer(self)

            def log_message(self, *_: object) -> None:
                pass

        self._http = _Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"

    @property
    def most_connections(self) -> int:
        return self._http.most_connections

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._http.shutdown()
        self._http.end()
        self._thread.join()

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        body = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
        with self._counted(), contextlib.suppress(OSError):
            with self._lock:
                self.requests.append(body)
                self.keys.append(handler.headers.get("Authorization", ""))
                reply = self._script(body)
            self._send(handler, reply)

    def _send(self, handler: BaseHTTPRequestHandler, reply: Reply) -> None:
        if self._wait(handler, reply.seconds):
            return
        if reply.raw:
            handler.wfile.write(reply.body)
            handler.close_connection = True
            return
        handler.send_response(reply.status)
        for name, value in {"Content-Type": reply.content_type, **reply.headers}.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(reply.body)))
        handler.end_headers()
        if reply.cut:
            handler.wfile.write(reply.body[: len(reply.body) // 2])
            handler.close_connection = True
        elif reply.drip:
            for byte in reply.body:
                handler.wfile.write(bytes([byte]))
                if self._wait(handler, 0.1):
                    return
        else:
            handler.wfile.write(reply.body)

    def _wait(self, handler: BaseHTTPRequestHandler, seconds: float) -> bool:
        """Whether the client disconnected, or the server was stopped, within the time."""
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            if self._over.wait(0.01) or _gone(handler.connection):
                handler.close_connection = True
                return True
        return False

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        with self._lock:
            self.open += 1
            self.most = max(self.most, self.open)
        try:
            yield
        finally:
            with self._lock:
                self.open -= 1


class _Server(ThreadingHTTPServer):
    """Closes connections that clients keep alive, so that its threads end too."""

    daemon_threads = False
    request_queue_size = 256

    def __init__(self, *arguments: Any) -> None:
        self._connections: set[socket.socket] = set()
        self.most_connections = 0
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._connections.add(request)
        self.most_connections = max(self.most_connections, len(self._connections))
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores a client that disconnected."""

    def end(self) -> None:
        for connection in list(self._connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.server_close()


def _gone(connection: socket.socket) -> bool:
    try:
        return connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def _in_order(replies: Iterable[Reply]) -> Callable[[dict[str, Any]], Reply]:
    left = list(replies)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]
