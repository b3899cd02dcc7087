"""A server over streamable HTTP that pays first and then answers oddly: `odd_http.py PORT GET_STATUS ANSWER`.

GET_STATUS is the status of its answer to GET. ANSWER is what comes back of a call that was paid: a status, `error` for
an error of JSON-RPC, or `hang up` for nothing at all.
"""

from __future__ import annotations

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
        else:
            self.answer(int(kind))

    def result(self, name: Any, value: Any) -> None:
        self.answer(200, {"jsonrpc": "2.0", "id": name, "result": value})

    def answer(self, status: int, value: Any = None) -> None:
        body = b"" if value is None else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Mcp-Session-Id", "s1")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Odd).serve_forever()
