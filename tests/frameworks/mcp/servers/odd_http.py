"""A server over streamable HTTP that pays first and then answers incorrectly: `odd_http.py PORT GET_STATUS ANSWER`.

GET_STATUS is the status of its answer to GET. ANSWER is its answer to a call after the payment: a status, `error` for
an error of JSON-RPC, `hang up` for no answer, or a key of ODD.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

BOOK = Path(os.environ["SHOP"])
REFUND = {
    "name": "refund",
    "inputSchema": {
        "type": "object",
        "properties": {"order_id": {"type": "string"}, "amount": {"type": "number"}},
        "required": ["order_id", "amount"],
    },
}

ODD: dict[str, tuple[bytes, dict[str, str]]] = {
    "no JSON": (b"paid!", {}),
    "no type": (b"paid!", {"Content-Type": "text/html"}),
    "too much": (b'{"jsonrpc":"2.0","id":' + b" " * (70 * 2**20) + b'1,"result":{}}', {}),
    "a bomb": (gzip.compress(b" " * (70 * 2**20)), {"Content-Encoding": "gzip"}),
    "an event without end": (b"data: " + b"x" * (70 * 2**20), {"Content-Type": "text/event-stream"}),
    "no event": (b": nothing\n\n", {"Content-Type": "text/event-stream"}),
}


class Odd(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.answer(int(sys.argv[2]))

    def do_DELETE(self) -> None:
        self.answer(200)

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        method, name = message.get("method"), message.get("id")
        if method == "initialize":
            about = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}
            self.result(name, {**about, "serverInfo": {"name": "odd", "version": "1"}})
        elif method == "tools/list":
            self.result(name, {"tools": [REFUND]})
        elif method == "tools/call":
            args = message["params"]["arguments"]
            with BOOK.open("a") as book:
                book.write(json.dumps(["refund", args["order_id"], args["amount"]]) + "\n")
            self.odd(name, sys.argv[3])
        else:
            self.answer(202)

    def odd(self, name: Any, kind: str) -> None:
        if kind == "hang up":
            self.close_connection = True
        elif kind == "error":
            self.answer(200, {"jsonrpc": "2.0", "id": name, "error": {"code": -32603, "message": "out of paper"}})
        elif kind in ODD:
            body, headers = ODD[kind]
            self.send(200, body, **headers)
        else:
            self.answer(int(kind))

    def result(self, name: Any, value: Any) -> None:
        self.answer(200, {"jsonrpc": "2.0", "id": name, "result": value})

    def answer(self, status: int, value: Any = None) -> None:
        self.send(status, b"" if value is None else json.dumps(value).encode())

    def send(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for header, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(header, value)
        self.send_header("Mcp-Session-Id", "s1")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Writes no log."""


ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Odd).serve_forever()
